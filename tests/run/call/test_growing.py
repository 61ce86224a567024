"""Loops with growing stacks of residuals, compiled, against evaluation with NumPy."""

from functools import partial

import numpy as np
import pytest

from functrans import grad, jit, lax, trace, vmap
from functrans.errors import StepLimitError
from functrans.ops.control.compiled import growing
from functrans.ops.control.layout import applied_once
from functrans.ops.control.while_loop import while_p
from functrans.run.call.compiled import compiled_part

NATIVE = partial(compiled_part, backend="native")


def loops_of(function, *args):
    graph = trace(function)(*args)
    by_name = {eqn.primitive.name: eqn for eqn in graph.eqns}
    return by_name["while_loop"], by_name["counted_scan"]


def repeated(limit):
    def f(x, bound):
        def body(s):
            return s[0] + 1.0, np.sin(s[1]) * 1.1

        return lax.while_loop(lambda s: s[0] < bound, body, (0.0, x), max_steps=limit)[1]

    return f


@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 40])
def test_the_same_as_by_numpy(steps):
    forward, backward = loops_of(grad(repeated(None)), 0.5, 1.0)
    values = [np.float64(steps), 0.0, 0.5]  # the bound, the counter, the value
    expected = while_p.numpy(*values, **forward.params)
    found = growing.run_while(forward, values, NATIVE)
    assert found is not None
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a[:steps] if np.ndim(a) else a, b[:steps] if np.ndim(b) else b)

    count, stacks = expected[2], expected[3:]
    inputs = [count, *([1.0] * (len(backward.inputs) - 1 - len(stacks))), *stacks]
    expected = backward.primitive.numpy(*inputs, **backward.params)
    found = growing.run_scan(backward, inputs, NATIVE)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("steps", [0, 1, 39, 40])
def test_a_loop_with_a_limit_is_compiled_whole(steps):
    slope = grad(repeated(40))
    compiled = jit(slope)
    assert "call NumPy" not in compiled.lower(0.5, 1.0).schedule()
    np.testing.assert_allclose(compiled(0.5, float(steps)), slope(0.5, float(steps)), rtol=1e-12)
    # of the stacks, what is behind the last step is zeros
    forward, _ = loops_of(slope, 0.5, 1.0)
    graph = applied_once(while_p, [x.aval for x in forward.inputs], forward.params)
    values = [np.float64(steps), 0.0, 0.5]
    expected = while_p.numpy(*values, **forward.params)
    for found, each in zip(NATIVE(graph)(*values), expected, strict=True):
        np.testing.assert_allclose(found, each)


def test_one_step_too_many():
    slope = jit(grad(repeated(10)))
    assert slope(0.5, 10.0) == pytest.approx(grad(repeated(10))(0.5, 10.0))
    with pytest.raises(StepLimitError, match="max_steps=10"):
        slope(0.5, 11.0)
    assert slope(0.5, 10.0) == pytest.approx(grad(repeated(10))(0.5, 10.0))


def test_one_lane_with_a_step_too_many():
    slopes = jit(vmap(grad(repeated(10)), in_axes=(None, 0)))
    with pytest.raises(StepLimitError, match="max_steps=10"):
        slopes(0.5, np.array([3.0, 11.0]))
    found = slopes(0.5, np.array([3.0, 10.0, 0.0]))
    np.testing.assert_allclose(found, [grad(repeated(10))(0.5, n) for n in (3.0, 10.0, 0.0)])
