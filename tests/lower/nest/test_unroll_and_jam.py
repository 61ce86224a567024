"""Unroll and jam: attributes of statements are preserved."""

import numpy as np

from functrans.loop.nodes import ZERO, index
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Store, buffer, load
from functrans.lower.nest.unroll_and_jam import Jam


def test_stores_that_are_atomic_stay_so():
    x, y = buffer("x", np.float64, (4,)), buffer("y", np.float64, (4,))
    i = index("i", 4)
    jam = Jam([{i: const(number, i.dtype)} for number in range(2)], Simplifier())
    found = jam.statements([Store(y, (ZERO,), load(x, (i,)), "add", atomic=True)])
    assert [(each.op, each.atomic) for each in found] == [("add", True)] * 2
