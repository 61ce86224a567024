"""What a process imports that finds its machine code on disk: neither LLVM nor SciPy."""

import subprocess
import sys
from os import environ

import pytest

PROGRAMS = {
    "product": "lambda x: x @ x.T @ x",
    "solve": "lambda x: np.linalg.solve(x.T @ x + np.eye(40), x[0])",
    "spectrum": "lambda x: np.linalg.eigh(x.T @ x)[0]",
    "logaddexp": "grad(lambda x: np.sum(np.logaddexp(x, 1.0)))",
    "logsumexp": "grad(lambda x: special.logsumexp(x))",
    "expit": "grad(lambda x: np.sum(special.expit(x)))",
    "gammaln": "grad(lambda x: np.sum(special.gammaln(x * x + 1)))",
    "gammainc": "grad(lambda x: np.sum(special.gammainc(2.0, x * x + 1)))",
    "xlogy": "lambda x: special.xlogy(2, special.digamma(x * x + 1))",
    "normal": "grad(lambda x: np.sum(norm.logpdf(x)))",
    "normal, below": "grad(lambda x: np.sum(norm.cdf(x)))",
}

SCRIPT = """
import sys
import numpy as np
from functrans import grad, jit
from functrans.scipy import special
from functrans.scipy.stats import norm

x = np.random.default_rng(0).standard_normal((40, 40))
before = set(sys.modules)
jit({})(x)
new = set(sys.modules) - before
print(*sorted(name for name in new if name.partition(".")[0] in {{"scipy", "llvmlite", "numba"}}))
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_code_on_disk_needs_no_import(program, tmp_path):
    settings = {**environ, "FUNCTRANS_CACHE": "1", "FUNCTRANS_CACHE_DIR": str(tmp_path)}
    settings["FUNCTRANS_CHECK_PLANS"] = "0"
    command = [sys.executable, "-c", SCRIPT.format(PROGRAMS[program])]

    def imported():
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert "llvmlite" in imported()  # to compile it
    assert imported() == []
