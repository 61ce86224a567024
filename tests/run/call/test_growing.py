"""Loops whose number of steps is found on the way, compiled against NumPy's evaluation."""

from functools import partial

import numpy as np
import pytest

from functrans import grad, lax, trace
from functrans.errors import StepLimitError
from functrans.ops.control.compiled import growing
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


@pytest.mark.parametrize("limit", [None, 40])
@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 40])
def test_the_same_as_by_numpy(limit, steps):
    forward, backward = loops_of(grad(repeated(limit)), 0.5, 1.0)
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


def test_one_step_too_many():
    forward, _ = loops_of(grad(repeated(10)), 0.5, 1.0)
    with pytest.raises(StepLimitError, match="max_steps=10"):
        growing.run_while(forward, [np.float64(11.0), 0.0, 0.5], NATIVE)
    assert growing.run_while(forward, [np.float64(10.0), 0.0, 0.5], NATIVE)[2] == 10
