"""Diagonals that are put back into matrices, as gradients do."""

import numpy as np
import pytest

from functrans import grad, jit


@pytest.mark.parametrize("shape", [(1, 1), (17, 17), (5, 9), (9, 5), (300, 300), (4, 20, 20)])
@pytest.mark.parametrize("offset", [-2, 0, 3])
def test_gradients_of_diagonals(shape, offset):
    x = np.arange(float(np.prod(shape))).reshape(shape)
    weights = np.ones_like(np.diagonal(x, offset, -2, -1)) * 3.0
    f = jit(grad(lambda x: np.sum(np.diagonal(x, offset, -2, -1) * weights)))
    rows, columns = np.indices(shape)[-2:]
    np.testing.assert_array_equal(f(x), 3.0 * (columns - rows == offset))


def test_nothing_is_divided():
    source = jit(grad(lambda x: np.sum(np.diag(x) ** 2))).lower(np.ones((100, 100))).source()
    assert "irem" not in source and "idiv" not in source
