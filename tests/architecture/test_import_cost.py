"""The number of modules that importing the package, and first calls, load."""

import os
import subprocess
import sys

import pytest

# Numba alone takes longer to import than many a program takes to run. The last five are things
# that a test or an example uses, and the library must never need.
DEFERRED = ("numba", "llvmlite", "scipy", "cuda", "nvmath", "jax", "ml_dtypes", "autograd")
DEFERRED += ("matplotlib", "IPython")


def modules_loaded_by(code):
    """The top-level modules in a fresh interpreter after running `code`."""
    script = f"{code}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.dear
def test_importing_the_package_loads_nothing_of_other_devices():
    script = "import functrans, sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "functrans" in loaded
    assert not [name for name in loaded if name.startswith("functrans.run.cuda")]


@pytest.mark.dear
def test_the_measurement_sees_what_is_loaded():
    assert "numba" in modules_loaded_by("import numba")


@pytest.mark.parametrize("module", ["functrans", "functrans.errors", "functrans.tree"])
def test_importing_the_package_loads_nothing_slow(module):
    loaded = modules_loaded_by(f"import {module}")
    assert "functrans" in loaded
    assert not loaded & set(DEFERRED)


# What takes long among the modules of Python, or is for machine code.
HEAVY = {"email", "importlib.metadata", "json", "zipfile", "socket", "ctypes.util", "unittest"}
HEAVY |= {"numpy.random", "numpy.fft", "numpy.polynomial", "numpy.f2py"}
FIRST_GRADIENT = """
import numpy as np
from functrans import grad
grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2))(np.ones(3), np.ones((5, 3)))
"""


@pytest.mark.dear
@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("import functrans", 41),
        ("import functrans.numpy as np", 41),
        ("from functrans import grad, value_and_grad, vjp", 120),
        (FIRST_GRADIENT, 145),
    ],
    ids=["import", "namespace", "names", "gradient"],
)
def test_what_is_not_used_is_not_loaded(code, most):
    script = f"import numpy, sys\nbefore = {{*sys.modules}}\n{code}\n"
    script += "print(*sys.modules.keys() - before)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert len([name for name in loaded if name.partition(".")[0] == "functrans"]) <= most
    assert not HEAVY & set(loaded)


# What a first call whose machine code is on disk has no use for, and what making that code takes.
MAKING = ("functrans.emit", "functrans.lower", "functrans.optimise", "functrans.loop.target")
MAKING += ("functrans.run.code.native", "llvmlite", "numba", "scipy")
ON_DISK = """
import numpy as np
from functrans import grad, jit
from functrans.scipy import special
x, a = np.full(20, 0.5), np.eye(3) + 0.1
import sys
before = {{*sys.modules}}
jit(grad(lambda {argument}: np.sum({result})))({argument})
print(*sys.modules.keys() - before)
"""


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.skipif(
    (sys.platform, os.uname().machine if hasattr(os, "uname") else "") != ("linux", "x86_64"),
    reason="elsewhere LLVM loads the code",
)
@pytest.mark.parametrize(
    ("argument", "result", "most"),
    [
        ("x", "x * x", 90),
        ("x", "special.expit(x)", 90),
        ("a", "a @ a @ a", 95),
        ("a", "np.linalg.solve(a, a.T)", 110),
    ],
)
def test_what_is_on_disk_is_called_without_what_makes_it(argument, result, most, tmp_path):
    script = ON_DISK.format(argument=argument, result=result)

    def loaded():
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"FUNCTRANS_CACHE": "1", "FUNCTRANS_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    def making(names):
        return [name for name in names if name.startswith(MAKING)]

    assert making(loaded())
    second = loaded()
    assert not making(second)
    assert not HEAVY & set(second)
    assert len([name for name in second if name.partition(".")[0] == "functrans"]) <= most


GRID = ("functrans.lower.grid", "functrans.emit.cuda", "functrans.run.cuda")
SELDOM = ("functrans.lower.checks", "functrans.lower.printing", "functrans.loop.text")
SELDOM += ("functrans.lower.select.assembly", "functrans.lower.product.streaming")
COMPILED_HERE = """
import sys
import numpy as np
from functrans import grad, jit
jit(grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2)))(np.ones((40, 3)), np.ones((500, 40)))
print(*sys.modules)
"""


@pytest.mark.dear
def test_a_program_for_the_cpu_is_compiled_without_what_a_gpu_or_few_programs_need():
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_HERE],
        env=os.environ | {"FUNCTRANS_CACHE": "0", "FUNCTRANS_CHECK_PLANS": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.split()
    assert "functrans.lower.pipeline" in loaded
    assert not [name for name in loaded if name.startswith((*GRID, *SELDOM))]
