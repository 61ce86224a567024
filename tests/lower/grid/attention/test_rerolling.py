"""Rerolling: unrolled sums become folds if their terms differ only in indices."""

import numpy as np
import pytest

from functrans.loop.nodes import combine_pairwise, index
from functrans.loop.scalar import postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import buffer, load
from functrans.lower.grid.attention.rerolling import rerolled

SIMPLIFY = Simplifier()
X, Y = buffer("x", np.float64, (50, 60)), buffer("y", np.float64, (50, 60))
ROW, COLUMN = index("i", 50), index("j", 20)


def product(k, stride=1):
    return load(X, (ROW, k * stride)) * load(Y, (COLUMN, k * stride + 3))


def folds(expression):
    return [node for node in postorder([expression]) if node.op == "fold"]


@pytest.mark.parametrize("count", [4, 5, 8, 15, 16])
@pytest.mark.parametrize("stride", [1, 3])
def test_terms_in_order(count, stride):
    terms = [SIMPLIFY(product(k, stride)) for k in range(count)]
    total = combine_pairwise("add", terms)
    made = rerolled(total * 2.0 + load(X, (ROW, COLUMN)), SIMPLIFY)
    (fold,) = folds(made)
    op, (counter,) = fold.attribute
    assert (op, fold.args[1].attribute, counter.attribute[2]) == ("add", count, count)
    for number, term in enumerate(terms):
        at = {counter: SIMPLIFY(index("k") * 0 + number)}
        assert SIMPLIFY.substitute(fold.args[:1], at) == [term]
    assert SIMPLIFY.substitute([made], {fold: total}) == [total * 2.0 + load(X, (ROW, COLUMN))]


OTHERS = {
    "uneven": [product(0), product(1), product(3)],
    "another operation": [product(0), product(1), load(X, (ROW, 2)) - load(Y, (COLUMN, 5))],
    "another array": [product(0), load(Y, (ROW, 1)) * load(Y, (COLUMN, 4))],
    "another number": [product(k) * (1.0 + k) for k in range(4)],
    "the same": [product(0)] * 4,
    "few": [product(0)],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_stay(name):
    total = combine_pairwise("add", [SIMPLIFY(term) for term in OTHERS[name]])
    assert rerolled(total, SIMPLIFY) is None


def test_sums_of_integers_stay():
    one = buffer("n", np.int64, (50, 60))
    terms = [load(one, (ROW, k)) for k in range(4)]
    assert rerolled(combine_pairwise("add", terms), SIMPLIFY) is None
