"""Distributed loops store the same values, in the order of their dependences."""

from dataclasses import replace

import numpy as np

from functrans.loop.distribution import Levels, distributed, in_levels, in_parts
from functrans.loop.fusion import Joining
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Kernel, Let, Store, buffer, load, local
from functrans.loop.substitution import substituted
from functrans.loop.walk import stored
from tests.loop.evaluate import Memory, evaluate

F8 = np.dtype(float)
X, A, B, C, D = (buffer(name, F8, (20,)) for name in "xabcd")
I = index("i", 20)  # noqa: E741
ALWAYS = Levels(least_work=1)


def at(one):
    return load(one, (I,))


def put(one, value):
    return Store(one, (I,), value)


def loop(*body, lanes=8):
    return For(I, ZERO, const(20, INDEX), body, lanes=lanes, repeatable=True)


def parts(*body, limits=ALWAYS):
    return distributed(loop(*body), limits, Simplifier())


def targets(*body, limits=ALWAYS):
    """The names of what each loop stores."""
    return [
        "".join(each.target.name for each in one.body if isinstance(each, Store))
        for one in parts(*body, limits=limits)
    ]


def steps(*body, limits=ALWAYS, independent=False):
    """The loops of a step whose results are all of these arrays."""
    return in_levels(body, {X, A, B, C, D}, limits, Joining(), Simplifier(), independent)


CHAIN = put(A, at(X) * 2.0), put(B, at(A) + 1.0), put(C, at(X) * 3.0), put(D, at(B) * at(C))


def test_a_loop_for_each_level():
    assert targets(*CHAIN) == ["ac", "b", "d"]
    # two operations of the first level, one of the second: the third joins
    assert targets(*CHAIN, limits=ALWAYS._replace(least_work=2)) == ["ac", "bd"]
    assert targets(*CHAIN, limits=ALWAYS._replace(least_work=5)) == ["abcd"]
    assert targets(put(A, at(X) * 2.0), put(B, at(X) * 3.0)) == ["ab"]


def test_locals_are_declared_where_they_are_needed():
    first, second, third = local(F8), local(F8), local(F8)
    body = (
        Let((first,), (at(X) * 3.0,)),
        Let((second,), (at(X),)),
        Let((third,), (second * 2.0,)),
        put(A, first * 2.0 + 1.0),
        put(B, at(A) + third + 1.0),
    )
    early, late = parts(*body, limits=ALWAYS._replace(least_work=2))
    assert early.body == (body[0], body[3])
    assert late.body == (body[1], body[2], body[4])


def test_a_local_that_several_loops_need_is_stored_by_the_first():
    # the first local has an operation, the second none, the third is as costly as a store
    first, second, third = local(F8, "p"), local(F8, "q"), local(F8, "r")
    body = (
        Let((second,), (at(X),)),
        Let((first,), (second * 3.0,)),
        put(A, first * 2.0 + second),
        put(B, at(A) + first * second),
        Let((third,), (at(B) * second + 1.0,)),
        put(C, third * second + first),
        put(D, third * at(C) + first),
    )
    limits = ALWAYS._replace(least_work=2)
    assert targets(*body, limits=limits) == ["pa", "b", "r", "c", "d"]
    made = steps(loop(*body), limits=limits)
    assert stored(made) - {A, B, C, D} == {one for one in stored(made) if one.name in "pr"}
    scratch = sorted(stored(made) - {A, B, C, D}, key=lambda one: one.name)
    x = np.arange(20.0)
    memory = [Memory(x, True), *(Memory(np.zeros(20), False) for _ in range(6))]
    assert evaluate(Kernel((X, A, B, C, D, *scratch), 0, tuple(made)), memory, ()) == 0
    p = 3 * x
    a = 2 * p + x
    b = a + p * x
    r = b * x + 1
    c = r * x + p
    for one, wanted in zip(memory[1:], (a, b, c, r * c + p, p, r), strict=True):
        np.testing.assert_array_equal(one.array, wanted)


def test_sums_follow_what_they_add_and_keep_their_order():
    first, second, third = (Store(D, (I,), at(one), "add") for one in (A, B, X))
    body = put(A, at(X) * 2.0), put(B, at(A) + 1.0)
    assert targets(*body, first, second) == ["a", "bd", "d"]
    assert targets(*body, second, first, third) == ["a", "b", "ddd"]


def test_a_bool_that_several_loops_need_keeps_a_loop_whole():
    positive = local(np.dtype(bool))
    body = (
        Let((positive,), (at(X) > 1.0,)),
        put(A, where(positive, at(X) * 2.0, at(X))),
        put(B, where(positive, at(A) * 2.0, at(X))),
    )
    assert targets(*body) == ["ab"]


def test_what_keeps_a_loop_whole():
    # an element that is overwritten after it was read
    assert targets(put(A, at(X) * 2.0), put(B, at(A) + 1.0), put(X, at(B))) == ["abx"]
    assert targets(put(A, at(X) * 2.0), put(B, at(A) + 1.0), put(A, at(B))) == ["aba"]
    adds = Store(X, (I,), at(B), "add")
    assert targets(put(A, at(X) * 2.0), put(B, at(A) + 1.0), adds) == ["abx"]
    scalar = loop(*CHAIN, lanes=1)
    assert distributed(scalar, ALWAYS, Simplifier()) == (scalar,)
    one_vector = loop(*CHAIN, lanes=32)
    assert distributed(one_vector, ALWAYS, Simplifier()) == (one_vector,)


def test_the_second_store_to_a_buffer_does_not_come_before_the_first():
    body = (
        put(A, at(X) * 2.0),
        put(B, at(A) + 1.0),
        put(C, at(B)),
        put(B, at(X)),
        put(D, at(B) * 2.0),
    )
    assert targets(*body) == ["abcbd"]  # C has read what is overwritten
    body = put(A, at(X) * 2.0), put(B, at(A) + 1.0), put(B, at(X)), put(D, at(B) * 2.0)
    assert targets(*body) == ["a", "bb", "d"]


def test_rows_of_a_buffer_are_apart():
    rows = buffer("r", F8, (4, 20))

    def row(number, value):
        return Store(rows, (const(number, INDEX), I), value)

    first, second = at(X) * 2.0, load(rows, (const(0, INDEX), I)) + 1.0
    # the second row reads the first one, and the third one reads none
    assert targets(row(0, first), put(A, second), row(1, at(A) * 2.0), row(2, at(X))) == [
        "rr", "a", "r"
    ]  # fmt: skip
    # a row that is known at run time only may be any of them
    some = Store(rows, (I, I), at(X))
    assert targets(put(A, first), row(0, at(A) + 1.0), some) == ["a", "rr"]
    assert targets(put(A, second), put(B, at(A)), row(0, at(B))) == ["abr"]
    assert targets(put(A, second), put(B, at(A) + 1.0), row(1, at(B))) == ["a", "br"]


def test_the_values_are_the_same():
    x = np.arange(20.0)
    for limits in (ALWAYS, ALWAYS._replace(longest_apart=0), Levels()):
        made = steps(loop(*CHAIN), limits=limits)
        memory = [Memory(x, True), *(Memory(np.zeros(20), False) for _ in range(4))]
        assert evaluate(Kernel((X, A, B, C, D), 0, tuple(made)), memory, ()) == 0
        np.testing.assert_array_equal(memory[-1].array, (x * 2 + 1) * (x * 3))
        assert all(one.written.all() for one in memory)


def test_vectors_do_not_overlap_if_the_rest_is_one():
    made = steps(loop(*CHAIN))
    assert [(each.lanes, int(each.stop.attribute)) for each in made] == [(8, 16), (4, 4)] * 3
    made = steps(loop(*CHAIN), limits=ALWAYS._replace(longest_apart=19))
    assert [(each.lanes, int(each.stop.attribute)) for each in made] == [(8, 20)] * 3


def test_vectors_of_independent_elements_never_overlap():
    few = index("j", 14)
    body = substituted(CHAIN, {I: few}, Simplifier())
    one = For(few, ZERO, const(14, INDEX), body, lanes=8, repeatable=True)
    assert [(each.lanes, int(each.stop.attribute)) for each in steps(one)] == [(8, 14)] * 3
    assert [each.lanes for each in steps(one, independent=True)] == [8, 4, 2] * 3


def test_vectors_of_sums_are_not_repeatable():
    """Whole vectors are never repeated, but what they promise has to hold, too."""
    sums = Store(D, (I,), at(X), "add")
    made = in_parts(loop(*CHAIN), Simplifier())
    assert [each.repeatable for each in made] == [True, True]
    made = in_parts(replace(loop(*CHAIN, sums), repeatable=False), Simplifier())
    assert [(each.repeatable, each.whole) for each in made] == [(False, True)] * 2
