"""What has no index, or is none, fails in compiled and mapped code as it does in NumPy's."""

import numpy as np
import pytest

from functrans import grad, jit, vmap

PLACES = np.array([[3, 4], [6, 5]])


@pytest.mark.parametrize("function", [np.nanargmax, np.nanargmin])
def test_rows_of_nan(function):
    rows = np.array([[np.nan, 2.0, 1.0], [np.nan] * 3])
    np.testing.assert_array_equal(jit(function)(rows), function(rows))
    for f in (jit(lambda x: function(x, axis=1)), vmap(function)):
        with pytest.raises(ValueError, match="All-NaN slice encountered"):
            f(rows)
        np.testing.assert_array_equal(f(rows[:1]), function(rows[:1], axis=1))
    np.testing.assert_array_equal(grad(lambda x: x[function(x)])(rows[0]).sum(), 1.0)


@pytest.mark.parametrize("place", [[-1, 0], [0, 6], [7, 0]])
def test_coordinates_outside(place):
    def flat(at):
        return np.ravel_multi_index((at[0], at[1]), (7, 6))

    np.testing.assert_array_equal(jit(vmap(flat))(PLACES), [flat(each) for each in PLACES])
    for f in (jit(flat), lambda at: vmap(flat)(np.stack([at, PLACES[0]]))):
        with pytest.raises(ValueError, match="invalid entry in coordinates array"):
            f(np.array(place))


@pytest.mark.parametrize("index", [-1, 42])
def test_flat_indices_outside(index):
    unravel = jit(lambda i: np.unravel_index(i, (7, 6)))
    np.testing.assert_array_equal(unravel(41), (6, 5))
    with pytest.raises(ValueError, match="out of bounds"):
        unravel(index)
