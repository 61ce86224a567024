"""Donation: results placed in the memory of donated inputs, on nests written by hand."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, index
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Address, Call, For, Let, Reduce, Store, buffer, load, local
from functrans.loop.walk import walk
from functrans.lower.kernel.donation import donate
from functrans.lower.nest.bodies import Nest
from tests.lower.by_hand import done_by, results

F8 = np.dtype(float)
LENGTH = 6
X, Y, Z, OUT = (buffer(name, F8, (LENGTH,)) for name in ("x", "y", "z", "out"))
A = np.arange(1.0, LENGTH + 1)


def number(n):
    return const(n, INDEX)


def loop(target, value, at=lambda i: i, count=LENGTH):
    """``target[i] = value(i)``"""
    i = index("i", count)
    return For(i, number(0), number(count), (Store(target, (at(i),), value(i)),), repeatable=True)


def homes_of(*bodies, donated=(X,), outputs=(Y,)):
    nests = [Nest(body if isinstance(body, tuple) else (body,), ()) for body in bodies]
    return done_by(donate, nests, donated, outputs)


def in_place(nests):
    """What is in the donated array after the nests, its result being there too."""
    relocation = Relocation(Simplifier())
    relocation.moved[Y] = X, ()
    body = relocation.statements(each for nest in nests for each in nest.body)
    copy = loop(OUT, lambda i: load(X, (i,)))
    (found,) = results([*body, copy], {X: A, Z: np.full(LENGTH, 10.0)}, [OUT])
    return found


def test_each_element_from_its_own():
    nests, homes = homes_of(loop(Y, lambda i: load(X, (i,)) * 2.0))
    assert homes == {Y: X}
    np.testing.assert_array_equal(in_place(nests), A * 2)
    # an iteration that was done again would double twice
    assert not any(each.repeatable for nest in nests for each in walk(nest.body) if
                   isinstance(each, For))  # fmt: skip


def test_a_copy_to_where_it_is_goes():
    nests, homes = homes_of(
        loop(Y, lambda i: load(X, (i,))), Store(Y, (number(2),), const(7.0, F8))
    )
    assert homes == {Y: X}
    assert [type(nest.body[0]) for nest in nests] == [Store]
    np.testing.assert_array_equal(in_place(nests), [1, 2, 7, 4, 5, 6])


def test_plain_stores_are_computed_before_the_first():
    """Two elements change places."""
    stores = (
        Store(Y, (number(0),), load(X, (1,))),
        Store(Y, (number(1),), load(X, (0,))),
        *(Store(Y, (number(n),), load(X, (n,))) for n in range(2, LENGTH)),
    )
    nests, homes = homes_of(stores)
    assert homes == {Y: X}
    np.testing.assert_array_equal(in_place(nests), [2, 1, 3, 4, 5, 6])
    assert isinstance(nests[0].body[0], Let)


REFUSED = {
    "a neighbour is read": [loop(Y, lambda i: load(X, (number(LENGTH - 1) - i,)))],
    "one element is read by all": [loop(Y, lambda i: load(X, (i,)) + load(X, (number(0),)))],
    "it is read afterwards": [
        loop(Y, lambda i: load(X, (i,)) * 2.0),
        loop(Z, lambda i: load(X, (i,))),
    ],
    "a copy sets back what was changed": [
        loop(Y, lambda i: load(X, (i,))),
        Store(Y, (number(2),), const(7.0, F8)),
        loop(Y, lambda i: load(X, (i + 1,)), at=lambda i: i + 1, count=3),
    ],
    "a library reads it": [
        (Call("f", (Address(X, (number(0),)), Address(Y, (number(0),))), reads=(X,), writes=(Y,)),),
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_read_what_was_overwritten(name):
    nests, homes = homes_of(*REFUSED[name])
    assert homes == {}
    assert [nest.body for nest in nests] == [
        body if isinstance(body, tuple) else (body,) for body in REFUSED[name]
    ]


def test_what_is_read_before_is_no_hindrance():
    nests, homes = homes_of(
        loop(Z, lambda i: load(X, (number(LENGTH - 1) - i,))),
        loop(Y, lambda i: load(X, (i,)) + load(Z, (i,))),
    )
    assert homes == {Y: X}
    np.testing.assert_array_equal(in_place(nests), A + A[::-1])


def test_arrays_of_another_kind_are_no_homes():
    half = buffer("half", np.dtype("f4"), (LENGTH,))
    longer = buffer("longer", F8, (LENGTH + 1,))
    number_ = buffer("number", F8, ())
    body = loop(Y, lambda i: const(1.0, F8))
    assert homes_of(body, donated=(half, longer, number_))[1] == {}
    assert homes_of(body)[1] == {Y: X}


def test_each_result_has_one_home():
    bodies = loop(Y, lambda i: load(X, (i,)) * 2.0), loop(Z, lambda i: const(3.0, F8))
    assert homes_of(*bodies, outputs=(Y, Z))[1] == {Y: X}
    other = buffer("other", F8, (LENGTH,))
    assert homes_of(*bodies, donated=(other, X), outputs=(Y, Z))[1] == {Y: X, Z: other}


def test_an_input_whose_elements_are_used_is_a_home_before_others():
    """The second result is made of the input, so it gets it."""
    bodies = loop(Y, lambda i: const(3.0, F8)), loop(Z, lambda i: load(X, (i,)) * 2.0)
    assert homes_of(*bodies, outputs=(Y, Z))[1] == {Z: X}


def test_a_sum_that_goes_before():
    """A sum of the input is known before the loop that overwrites it."""
    total, k = local(F8), index("k", LENGTH)
    reduce = Reduce((total,), ("add",), (load(X, (k,)),), ((k, number(0), number(LENGTH)),))
    nests, homes = homes_of((reduce, loop(Y, lambda i: load(X, (i,)) * total)))
    assert homes == {Y: X}
    np.testing.assert_array_equal(in_place(nests), A * A.sum())
