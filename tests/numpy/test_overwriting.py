"""Plain values assigned to a traced array: the overwritten elements have no derivative."""

import numpy as np
import pytest

from functrans import grad, jit


def element_by_element(y):
    y[...] = 3.0


def by_slice(y):
    y[:] = np.full(3, 3.0)


def by_fill(y):
    y.fill(3.0)


def by_copyto(y):
    np.copyto(y, 3.0)


def by_copyto_of_an_array(y):
    np.copyto(y, np.full(3, 3.0))


def by_copyto_where(y):
    np.copyto(y, 3.0, where=y < 100.0)


def by_put(y):
    np.put(y, [0, 1, 2], 3.0)


def by_putmask(y):
    np.putmask(y, y < 100.0, 3.0)


WAYS = [
    element_by_element, by_slice, by_fill, by_copyto, by_copyto_of_an_array, by_copyto_where,
    by_put, by_putmask,
]  # fmt: skip


@pytest.mark.parametrize("overwrite", WAYS)
@pytest.mark.parametrize("way", [lambda f: f, jit])
def test_what_is_overwritten_has_no_derivative(overwrite, way):
    def f(x):
        y = x.copy()
        overwrite(y)
        return np.sum(y) * x[0]

    np.testing.assert_array_equal(way(grad(f))(np.array([1.0, 2.0, 4.0])), [9.0, 0.0, 0.0])
