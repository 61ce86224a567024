"""Copies of an element to itself are removed if nothing else was stored there before."""

import numpy as np

from functrans.loop.aliasing import Aliasing, Copies
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import Call, For, If, Store, buffer, load
from functrans.loop.walk import walk

F8 = np.dtype(float)
B, C, D = buffer("b", F8, (9,)), buffer("c", F8, (9,)), buffer("d", F8, (9,))
K, J = index("k", 9), index("j", 9)


def loop(*body, at=K, start=0, stop=9):
    return For(at, const(start, INDEX), const(stop, INDEX), body)


COPY = Store(C, (K,), load(B, (K,)))
ADD = loop(Store(C, (J,), load(D, (J,)), "add"), at=J)
SET = Store(C, (J,), const(7.0, F8))


def remaining(*statements):
    """How many stores are left, and how many of these copies to C."""
    kept = Copies(B, C).removed(statements)
    assert all(each.body for each in kept if isinstance(each, For))
    stores = [one for one in walk(kept) if isinstance(one, Store)]
    return len(stores), sum(one.value is load(B, one.indices) for one in stores)


def test_a_copy_is_left_out():
    assert remaining(loop(COPY), ADD) == (1, 0)
    other = Store(D, (K,), load(B, (8 - K,)))
    assert remaining(loop(COPY, other), ADD) == (2, 0)
    assert remaining(loop(other), loop(loop(Store(C, (J,), load(B, (J,))), at=J)), ADD) == (2, 0)
    assert Copies(B, C).removed((ADD,)) == (ADD,)


def test_what_was_changed_is_restored():
    assert remaining(loop(SET, at=J), loop(COPY)) == (2, 1)
    assert remaining(loop(SET, at=J, stop=5), loop(COPY, start=4)) == (2, 1)
    assert remaining(loop(SET, at=J, stop=5), loop(COPY, start=5)) == (1, 0)
    twice = Store(C, (K * 2,), load(B, (K * 2,)))
    assert remaining(loop(SET, at=J, stop=5), loop(twice, start=3, stop=5)) == (1, 0)
    assert remaining(loop(SET, at=J, stop=5), loop(twice, start=2, stop=5)) == (2, 1)
    # in an earlier iteration of the same loop
    after = Store(C, (K + 1,), const(7.0, F8))
    assert remaining(loop(COPY, after, stop=8)) == (2, 1)
    # what a copy that stays writes counts as well
    again = loop(COPY, start=4)
    assert remaining(loop(SET, at=J, stop=5), again, again) == (3, 2)


def test_places_that_are_not_known():
    somewhere = Store(C, (load(buffer("p", INDEX, (9,)), (ZERO,)),), const(7.0, F8))
    assert remaining(somewhere, loop(COPY)) == (2, 1)
    assert remaining(loop(COPY), somewhere) == (1, 0)
    assert remaining(Call("f", (), (), (C,)), loop(COPY)) == (1, 1)
    chosen = If(load(D, (ZERO,)) < 1.0, (Store(C, (ZERO,), load(B, (ZERO,))),))
    assert remaining(chosen, loop(COPY)) == (2, 2)


def test_an_old_element_that_is_read_later():
    late = loop(Store(D, (K,), load(B, (K,))))
    added = Copies(B, C).removed((loop(COPY), ADD, late))
    assert len(added) == 2
    assert Aliasing(B, C).block(added) is None
    early = Copies(B, C).removed((loop(COPY), late, ADD))
    assert Aliasing(B, C).block(early) is early
