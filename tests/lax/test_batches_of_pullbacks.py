"""Batches of pullbacks of loops, whose residuals are stacks of a length known at run time."""

import numpy as np
import pytest

from functrans import jit, lax, vjp, vmap
from functrans.errors import DtypeError, UnsupportedNumPyError

X = np.array([[1.0, 2.0], [0.5, 4.0], [0.7, 0.2]])
STEP = 1e-6


def steps(count, step):
    def function(x):
        return lax.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, step(*c)), (0, x))[1]

    return function


LOOPS = {
    "a stack of each lane, and one of all": steps(3, lambda i, c: np.sin(c) * np.exp(-1.0 * i)),
    "a stack of all": steps(3, lambda i, c: c * np.exp(-1.0 * i)),
    "no step": steps(0, lambda i, c: np.sin(c)),
}


def pullbacks(function, depth):
    made = lambda x: vjp(function, x)[1]  # noqa: E731
    for _ in range(depth):
        made = vmap(made)
    return made


def pulled(pullbacks, depth):
    pull = lambda pullback: pullback(1.0)[0]  # noqa: E731
    for _ in range(depth):
        pull = vmap(pull)
    return pull(pullbacks)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("compiled", [lambda f: f, jit])
def test_stacks_that_lanes_share(loop, compiled):
    function = LOOPS[loop]
    expected = [[(function(x + STEP) - function(x - STEP)) / (2 * STEP) for x in row] for row in X]
    one = compiled(lambda x: pulled(pullbacks(function, 1)(x), 1))(X[0])
    np.testing.assert_allclose(one, expected[0], rtol=1e-6)
    two = compiled(lambda x: pulled(pullbacks(function, 2)(x), 2))(X)
    np.testing.assert_allclose(two, expected, rtol=1e-6)
    same = compiled(lambda x: pulled(vmap(lambda _: pullbacks(function, 1)(x))(X[:, 0]), 2))(X[0])
    np.testing.assert_allclose(same, [expected[0]] * 3, rtol=1e-6)


@pytest.mark.parametrize("compiled", [lambda f: f, jit])
def test_loops_in_loops(compiled):
    inner = LOOPS["a stack of all"]
    nested = steps(2, lambda i, c: inner(np.sin(c)))
    with pytest.raises(UnsupportedNumPyError, match="call the pullback within the vmap that makes"):
        compiled(lambda x: pulled(pullbacks(nested, 1)(x), 1))(X[0])


def test_lanes_with_different_numbers_of_steps():
    def function(x):
        return lax.while_loop(lambda x: x < 5.0, lambda x: x + np.exp(-x), x)

    with pytest.raises(DtypeError, match="an array of arrays: pad them to one length; if they are"):
        pulled(pullbacks(function, 1)(X[0]), 1)
