"""Index mapping of reshapes: axes that are split, merged or unchanged."""

from math import prod

import numpy as np
import pytest

from functrans import jit


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ((2, 3, 4), (6, 4)),
        ((4, 6), (3, 8)),
        ((1, 5, 1), (5,)),
        ((2, 1, 6), (1, 4, 3)),
        ((12,), (2, 1, 2, 3)),
        ((2, 6, 5), (3, 4, 1, 5)),
        ((7, 300, 2), (7, 2, 300)),
        ((0, 3), (3, 0)),
        ((1, 1), ()),
        ((), (1, 1)),
        ((2600, 2), (2, 1300, 2)),
    ],
)
def test_axes_of_a_reshape_are_split_and_merged_in_groups(shape, made):
    x = np.arange(prod(shape), dtype=float).reshape(shape)
    moved = lambda x: np.flip((x * 2.0).reshape(made)) + 1.0  # noqa: E731
    np.testing.assert_array_equal(jit(moved)(x), moved(x))
    split = lambda x: np.cumsum((x * 2.0).reshape(made).reshape(-1)) * 1.0  # noqa: E731
    np.testing.assert_array_equal(jit(split)(x), split(x))
