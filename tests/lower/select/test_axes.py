"""Which axes are unrolled and which are loops, and that nests agree on their indices."""

import pytest

from functrans.loop.nodes import INDEX, guard, index
from functrans.loop.scalar import const, idiv, postorder
from functrans.loop.statements import buffer, load
from functrans.lower.select.unrolling import Loops, axes_to_unroll, folded_along_rows
from functrans.ops.compiled.elements import branches_on
from tests.ir.written import graph
from tests.lower.by_hand import done_by


@pytest.mark.parametrize(
    ("shape", "last", "front"),
    [
        ((3,), (0,), ()),
        ((3, 3), (0, 1), ()),
        ((16,), (0,), ()),
        ((64,), (), (0,)),  # it may go along vectors
        ((1000,), (), ()),
        ((1000, 3), (1,), ()),
        ((1000, 3, 3), (1, 2), ()),
        ((3, 1000), (), (0,)),
        ((3, 1000, 3), (2,), (0,)),
        ((1000, 16, 16), (2,), ()),  # more elements than may be written out
        ((16, 16, 16), (), ()),
        ((9, 16, 4), (2,), ()),  # vectors go along an axis that they fill
        ((16, 3, 4), (1, 2), ()),
        ((16, 7, 7, 7), (), ()),  # more elements than may be written out
        ((5, 5, 5), (), ()),
    ],
)
def test_small_axes(shape, last, front):
    assert axes_to_unroll(shape, 16, 64, 8) == (last, front)


X, P = buffer("x", float, (9, 9)), index("i", 9)
V = load(X, (P, P))


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (V * 2.0, False),
        (load(X, (P + 1, P * 2)), False),
        (guard(P < 3, V, 0.0), True),
        (load(X, (idiv(P, const(3, INDEX)), P)), True),
        (guard(index("j") < 3, V, 0.0), False),
        (guard(V < 3.0, V, 0.0), False),
    ],
)
def test_what_differs_from_element_to_element(expression, answer):
    assert branches_on(postorder([expression]), P) is answer


def test_nests_agree_on_indices():
    loops = Loops()
    first, second = loops((30, 40))
    assert loops((30, 40)) == (first, second)
    assert loops((30,)) == (first,)
    assert loops((40, 30))[1] is not first
    assert first.attribute[2] == 30


def test_what_is_summed_along_its_rows():
    made = graph("""{ x:f64[30,40], y:f64[5,6] ->
        a = reduce_sum[axes=(1,)] x
        b = reduce_max[axes=(0,)] y
        c = reduce_sum[axes=(0, 1)] y
        return a, b, c }""")
    assert done_by(folded_along_rows, made) == {(30, 40)}
