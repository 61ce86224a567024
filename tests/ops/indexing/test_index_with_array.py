"""Index objects that convert to arrays, such as columns of tables, as in NumPy."""

import numpy as np
import pytest

import functrans as ft

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])


class Column:
    """What a column of a table is to NumPy: something with ``__array__``."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


INDICES = [[True, False, True], [0, 2], [2, 2, -1], [[0, 1], [2, 0]], 1, np.zeros(0, np.int32)]


def slope_of_squares(x, index):
    result = np.zeros_like(x)
    np.add.at(result, index, 2 * x[index])
    return result


@pytest.mark.parametrize("values", INDICES)
@pytest.mark.parametrize("in_tuple", [False, True])
def test_reading_is_numpys(values, in_tuple):
    column = Column(values)
    index = (column, 1) if in_tuple else column
    expected = X[index]
    found = ft.jit(lambda x: x[index])(X)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    gradient = ft.grad(lambda x: np.sum(x[index] ** 2))(X)
    np.testing.assert_array_equal(gradient, slope_of_squares(X, index))


def test_writing_is_numpys():
    column = Column([True, False, True])

    def write(x):
        y = np.array(x)
        y[column] = 2 * x[1]
        return y

    np.testing.assert_array_equal(ft.jit(write)(X), write(X))


def test_an_index_that_changes_is_read_again():
    column = Column([0, 2])
    read = ft.jit(lambda x: x[column])
    np.testing.assert_array_equal(read(X), X[[0, 2]])
    column.values[0] = 1
    np.testing.assert_array_equal(read(X), X[[1, 2]])


@pytest.mark.parametrize("values", [[0.0, 1.0], ["a", "b"], [None, 1]])
def test_others_are_refused(values):
    column = Column(values)
    with pytest.raises(IndexError, match="arrays are valid indices, not "):
        ft.jit(lambda x: x[column])(X)


def test_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    for index in (
        pandas.Series([True, False, True]),
        pandas.Series([2, 0], index=[5, 6]),
        pandas.Index([0, 2]),
    ):
        np.testing.assert_array_equal(ft.jit(lambda x, i=index: x[i])(X), X[index])
        gradient = ft.grad(lambda x, i=index: np.sum(x[i] ** 2))(X)
        np.testing.assert_array_equal(gradient, slope_of_squares(X, np.asarray(index)))


def test_a_column_of_pandas_that_changes_is_read_again():
    pandas = pytest.importorskip("pandas")
    index = pandas.Series([0, 2])
    read = ft.jit(lambda x: x[index])
    read(X)
    index.iloc[0] = 1
    np.testing.assert_array_equal(read(X), X[[1, 2]])
