"""Comparisons with Python integers are exact, also for integers outside the dtype's range."""

import operator

import numpy as np
import pytest

from functrans import jit, vmap

NUMBERS = [
    sign * number + step
    for number in (0, 2**7, 2**8, 2**31, 2**32, 2**63, 2**64, 10**400)
    for sign in (1, -1)
    for step in (-1, 0, 1)
]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("code", "bBhHiIlL")
def test_with_any_integer(code):
    x = np.array([np.iinfo(code).min, 0, 1, np.iinfo(code).max], code)

    def compared(x):
        return [
            [compare(x, number), compare(number, x)]
            for compare in COMPARISONS
            for number in NUMBERS
        ]

    expected = np.array(compared(x))
    for found in (jit(compared)(x), vmap(compared)(x)):
        np.testing.assert_array_equal(np.array(found), expected)


@pytest.mark.parametrize("code", "bBhHiIlL")
@pytest.mark.parametrize("number", [-1, 300, 2**40])
def test_with_a_traced_one(code, number):
    x = np.array([np.iinfo(code).min, 0, 1, np.iinfo(code).max], code)
    for compare in COMPARISONS:
        np.testing.assert_array_equal(jit(compare)(x, number), compare(x, number))


def test_large_integers_and_floats_meet_as_floats():
    x = np.array([1e19, 1e20, 2e20])
    np.testing.assert_array_equal(jit(lambda x: x < 10**20)(x), x < 10**20)
