"""Index set splitting: loop ranges are divided at the conditions on their index."""

from itertools import pairwise

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const, eq, evaluate, idiv, irem, ne, postorder
from functrans.loop.simplify import Simplifier
from functrans.lower.nest.index_splitting import divisor_of, phases, pieces, row_extent
from tests.lower.by_hand import done_by

EXTENT = 100
P, Q = index("i", EXTENT), index("j", EXTENT)


def number(n):
    return const(n, INDEX)


def cut(*conditions, extent=EXTENT):
    simplify = Simplifier()
    nodes = postorder([simplify(each) for each in conditions])
    return done_by(pieces, index=P, extent=extent, nodes=nodes, simplify=simplify)


@pytest.mark.parametrize(
    ("condition", "edges"),
    [
        (P < 30, [30]),
        (P <= number(30), [31]),
        (number(30) < P, [31]),
        (number(30) <= P, [30]),
        (eq(P, number(30)), [30, 31]),
        (ne(P, number(30)), [30, 31]),
        (P + 5 < 30, [25]),
        (number(70) - P < 30, [41]),
        (idiv(P, number(10)) < 3, [30]),
        (P < 0, []),
        (P < 100, []),
        (P < 200, []),
        (Q < 30, []),
        (P < Q, []),
        (P * 2 < 30, []),
        (irem(P, number(10)) < 3, []),
    ],
)
def test_where_a_condition_changes(condition, edges):
    whole = [0, *edges, EXTENT]
    assert cut(condition) == list(pairwise(whole))


@pytest.mark.parametrize(
    "condition",
    [P < 30, P <= number(30), number(30) < P, eq(P, number(30)), number(70) - P < 30,
     idiv(P, number(10)) < 3, P + 5 < 30],
)  # fmt: skip
def test_in_a_piece_a_condition_is_decided(condition):
    for start, stop in cut(condition):
        found = {bool(evaluate(condition, {P: np.int64(i)})) for i in range(start, stop)}
        assert len(found) == 1


def test_several_conditions():
    assert cut(P < 30, P < 70, number(30) <= P) == [(0, 30), (30, 70), (70, 100)]


def test_too_many_pieces_are_none():
    assert len(cut(*(P < 10 * n for n in range(1, 5)))) == 5
    assert cut(*(P < 10 * n for n in range(1, 7))) == [(0, EXTENT)]


def test_of_too_many_pieces_a_long_one_is_kept():
    """Most of the taps of a long filter are inside, and all conditions are decided there."""
    taps = [*(P < n for n in range(1, 5)), *(number(94) < P + n for n in range(4))]
    assert cut(*taps) == [(0, 4), (4, 92), (92, EXTENT)]


def test_divisors():
    assert divisor_of(idiv(P, number(20)), P) == 20
    assert divisor_of(irem(P, number(20)), P) == 20
    assert divisor_of(idiv(P, number(20)), Q) is None
    assert divisor_of(idiv(P + 1, number(20)), P) is None
    assert divisor_of(idiv(P, Q), P) is None


@pytest.mark.parametrize(
    ("divisors", "length"),
    [
        ([20], 20),
        ([20, 40], 20),
        ([20, 30], None),  # rows of 20 do not make rows of 30
        ([30], None),  # nor rows of 30 a hundred
        ([10], None),  # too short to be worth it
        ([100], None),
        ([], None),
    ],
)
def test_rows(divisors, length):
    nodes = postorder([each for d in divisors for each in (idiv(P, number(d)), irem(P, number(d)))])
    assert done_by(row_extent, index=P, extent=EXTENT, nodes=nodes) == length


@pytest.mark.parametrize(
    ("found", "count"),
    [
        ([irem(P, number(2))], 2),
        ([irem(P + 1, number(4)), irem(P, number(2))], 4),
        ([irem(number(99) - P, number(3))], 3),
        ([irem(P, number(2)), irem(P, number(3))], None),
        ([irem(P, number(9))], None),
        ([irem(Q, number(2))], None),
        ([irem(P * 2, number(3))], None),
        ([irem(P, Q)], None),
        ([P < 3], None),
    ],
)
def test_after_how_many_iterations_conditions_repeat(found, count):
    assert done_by(phases, index=P, nodes=postorder(found), simplify=Simplifier()) == count
