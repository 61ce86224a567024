"""Flattened functions: derivatives with respect to integers, of dtype float0, under transforms."""

import numpy as np
import pytest

from functrans import float0, grad, jit, jvp, lax, linearize, vjp, vmap
from functrans.errors import IntegerInputError


def scaled(x, n):
    return x * n


BOTH = grad(scaled, argnums=(0, 1), allow_int=True)
NONE = np.zeros((), float0)


@pytest.mark.parametrize(
    "transformed, shape",
    [
        (lambda: jit(BOTH)(2.0, 3), ()),
        (lambda: jit(jit(BOTH))(2.0, 3), ()),
        (lambda: vmap(BOTH)(np.full(2, 2.0), np.full(2, 3)), (2,)),
        (lambda: vmap(BOTH, chunk_size=1)(np.full(2, 2.0), np.full(2, 3)), (2,)),
        (lambda: jit(vmap(BOTH))(np.full(2, 2.0), np.full(2, 3)), (2,)),
        (lambda: lax.scan(lambda x, _: (x, BOTH(x, 3)), 2.0, length=2)[1], (2,)),
        (lambda: lax.cond(True, BOTH, BOTH, 2.0, 3), ()),
        (lambda: vjp(scaled, 2.0, 3, allow_int=True)[1](1.0), ()),
        (lambda: jit(lambda x, n: vjp(scaled, x, n, allow_int=True)[1])(2.0, 3)(1.0), ()),
    ],
)
def test_float0_comes_out_of_traced_functions(transformed, shape):
    by_float, by_int = transformed()
    np.testing.assert_array_equal(by_float, np.full(shape, 3.0))
    assert (by_int.dtype, by_int.shape) == (float0, shape)


@pytest.mark.parametrize("tangent", [None, NONE])
def test_the_tangent_of_an_integer(tangent):
    assert jvp(scaled, (2.0, 3), (0.5, tangent)) == (6.0, 1.5)
    assert linearize(scaled, 2.0, 3, allow_int=True)[1](0.5, tangent) == 1.5


def test_the_cotangent_of_an_integer():
    _, pullback = vjp(lambda x: (2.0 * x, np.argmax(x)), np.arange(2.0))
    np.testing.assert_array_equal(pullback((np.ones(2), NONE))[0], [2.0, 2.0])


def test_an_integer_does_not_move():
    with pytest.raises(IntegerInputError, match=r"argument 1 \('n'\) .* or None as its tangent"):
        jvp(scaled, (2.0, 3), (0.5, 1))
    with pytest.raises(IntegerInputError, match="or write allow_int=True"):
        vjp(scaled, 2.0, 3)
    with pytest.raises(IntegerInputError, match="leaf 1 of the arguments of scaled is of dtype"):
        linearize(scaled, 2.0, 3, allow_int=True)[1](0.5, 1)
