"""Arrays of 33 to 64 axes, more than `numpy.broadcast` supports."""

import numpy as np
import pytest

from functrans import grad, jit, vmap
from functrans.ir.types import broadcast_shape

FUNCTIONS = {
    "arithmetic": lambda x, s: x.reshape(s) * 2 + np.ones(4),
    "broadcasting": lambda x, s: np.broadcast_to(x, (3, *s[1:])) + x.reshape(s),
    "sums": lambda x, s: np.sum(x.reshape(s), axis=len(s) - 1),
    "axes": lambda x, s: x.reshape(s).T + 0,
    "an index": lambda x, s: x.reshape(s)[..., 1] + 0,
    "positions": lambda x, s: np.take(x.reshape(s), [0, 1], axis=-1),
    "choices": lambda x, s: np.where(x.reshape(s) > 1, x.reshape(s), 0),
    "joining": lambda x, s: np.concatenate([x.reshape(s)] * 2),
    "running sums": lambda x, s: np.cumsum(x.reshape(s), axis=-1),
    "products": lambda x, s: np.matmul(x.reshape(s), x.reshape((*s[:-2], 4, 1))),
    "norms": lambda x, s: np.linalg.norm(x.reshape(s) + 1, axis=-1),
}


@pytest.mark.parametrize("count", [33, 40, 63])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_axes(name, count):
    x, shape = np.arange(4.0), (*(1,) * (count - 1), 4)

    def function(x):
        return FUNCTIONS[name](x, shape)

    expected = function(x)
    np.testing.assert_allclose(jit(function)(x), expected)
    np.testing.assert_allclose(vmap(function)(np.stack([x, x]))[1], expected)
    gradient = grad(lambda x: np.sum(function(x) ** 2))(x)
    few = grad(lambda x: np.sum(FUNCTIONS[name](x, shape[-2:]) ** 2))(x)
    np.testing.assert_allclose(gradient, few)


def test_shapes_broadcast_as_numpy_has_it():
    shapes = [(), (1,), (3,), (2, 1), (2, 3), (0, 1), (4, 1, 1), (1, 1, 3), (2, 2)]
    for first in shapes:
        for second in shapes:
            try:
                expected = np.broadcast_shapes(first, second)
            except ValueError:
                with pytest.raises(ValueError, match="cannot be broadcast to a single shape"):
                    broadcast_shape(first, second)
            else:
                assert broadcast_shape(first, second) == expected
