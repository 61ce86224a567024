"""Comparisons of numbers that are made twice are refused where the two may round differently."""

import numpy as np
import pytest

from functrans.loop.nodes import fold, index
from functrans.loop.scalar import const, eq, where
from functrans.loop.statements import buffer, load
from functrans.lower.select.comparisons import compares_alike

i, j = index("i", 20), index("j", 30)
x, y = (buffer(name, np.float64, (30, 40)) for name in "xy")
bias, largest = load(buffer("bias", np.float64, (20, 30)), (i, j)), load(x, (0, i))
product = fold("add", [40], lambda k: load(x, (i, k)) * load(y, (j, k)))
slope = load(y, (0, 0))

ALIKE = {
    "a product": product,
    "a multiple": product * 0.3,
    "and a bias": product * 0.3 + bias,
    "a quotient and a bias": bias - product / 4.0,
    "of a sum": (product + bias) * slope,
    "masked": where(eq(bias, 0.0), product * 0.3, const(-np.inf, np.float64)),
}

OPEN = {
    "two products": product * 0.3 - slope * bias,
    "a product of others": product + slope * bias,
    "a negative one": product + -(slope * bias),
    "a quotient": product * 0.3 + bias / 4.0,
    "inside of others": where(eq(bias, 0.0), product + slope * bias, bias) * 2.0,
}


def compared(score):
    return where(eq(score, largest), score, const(0, np.float64)) * bias


@pytest.mark.parametrize("name", ALIKE)
def test_same_operations_round_alike(name):
    assert compares_alike([bias, compared(ALIKE[name])])


@pytest.mark.parametrize("name", OPEN)
def test_a_product_that_may_be_rounded_or_not(name):
    assert not compares_alike([bias, compared(OPEN[name])])


@pytest.mark.parametrize("name", OPEN)
def test_what_is_not_compared_may_round_as_it_will(name):
    assert compares_alike([OPEN[name] - largest, compared(bias), compared(slope * bias + bias)])
