"""vmap of arguments that are the same for every example."""

import numpy as np

from functrans import vmap


def test_a_table_that_is_not_mapped_is_indexed_by_what_is():
    table, which = np.arange(10.0) ** 2, np.array([1, 3])
    np.testing.assert_array_equal(vmap(lambda t, i: t[i], (None, 0))(table, which), [1.0, 9.0])


def test_python_branches_on_what_is_not_mapped():
    def scaled(table, x):
        return x * table.sum() if table[0] == 0 else x

    x = np.array([1.0, 3.0])
    np.testing.assert_array_equal(vmap(scaled, (None, 0))(np.array([0.0, 2.0]), x), 2 * x)
    np.testing.assert_array_equal(vmap(scaled, (None, 0))(np.array([1.0, 2.0]), x), x)
