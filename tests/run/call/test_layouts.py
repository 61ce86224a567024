"""Programs are called natively only if Python objects have the layout that native code expects."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from functrans import grad, jit
from functrans.run.call import layouts, memory, numpy_interface

ROOT = Path(__file__).parents[3]

RAN_PORTABLY = """
call/test_programs.py call/test_donation.py call/test_inputs.py call/test_many_arrays.py
call/test_recycling.py threads/test_threads.py
""".split()


def test_they_hold_here():
    assert layouts.hold()


@pytest.mark.parametrize("name", ["TYPE", "NUMBER", "DATA", "AXES", "EXTENTS", "DTYPE", "FLAGS"])
@pytest.mark.parametrize("shift", [-8, 8, 16])
def test_objects_that_are_laid_out_otherwise_are_noticed(name, shift, monkeypatch):
    monkeypatch.setattr(layouts, name, getattr(layouts, name) + shift)
    assert not layouts.hold.__wrapped__()


@pytest.fixture
def otherwise(monkeypatch):
    monkeypatch.setattr(layouts, "hold", lambda: False)


def test_the_portable_call_gives_the_same(otherwise):
    def loss(p, x):
        return np.sum(np.tanh(x @ p["w"] + p["b"]) ** 2) * p["scale"]

    rng = np.random.default_rng(0)
    p = {"w": rng.normal(size=(300, 200)), "b": np.zeros(200), "scale": 0.5}
    x = rng.normal(size=(400, 300))
    slope = jit(grad(loss))
    found = slope(p, x)
    program = slope.lower(p, x)._program().whole
    assert type(program._entry) is type(lambda: 0)
    expected = grad(loss)(p, x)
    for name in p:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(slope(p, np.asfortranarray(x))["w"], found["w"])


def test_the_portable_call_raises_what_the_other_does(otherwise):
    find = jit(lambda x, i: x[i] * 1.25)
    assert find(np.arange(4.0), np.int64(2)) == 2.5
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        jit(np.linalg.inv)(np.zeros((3, 3)))


def test_an_allocator_is_set_only_in_a_numpy_that_is_known(monkeypatch):
    assert memory._interface() is not None
    monkeypatch.setattr(numpy_interface, "_KNOWN_BINARY", 0x3000000)
    monkeypatch.setattr(numpy_interface, "functions", numpy_interface.functions.__wrapped__)
    assert memory._interface() is None
    monkeypatch.setattr(memory, "_recycler", memory._recycler.__wrapped__)
    (result,) = memory.results([((300_000,), np.dtype(float))])
    assert np._core.multiarray.get_handler_name(result) == "default_allocator"


@pytest.mark.dear
def test_programs_behave_the_same_when_called_portably():
    tests = [str(Path("tests", "run", name)) for name in RAN_PORTABLY]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.run.portable",
            "-p",
            "no:xdist",
            *tests,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
