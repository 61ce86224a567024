"""Vector loops of transforms: the last vector overlaps the one before it, and has no mask."""

import numpy as np
import pytest

from functrans.loop.statements import Store, buffer, load
from functrans.ops.fft.compiled.lines import vector_loop

X, Y = (buffer(name, np.dtype(float), (64,)) for name in "xy")


@pytest.mark.parametrize(
    ("extent", "target", "repeatable"),
    [(33, Y, True), (32, Y, False), (33, X, False)],  # what is read may not change
)
def test_iterations_are_repeated_if_they_change_nothing_that_is_read(extent, target, repeatable):
    loop, *_ = vector_loop("i", extent, 8, lambda i: (Store(target, (i,), load(X, (i,)) * 2.0),))
    assert (loop.repeatable, loop.whole) == (repeatable, extent == 32)
