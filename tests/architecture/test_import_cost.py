"""Importing the package loads nothing that is slow to load."""

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


def test_importing_the_package_loads_nothing_of_other_devices():
    script = "import functrans, sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "functrans.api.devices" in loaded
    assert not [name for name in loaded if name.startswith("functrans.run.cuda")]


def test_the_measurement_sees_what_is_loaded():
    assert "numba" in modules_loaded_by("import numba")


@pytest.mark.parametrize("module", ["functrans", "functrans.errors", "functrans.tree"])
def test_importing_the_package_loads_nothing_slow(module):
    loaded = modules_loaded_by(f"import {module}")
    assert "functrans" in loaded
    assert not loaded & set(DEFERRED)
