"""Branches of the incomplete gamma functions that a constant order decides are not compiled."""

import numpy as np
import pytest

from functrans.loop.scalar import const
from functrans.loop.statements import If, local
from functrans.loop.walk import walk
from functrans.ops.elementwise.compiled.incomplete_gamma import Numbers

F8 = np.dtype(float)


@pytest.mark.parametrize(
    ("order", "branches"),
    [
        (2.0, 2),  # neither the uniform expansion nor the prefactor of large orders
        (-1.0, 2),
        (30.0, 4),  # where the function is a constant, another order is used
        (np.inf, 4),
        (np.nan, 3),
        (None, 4),
    ],
)
def test_branches_by_order(order, branches):
    a = local(F8) if order is None else const(order, F8)
    found = Numbers().found(a, local(F8))
    assert sum(isinstance(each, If) for each in walk(found)) == branches
