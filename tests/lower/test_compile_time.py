"""The compiler's work, which is counted, grows linearly with the program."""

import sys

import numpy as np
import pytest

from functrans import config, grad, jit
from functrans.loop.functions import MANY
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, evaluate
from functrans.loop.simplify import Simplifier


def sines(n):
    def chain(x):
        for _ in range(n):
            x = np.sin(x)
        return x

    return chain


def mixed(n):
    def f(x):
        y = x
        for _ in range(n):
            a = np.sin(y) * y
            y = y + 0.1 * np.exp(-a * a) / (1.0 + y * y)
        return y

    return f


def steps(n):
    """Small arrays: the explicit Euler method for a pendulum."""

    def f(y):
        for _ in range(n):
            y = y + 0.01 * np.stack([y[1], -np.sin(y[0])])
        return np.sum(y * y)

    return f


def calls_of_the_compiler(function, x):
    """How many Python functions of ours are called to make the LLVM text of a program."""
    count = 0

    def count_calls(frame, event, _):
        nonlocal count
        if event == "call" and "functrans" in frame.f_code.co_filename:
            count += 1

    lowered = jit(function).lower(x)
    sys.setprofile(count_calls)
    try:
        lowered.llvm()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("family", "x"),
    [
        (sines, np.ones(100)),
        (mixed, np.ones(100)),
        (mixed, 0.5),
        (steps, np.ones(2)),
        (lambda n: grad(steps(n)), np.ones(2)),
        (lambda n: grad(mixed(n)), 0.5),
    ],
)
def test_twice_the_program_is_twice_the_work(family, x, monkeypatch):
    monkeypatch.setattr(config, "check_plans", False)
    calls_of_the_compiler(family(3), x)  # what is done once in a process
    small, large = (calls_of_the_compiler(family(n), x) for n in (40, 80))
    # not exactly twice, since the first steps have a shorter form; a quadratic part would give 4
    assert large < 2.6 * small


def test_a_function_that_a_kernel_has_many_of_is_called():
    # of a large array, whose steps are not apart
    few, many = (jit(sines(n)).lower(np.ones(2000)).llvm() for n in (MANY // 2, 2 * MANY))
    assert "call" in many and "@often" in many and "@often" not in few
    assert len(many) < len(few)


@pytest.mark.parametrize("x", [np.linspace(-4.0, 4.0, 2001), np.linspace(-4.0, 4.0, 101), 0.7])
def test_called_functions_compute_the_same(x):
    for function in (sines(2 * MANY), mixed(2 * MANY)):
        np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-12)


def test_a_reshape_of_rows_needs_no_division():
    x = np.arange(8.0 * 6 * 64).reshape(8, 6 * 64)

    def heads(x):
        return np.exp(np.transpose(np.reshape(x, (8, 6, 64)), (1, 0, 2)) * 1e-3).reshape(6, -1)

    compiled = jit(heads)
    np.testing.assert_allclose(compiled(x), heads(x), rtol=1e-13)
    text = compiled.lower(x).llvm()
    assert "x i64> " not in "".join(line for line in text.splitlines() if "div" in line)


@pytest.mark.parametrize("divisor", [2, 3, 4, 6, 8, 12, 24, 32, 100])
@pytest.mark.parametrize("factor", [1, 3, 4, 12, 24, 96, 128])
@pytest.mark.parametrize("second", [1, 2, 6, 7])
def test_quotients_and_remainders_of_indices(divisor, factor, second):
    outer, inner = index("i", 5), index("j", 24)
    position = outer * factor + inner + 5
    values = {outer: np.arange(5)[:, None], inner: np.arange(24)}
    simplify = Simplifier()
    for op in ("idiv", "irem"):
        once = Scalar(op, (position, Scalar("const", (), INDEX, divisor)), INDEX)
        twice = Scalar("idiv", (once, Scalar("const", (), INDEX, second)), INDEX)
        for node in (once, twice):
            shape = (5, 24)
            given = np.broadcast_to(evaluate(node, values), shape)
            np.testing.assert_array_equal(
                np.broadcast_to(evaluate(simplify(node), values), shape), given
            )
