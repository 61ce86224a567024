"""A process that finds its machine code on disk imports neither LLVM nor SciPy."""

import json
import subprocess
import sys
from os import environ

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

TABLE = ", ".join(f"{name!r}: {text}" for name, text in PROGRAMS.items())

SCRIPT = f"""
import json, sys
import numpy as np
from functrans import grad, jit
from functrans.run.code import cache
from functrans.scipy import special
from functrans.scipy.stats import norm

x = np.random.default_rng(0).standard_normal((40, 40))
for name, program in {{{TABLE}}}.items():
    before, compiled = set(sys.modules), cache.statistics().compiled
    jit(program)(x)
    new = {{each.partition(".")[0] for each in set(sys.modules) - before}}
    new = sorted(new & {{"scipy", "llvmlite", "numba"}})
    print(json.dumps([name, [cache.statistics().compiled - compiled, *new]]))
"""


def test_code_on_disk_needs_no_import(tmp_path):
    settings = {**environ, "FUNCTRANS_CACHE": "1", "FUNCTRANS_CACHE_DIR": str(tmp_path)}
    settings["FUNCTRANS_CHECK_PLANS"] = "0"

    def found():
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        return dict(map(json.loads, done.stdout.splitlines()))

    compiled = found()
    assert compiled.keys() == PROGRAMS.keys()
    assert all(count for count, *_ in compiled.values())
    assert "llvmlite" in next(iter(compiled.values()))  # to compile it
    assert found() == {name: [0] for name in PROGRAMS}
