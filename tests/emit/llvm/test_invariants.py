"""Loads that are the same in all iterations of a vector loop are in front of it."""

import numpy as np
import pytest

from functrans.emit.llvm.expression import FEW_REGISTERS
from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, ZERO, guard, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Store, buffer, load, size
from tests.emit.test_statements import by_llvm

F8 = np.dtype(float)
N = 20
X, W, Y = buffer("x", F8, (N,)), buffer("w", F8, (N,)), buffer("y", F8, (N,))
AT, ALL = index("i", N), const(N, INDEX)


def kernel(value, stop=ALL, target=Y, turns=0):
    """A vector loop, which may have no iteration if its stop counts turns of the program."""
    loop = For(AT, ZERO, stop, (Store(target, (AT,), value),), lanes=4)
    return Kernel((X, W, Y), 1, (loop,), (), turns=turns)


def loads_in_front(made, rounds=True):
    """The loads of single numbers of the body that come before its first loop."""
    text = emit(made, frozenset({"rounds"}) if rounds else frozenset())
    return text.split("\nloop")[0].count("= load double")


def sums(count):
    total = load(X, (AT,))
    for number in range(count):
        total = total + load(W, (const(number, INDEX),)) * load(X, (AT,))
    return total


@pytest.mark.parametrize(("rounds", "most"), [(True, FEW_REGISTERS), (False, N)])
@pytest.mark.parametrize("count", [1, 9, N])
def test_they_are_loaded_once(count, rounds, most):
    assert loads_in_front(kernel(sums(count)), rounds) == min(count, most)
    x, w = np.random.default_rng(0).normal(size=(2, N))
    y = np.zeros(N)
    by_llvm(kernel(sums(count)), [x, w, y], (0,))
    wanted = x.copy()
    for number in range(count):
        wanted = wanted + w[number] * x
    np.testing.assert_array_equal(y, wanted)


FIRST = load(W, (ZERO,))


def test_an_extent_that_is_an_argument_is_not_zero():
    assert loads_in_front(kernel(load(X, (AT,)) * FIRST, stop=size(0))) == 1


STAYS = {
    "the loop may have no iteration": kernel(load(X, (AT,)) * FIRST, stop=size(0), turns=1),
    "a branch may not need it": kernel(guard(load(X, (AT,)) < 0.0, FIRST * 2.0, load(X, (AT,)))),
    "the loop changes it": kernel(load(X, (AT,)) * FIRST, target=W),
}


@pytest.mark.parametrize("name", STAYS)
def test_others_stay_in_the_loop(name):
    assert loads_in_front(STAYS[name]) == 0
