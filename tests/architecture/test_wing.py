"""GPU code is separable: a copy of the package without it compiles programs for a CPU.

GPU code is in folders and files called `grid` or `cuda`. Other code refers to it only by lazy names
(`functrans.lazily.lazy`), which are resolved when a GPU is used.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "functrans"
WING = {"grid", "cuda", "grid.py", "cuda.py"}

IMPORT_ALL = """
import pkgutil
from importlib import import_module
import functrans
for module in pkgutil.walk_packages(functrans.__path__, "functrans."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
"""

# one of each operation that a grid has a form of its own for, and the passes that it has
PROGRAMS = """
import numpy as np
from functrans import config, grad, hessian, jit, lax, vmap
from functrans.scipy import special

config.check_plans = True
rng = np.random.default_rng(0)
x, a, b = rng.normal(size=(300, 20)), rng.normal(size=(9, 20, 20)), rng.normal(size=(9, 20, 3))
spd = a @ a.swapaxes(1, 2) + 20 * np.eye(20)
i = rng.integers(0, 20, 500)


def scattered(x, y):
    z = x.copy()
    z[i] = y[:500]
    return z + np.bincount(i, y[:500], minlength=20)


def recurrent(w, h, xs):
    return lax.scan(lambda h, x: (np.tanh(w @ h + x), np.sum(h)), h, xs)


def attention(q, k, v):
    scores = q @ k.T
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True) @ v


cases = [
    (lambda x: np.sum(np.sin(x) @ x.T), x),
    (grad(lambda x: np.sum(special.gammaln(x * x + 1) / (1 + x * x))), x),
    (attention, x, x[:40], x[:40]),
    (grad(lambda q: np.sum(attention(q, x[:40], x[:40]) ** 2)), x),
    (hessian(lambda p: np.sum(np.tanh(x @ p) ** 2)), x[0]),
    (vmap(grad(lambda r: np.sum(np.cumsum(r) * r))), x),
    (recurrent, a[0] / 20, x[0], x),
    (grad(lambda w: np.sum(recurrent(w, x[0], x)[1])), a[0] / 20),
    (scattered, x[0], x.ravel()),
    (lambda x: (np.sort(x, 0), np.argsort(x, 1), np.argmax(x, 1)), x),
    (lambda x: (np.cumsum(x, 0), np.cumprod(x, 1)), x),
    (np.linalg.solve, spd, b),
    (lambda s: (np.linalg.cholesky(s), np.linalg.inv(s), np.linalg.slogdet(s)[1]), spd),
    (lambda s: (np.linalg.eigvalsh(s), np.linalg.svd(s, compute_uv=False)), spd),
    (lambda s: (np.linalg.pinv(s), np.linalg.qr(s)[1]), spd),
    (lambda z: np.linalg.eigvalsh(z + 1j * (z - z.swapaxes(1, 2))), spd),
    (lambda x: np.fft.ifft2(np.fft.fft2(x) * 2).real, x),
    (lambda x: np.convolve(x[:, 0], x[:7, 1]), x),
]
for function, *args in cases:
    found, wanted = jit(function)(*args), function(*args)
    pairs = zip(found, wanted) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
print(len(cases))
"""


@pytest.fixture(scope="module")
def without_the_wing(tmp_path_factory):
    """A copy of the package without the wing, and how many files that is."""
    copy = tmp_path_factory.mktemp("cpu") / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", *WING))
    return copy.parent


def run(script, root):
    environment = {**os.environ, "PYTHONPATH": str(root), "FUNCTRANS_CACHE": "0"}
    script = f"import functrans\nassert functrans.__file__.startswith({str(root)!r})\n{script}"
    return subprocess.run(
        [sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, text=True
    )


def test_the_wing_is_there():
    folders = {path.parent.name for path in PACKAGE.rglob("*") if path.name in WING}
    assert {"emit", "loop", "lower", "optimise", "run", "compiled"} <= folders


@pytest.mark.dear
def test_without_the_wing_every_other_module_is_imported(without_the_wing):
    done = run(IMPORT_ALL, without_the_wing)
    assert done.returncode == 0, done.stderr


@pytest.mark.dear
def test_without_the_wing_programs_are_compiled_for_a_cpu(without_the_wing):
    done = run(PROGRAMS, without_the_wing)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == PROGRAMS.count("\n    (")
