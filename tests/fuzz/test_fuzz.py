"""The fuzzer finds no failures in a few programs, and finds planted ones."""

import os
import subprocess
import sys

import numpy as np
import pytest

import functrans
from functrans import jit
from functrans.errors import PlanError
from functrans.loop.target import CPU
from functrans.ops.reductions.compiled import running
from functrans.run.code import host
from tests.fuzz import checks, programs, thresholds
from tests.fuzz.__main__ import attempt
from tests.fuzz.operations import Drawn
from tests.targets import RECORDS


@pytest.mark.few(20)
@pytest.mark.parametrize("number", range(60))
def test_nothing_is_wrong(number):
    assert attempt(0, number) is None


@pytest.mark.parametrize("name", thresholds.LOW)
def test_thresholds_are_those_of_the_target(name):
    options = thresholds.LOW[name]
    real = CPU[RECORDS[name]] if name in RECORDS else getattr(CPU, name)
    if isinstance(options, dict):
        for inner, each in options.items():
            assert each[-1] == getattr(real, inner), f"the last option of {name}.{inner} is real"
    else:
        assert options[-1] == real


def test_thresholds_are_as_before_afterwards():
    before = host.target()
    with thresholds.drawn(np.random.default_rng(0)) as changed:
        assert changed and host.target() != before
        assert host.target().vector_bytes == before.vector_bytes
    assert host.target() == before


def program(text, apply, *inputs):
    return programs.Program(inputs, (Drawn(text, (0,), apply),), (len(inputs),))


def is_traced(x):
    return not issubclass(type(x), (np.ndarray, np.generic))


def test_a_wrong_number_is_found_in_every_mode():
    def off(x):
        return np.sin(x) * (1 + 1e-6 * is_traced(x))

    rng = np.random.default_rng(0)
    wrong = program("off", off, rng.normal(size=(3, 17)))
    for check in (checks.call, checks.donated, checks.batched):
        with pytest.raises(checks.Mismatch, match="wrong, at"):
            check(wrong, rng)
    with pytest.raises(checks.Mismatch, match=r"a forked process|wrong, at"):
        checks.in_a_child(wrong, rng)


def test_a_wrong_derivative_is_found():
    @functrans.custom_jvp
    def sine(x):
        return np.sin(x)

    sine.defjvps(lambda dx, out, x: dx * np.cos(x) * 1.01)
    rng = np.random.default_rng(0)
    wrong = program("sine", lambda x: sine(x), rng.normal(size=(3, 17)))
    with pytest.raises(checks.Mismatch, match="along a line"):
        checks.gradient(wrong, rng)


def test_other_shapes_and_dtypes_are_found():
    with pytest.raises(checks.Mismatch, match=r"is float32\(2,\), not float64\(2,\)"):
        checks.compare("it", [np.zeros(2, np.float32)], [np.zeros(2)], [])
    with pytest.raises(checks.Mismatch, match=r"is float64\(\), not float64\(1,\)"):
        checks.compare("it", [np.float64(0)], [np.zeros(1)], [])
    with pytest.raises(checks.Mismatch, match="1 of 3 wrong"):
        checks.compare("it", [np.array([1, 2, 3])], [np.array([1, 2, 4])], [])
    nan = np.array([np.nan, 1.0])
    checks.compare("it", [nan], [nan], [[nan]])


def test_what_fails_is_made_small():
    rng = np.random.default_rng(3)
    drawn = programs.draw(rng)
    while len(drawn.steps) < 8:
        drawn = programs.draw(rng)
    wanted = drawn.steps[4].text
    small = programs.shrunk(drawn, lambda p: any(step.text == wanted for step in p.steps))
    assert len(small.steps) < len(drawn.steps)
    assert any(step.text == wanted for step in small.steps)


def test_a_fault_of_the_planner_is_found(monkeypatch):
    """Running sums that begin where nothing was written, as if one of their loops had got lost."""
    real = running.row_by_row
    monkeypatch.setattr(running, "row_by_row", lambda *given: real(*given)[1:])
    with pytest.raises(PlanError, match=r"read before it is written|is not written"):
        jit(lambda x: np.cumsum(x, axis=0) + 41.0)(np.ones((4, 8)))


@pytest.mark.full
def test_a_process_that_goes_down_is_a_failure(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if '--worker' in sys.argv and '--first' in sys.argv:\n"
        "    first = int(sys.argv[sys.argv.index('--first') + 1])\n"
        "    print(f'begin {first}', flush=True)\n"
        "    os._exit(0 if first >= 2 else 11)\n"
    )
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", "60"]

    path = os.pathsep.join([str(tmp_path), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 1
    assert found.stdout.count("the process ended with 11") == 2
    assert "2 failures" in found.stdout


def test_cotangents_of_half_precision_that_cancel_are_uncertain():
    def halves(x):
        return x.astype(np.float16)[None] * np.float16(64) * np.array([[1], [-1]], np.float16)

    x = np.full(17, 0.5)
    loss, other = checks.losses_of(program("halves", halves, x), np.random.default_rng(0))
    assert np.any(functrans.grad(loss)(x) != functrans.grad(other)(x))
    (_,) = checks.losses_of(program("sin", np.sin, x), np.random.default_rng(0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_off_by_a_part_is_found_in_every_precision(dtype):
    """Numbers of few digits may be off by their rounding, and not by as much as one likes."""
    factor = {np.float16: 1.25, np.float32: 1.02, np.float64: 1 + 1e-6}[dtype]

    def off(x):
        y = np.sin(np.sin(x).astype(dtype))
        return y * dtype(factor) if is_traced(x) else y

    rng = np.random.default_rng(1)
    wrong = program("off", off, rng.normal(size=(3, 17)))
    right = program("right", lambda x: np.sin(np.sin(x).astype(dtype)), rng.normal(size=(3, 17)))
    for check in (checks.call, checks.batched, checks.gradient, checks.second_order):
        check(right, rng)
    for check in (checks.call, checks.batched):
        with pytest.raises(checks.Mismatch, match="wrong, at"):
            check(wrong, rng)
