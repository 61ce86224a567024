"""Loops of billions of steps: time and memory to compile do not depend on the number of steps."""

import tracemalloc

import numpy as np
import pytest

from functrans import grad, jit, jvp, lax, vmap
from functrans.numpy import asarray

STEPS = 2_000_000_000


def _counted(x):
    return lax.fori_loop(0, STEPS, lambda i, c: 0.5 * c + i, x)


def _between(x):
    return lax.fori_loop(7, STEPS, lambda i, c: 0.5 * c + x * i, x)


def _nested(x):
    def row(i, c):
        return lax.fori_loop(0, STEPS, lambda j, d: 0.5 * d + i * j, c)

    return lax.fori_loop(0, STEPS, row, x)


def _scanned(x):
    return lax.scan(lambda c, _: (0.5 * c + x, None), x, length=STEPS)[0]


def _while(x):
    return lax.while_loop(lambda s: s[0] < STEPS, lambda s: (s[0] + 1, 0.5 * s[1]), (0, x))[1]


LOOPS = [_counted, _between, _nested, _scanned, _while]
TRANSFORMS = {
    "value": lambda f: f,
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,)),
    "vmap": lambda f: lambda x: vmap(f)(x * np.ones(3)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_compiled_does_not_grow_with_the_steps(loop, transform):
    compiled = jit(TRANSFORMS[transform](loop))
    tracemalloc.start()
    try:
        compiled.lower(1.0).stages()
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("loop", [_counted, _between])
def test_a_linear_loop_keeps_nothing_for_its_gradient(loop):
    tracemalloc.start()
    try:
        shown = str(jit(grad(loop)).lower(1.0).stages())
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert f"float64[{STEPS}]" not in shown and f"int64[{STEPS}]" not in shown


@pytest.mark.parametrize("lower, upper", [(0, 9), (3, 11), (-4, 2), (5, 5), (7, 5)])
def test_counters_are_the_numbers_of_a_range(lower, upper):
    def loop(x):
        return lax.fori_loop(lower, upper, lambda i, c: 0.1 * i * np.sin(c) + x / (10 + i), x)

    def plain(x):
        c = x
        for i in range(lower, upper):
            c = 0.1 * i * np.sin(c) + x / (10 + i)
        return c

    x, h = np.linspace(0.1, 0.9, 5), 1e-6
    slopes = (plain(x + h) - plain(x - h)) / (2 * h)
    for compiled in (loop, jit(loop), jit(vmap(loop)), vmap(loop)):
        np.testing.assert_allclose(compiled(x), plain(x), rtol=1e-9)
    for compiled in (vmap(grad(loop)), jit(vmap(grad(loop)))):
        np.testing.assert_allclose(compiled(x), slopes, rtol=1e-4, atol=1e-5)


def test_a_counter_indexes_an_array_and_is_stacked_for_nobody():
    table = np.arange(12.0).reshape(4, 3)
    loop = jit(lambda x: lax.fori_loop(0, 4, lambda i, c: c + asarray(table)[i] * c[i % 3], x))
    c = np.ones(3)
    for i in range(4):
        c = c + table[i] * c[i % 3]
    np.testing.assert_array_equal(loop(np.ones(3)), c)
