"""vmap with arguments that are not batched."""

import numpy as np

from functrans import jit, lax, vmap


def test_a_table_that_is_not_mapped_is_indexed_by_what_is():
    table, which = np.arange(10.0) ** 2, np.array([1, 3])
    np.testing.assert_array_equal(vmap(lambda t, i: t[i], (None, 0))(table, which), [1.0, 9.0])


def test_python_branches_on_what_is_not_mapped():
    def scaled(table, x):
        return x * table.sum() if table[0] == 0 else x

    x = np.array([1.0, 3.0])
    np.testing.assert_array_equal(vmap(scaled, (None, 0))(np.array([0.0, 2.0]), x), 2 * x)
    np.testing.assert_array_equal(vmap(scaled, (None, 0))(np.array([1.0, 2.0]), x), x)


def test_a_result_that_loops_and_branches_forward_is_unmapped():
    x, y = np.arange(3.0) - 1, np.array(5.0)
    branch = vmap(
        lambda x, y: lax.cond(x > 0, lambda a, b: (a, b), lambda a, b: (3 * a, b), x, y),
        in_axes=(0, None), out_axes=(0, None),
    )  # fmt: skip
    loop = vmap(
        lambda x, y: lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, s[1]), (x, y)),
        in_axes=(0, None), out_axes=(0, None),
    )  # fmt: skip
    for transform in (lambda f: f, jit):
        for mapped, expected in ((branch, [-3.0, 0, 1]), (loop, [1.0, 1, 1])):
            first, second = transform(mapped)(x, y)
            np.testing.assert_array_equal(first, expected)
            assert second == 5.0
    swapped = vmap(
        lambda x, y: lax.cond(x > 0, lambda a, b: (a, b), lambda a, b: (b, a), x, y),
        in_axes=(0, None),
    )
    np.testing.assert_array_equal(swapped(x, y), ([5, 5, 1], [-1, 0, 5]))
