"""Costly elementwise operations are computed before gathers that read elements several times."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.optimise.machine.late_gathers import gather_last
from tests.optimise.machine.rewrites import becomes, stays

RNG = np.random.default_rng(0)
GIVEN = "x:f64[5,2], i:i64[4,3], s:f64[]"
LOOK_UP = "a = gather[axes=(0,)] x i"


def test_a_function_of_what_is_looked_up():
    becomes(
        gather_last,
        f"{{ {GIVEN} ->\n {LOOK_UP}\n b = exp a\n return b }}",
        f"{{ {GIVEN} ->\n e = exp x\n b = gather[axes=(0,)] e i\n return b }}",
    )


def test_what_is_not_costly_goes_along_once():
    becomes(
        gather_last,
        f"""{{ {GIVEN} ->
        {LOOK_UP}
        b = multiply s a
        c = exp b
        d = sin b
        e = tanh d
        return a, c, e }}""",
        f"""{{ {GIVEN} ->
        {LOOK_UP}
        m = multiply s x
        n = exp m
        c = gather[axes=(0,)] n i
        o = sin m
        p = tanh o
        e = gather[axes=(0,)] p i
        return a, c, e }}""",
    )


KEPT = {
    "not costly": "b = multiply s a\n c = negative b\n return c",
    "with something else": "b = exp y\n c = power a b\n return c",
    "fails for some values": "b = required_good[kind='nan'] a\n c = exp b\n return c",
    "not elementwise": "b = cumsum[axis=0, reverse=False] a\n return b",
}


@pytest.mark.parametrize("rest", KEPT.values(), ids=KEPT.keys())
def test_what_stays(rest):
    stays(gather_last, f"{{ {GIVEN}, y:f64[4,3,2] ->\n {LOOK_UP}\n {rest} }}")


def test_few_of_many():
    stays(
        gather_last,
        "{ x:f64[30,2], i:i64[4,2] ->\n a = gather[axes=(0,)] x i\n b = exp a\n return b }",
    )


def test_the_gradient_of_a_model_with_groups():
    values, scales, groups = RNG.normal(size=200), RNG.normal(size=7), RNG.integers(-7, 7, 200)

    def loss(scales):
        return np.sum((values / np.exp(scales[groups])) ** 2 / 2 + scales[groups])

    expected = np.zeros(7)
    np.add.at(expected, groups, 1 - (values / np.exp(scales[groups])) ** 2)
    np.testing.assert_allclose(jit(grad(loss))(scales), expected, rtol=1e-12)
    with pytest.raises(IndexError):
        jit(lambda x, i: np.exp(x[i]))(scales, np.full(20, 7))


def test_powers_of_what_is_not_read():
    rows = np.array([[-1, -2], [3, 4]])
    read = np.ones(9, int)
    np.testing.assert_array_equal(jit(lambda x, i: 2 ** x[i])(rows, read), 2 ** rows[read])
