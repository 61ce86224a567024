"""Functions that a kernel contains many times are called; those of one operand together."""

import re

import numpy as np

from functrans import jit, lax
from functrans.emit.llvm.kernel import emit
from functrans.ir.primitive import registry
from functrans.loop.functions import function_of
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import const
from functrans.loop.statements import Kernel, Store, buffer, load

F8 = np.dtype(float)
X, Y = buffer("x", F8, (100,)), buffer("y", F8, (100,))
SINE, COSINE = (function_of(registry[name], (F8,), ()) for name in ("sin", "cos"))


def calls(distance):
    """What the functions return that are called for forty sines and cosines."""
    places = [const(i, INDEX) for i in range(80)]
    stores = [Store(Y, (at,), SINE((load(X, (at,)),))) for at in places[:40]]
    stores += [
        Store(Y, (at,), COSINE((load(X, (places[i + distance],)),)))
        for i, at in enumerate(places[40:])
    ]
    return re.findall(r"call (.*) @often\d+\(", emit(Kernel((X, Y), 0, tuple(stores))))


def test_functions_of_the_same_operand_are_one_with_two_results():
    assert calls(distance=0) == 40 * ["{ double, double }"]
    assert calls(distance=40) == 80 * ["double"]
    assert sorted(calls(distance=10)) == 20 * ["double"] + 30 * ["{ double, double }"]


def test_they_compute_the_same():
    w = np.random.default_rng(0).normal(size=(33, 9))

    def step(c, x):
        for row in w:
            c = c + 0.1 * np.sin(c * row) * np.cos(c * row) + 0.01 * x
        return c, None

    def last(c):
        return lax.scan(step, c, np.arange(3.0))[0]

    expected = np.linspace(-1.0, 1.0, 9)
    for x in np.arange(3.0):
        expected, _ = step(expected, x)
    np.testing.assert_allclose(jit(last)(np.linspace(-1.0, 1.0, 9)), expected, rtol=1e-12)
    assert re.search(r"call \{ <\d x double>.* @often", jit(last).lower(expected).llvm())
