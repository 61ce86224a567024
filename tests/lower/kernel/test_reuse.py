"""Reuse of result memory for temporaries, on nests written by hand."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.nodes import INDEX, index
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Address, Call, For, Store, buffer, load
from functrans.lower.kernel.reuse import Reuse, reuse
from functrans.lower.nest.bodies import Nest
from tests.lower.by_hand import done_by, results
from tests.targets import CPU

F8 = np.dtype(float)
LENGTH = 6
X, T, Y, Z = (buffer(name, F8, (LENGTH,)) for name in ("x", "t", "y", "z"))
SQUARE, OUT = buffer("s", F8, (LENGTH, LENGTH)), buffer("out", F8, (LENGTH, LENGTH))
A = np.arange(1.0, LENGTH + 1)
SMALL = CPU.having(Reuse(least_bytes=0))


def number(n):
    return const(n, INDEX)


def loop(target, value, source=None, parallel=True):
    """``target[i] = value(i)``"""
    i = index("i", LENGTH)
    body = (Store(target, (i,), value(i)),)
    return For(i, number(0), number(LENGTH), body, repeatable=True, parallel=parallel)


def doubled(source):
    return lambda i: load(source, (i,)) * 2.0


def homes_of(*bodies, outputs=(Y,), target=SMALL):
    nests = [Nest(body if isinstance(body, tuple) else (body,), ()) for body in bodies]
    return reuse(nests, (X,), outputs, {}, target)


def in_place(nests, home):
    relocation = Relocation(Simplifier())
    relocation.moved[T] = home, ()
    body = relocation.statements(each for nest in nests for each in nest.body)
    (found,) = results(body, {X: A}, [home])
    return found


def test_elements_of_their_own():
    nests, homes = homes_of(loop(T, doubled(X)), loop(Y, doubled(T)))
    assert homes == {T: Y}
    np.testing.assert_array_equal(in_place(nests, Y), A * 4)
    # an iteration that was done again would double twice
    assert not nests[1].body[0].repeatable


def rows(first, last):
    """``t[i, :] = first(i, j)``, then ``out[i, :] = last(i, j)``, in one loop over rows."""
    i, j, k = index("i", LENGTH), index("j", LENGTH), index("k", LENGTH)
    made = For(j, number(0), number(LENGTH), (Store(SQUARE, (i, j), first(i, j)),))
    used = For(k, number(0), number(LENGTH), (Store(OUT, (i, k), last(i, k)),))
    return For(i, number(0), number(LENGTH), (made, used), parallel=True)


def test_slices_of_their_own_are_made_and_used_up():
    body = rows(lambda i, j: load(X, (j,)), lambda i, j: load(SQUARE, (i, j)) * load(X, (i,)))
    nests, homes = homes_of(body, outputs=(OUT,))
    assert homes == {SQUARE: OUT}
    relocation = Relocation(Simplifier())
    relocation.moved[SQUARE] = OUT, ()
    (found,) = results(relocation.statements(nests[0].body), {X: A}, [OUT])
    np.testing.assert_array_equal(found, np.outer(A, A))


ROW = index("i", LENGTH)
REFUSED = {
    "a neighbour is read": [
        loop(T, doubled(X)), loop(Y, lambda i: load(T, (number(LENGTH - 1) - i,)))
    ],
    "it is read afterwards": [loop(T, doubled(X)), loop(Y, doubled(T)), loop(Z, doubled(T))],
    "it is written afterwards": [loop(Y, doubled(X)), loop(T, doubled(Y))],
    "it is written behind the result": [
        For(ROW, number(0), number(LENGTH), (
            Store(Y, (ROW,), load(X, (ROW,))),
            Store(T, (ROW,), load(X, (ROW,)) * 2.0)), parallel=True),
    ],
    "all of it is made first, in the same loop": [
        For(ROW, number(0), number(LENGTH), (
            loop(T, doubled(X), parallel=False), Store(Y, (ROW,), load(T, (ROW,)))), parallel=True),
    ],
    "a library makes the result": [
        loop(T, doubled(X)),
        (Call("f", (Address(T, (number(0),)), Address(Y, (number(0),))), reads=(T,), writes=(Y,)),),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_read_what_was_overwritten(name):
    assert homes_of(*REFUSED[name], outputs=(Y,))[1] == {}


def test_other_kinds_and_small_ones_stay():
    bodies = loop(T, doubled(X)), loop(Y, doubled(T))
    assert homes_of(*bodies, target=CPU.having(Reuse(least_bytes=49)))[1] == {}
    assert homes_of(*bodies, target=CPU.having(Reuse(least_bytes=48)))[1] == {T: Y}
    assert homes_of(*bodies, outputs=(T, Y))[1] == {}
    narrow = buffer("narrow", np.dtype("f4"), (LENGTH,))
    assert homes_of(bodies[0], loop(narrow, lambda i: const(1.0, np.dtype("f4"))),
                    outputs=(narrow,))[1] == {}  # fmt: skip


def test_a_result_that_has_a_home_takes_nothing_in():
    nests = [Nest((each,), ()) for each in (loop(T, doubled(X)), loop(Y, doubled(T)))]
    assert done_by(reuse, nests, (X,), (Y,), {Y: X}, target=SMALL)[1] == {Y: X}


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 17), (17, 300, 5), (9, 128, 96)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(shape, axis):
    def softmax(x):
        powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return powers / np.sum(powers, axis=axis, keepdims=True)

    x = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(jit(softmax)(x), softmax(x), rtol=1e-13)
