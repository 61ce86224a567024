"""Bitonic sort: runs in registers are read and stored as vectors, which are transposed."""

import re

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Kernel, buffer
from functrans.ops.reductions.compiled.sorts import sorted_along
from tests.emit.test_statements import by_llvm

WORDS = (np.dtype("u8"), np.dtype("u4"))


@pytest.mark.parametrize("count", [1, 2])  # words of a key
def test_keys_of_one_line(count):
    rows = tuple(buffer("row", dtype, (128,)) for dtype in WORDS[:count])
    made = Kernel(rows, 0, sorted_along(rows, 8, Simplifier()))
    assert not re.search("extractelement|gather|scatter", emit(made))
    rng = np.random.default_rng(0)
    keys = [rng.integers(8, size=128).astype("u8"), rng.permutation(128).astype("u4")][:count]
    expected = np.lexsort(keys[::-1])
    expected = [key[expected] for key in keys]
    by_llvm(made, keys, [])
    np.testing.assert_array_equal(keys, expected)
