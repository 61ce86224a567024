"""Sums in persistent kernels: threads share the terms as well as the loop."""

import numpy as np
import pytest

from functrans import grad, jit, lax
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.loop.statements import For, Reduce
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Repeat
from functrans.optimise import optimise
from tests.emit.cuda.programs import emulated, interpreted
from tests.lower.test_targets import SMALL_CUDA
from tests.targets import target

RNG = np.random.default_rng(0)


def drawn(*shapes, dtype=np.float64):
    return [(RNG.normal(size=shape) / 3).astype(dtype) for shape in shapes]


def planned(function, *operands, machine=CUDA):
    """The plan of a function, what it takes, and what NumPy makes of it."""
    graph, captured, *_ = jit(function).program_for(operands, {})
    graph = optimise(graph)
    made = pipeline.plan(graph, machine)
    given = [*operands, *captured]
    return made, given, by_numpy(graph, given)


def slices(made):
    """The rows of slices of each kernel."""
    rows = [row for step in made.steps for row in step.kernel.scratch if row.name == "slices"]
    return [row.extents for row in rows]


def down(w, h):
    """Sums whose terms are a row of the weights apart."""
    return lax.scan(lambda h, _: (np.tanh(h @ w), None), h, None, 2)[0]


def along(w, h):
    """Sums whose terms are side by side."""
    return lax.scan(lambda h, _: (np.tanh(h @ w.T), None), h, None, 2)[0]


def two_at_once(w, h):
    """Two sums of one iteration, and one that is no addition."""

    def step(h, _):
        u = np.sum(w * h, axis=1)
        return u - np.max(w + h, axis=1), np.min(w * h, axis=1)

    return lax.scan(step, h[0], None, 2)


def lstm(params, xs):
    wx, wh, b = params
    n = wh.shape[0]

    def step(carry, x):
        h, c = carry
        i, f, g, o = np.split(x @ wx + h @ wh + b, 4, axis=-1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        return (h, c), h

    zero = np.zeros((xs.shape[1], n), xs.dtype)
    return np.mean(lax.scan(step, (zero, zero), xs)[1] ** 2)


def gradient_of_lstm(wx, wh, b, xs):
    return grad(lstm)((wx, wh, b), xs)


def shapes_of_lstm(steps, batch, n):
    return (n, 4 * n), (n, 4 * n), (4 * n,), (steps, batch, n)


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [1, 31, 33, 64])
@pytest.mark.parametrize("function", [down, along, two_at_once])
def test_sums_in_slices_are_numpys(function, size):
    operands = drawn((size, size), (3, size))
    for seed, machine in enumerate((CUDA, SMALL_CUDA)):
        made, given, wanted = planned(function, *operands, machine=machine)
        found = interpreted(made, given, seed)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [down, along, two_at_once])
def test_the_text_of_slices(function, dtype):
    operands = drawn((33, 33), (3, 33), dtype=dtype)
    made, given, wanted = planned(function, *operands)
    assert slices(made)
    found = emulated(made, given)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == dtype
        tolerance = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_neighbouring_threads_read_neighbours():
    """Terms that lie side by side are those of neighbouring threads, else sums are."""
    for function, first in ((along, "irem"), (down, "idiv")):
        made, *_ = planned(function, *drawn((64, 64), (32, 64), dtype=np.float32))
        (kernel,) = [step.kernel for step in made.steps if step.kernel.scratch]
        (row,) = [row for row in kernel.scratch if row.name == "slices"]
        count, line = row.extents
        assert (count > 1, line) == (True, 65)
        (store,) = [x for x in walk(kernel.body) if getattr(x, "target", None) is row]
        assert store.indices[0].op == first


def test_lines_of_slices_begin_in_different_banks():
    made, *_ = planned(along, *drawn((64, 64), (32, 64), dtype=np.float32))
    assert all(line % 2 for _, line in slices(made))


@pytest.mark.full
def test_the_gradient_of_an_lstm_is_one_kernel_each_way():
    shapes = shapes_of_lstm(100, 32, 64)
    made = pipeline.plan(
        jit(gradient_of_lstm).lower(*drawn(*shapes, dtype=np.float32)).graph(), CUDA
    )
    assert not any(isinstance(each, Repeat) for each in made.schedule)
    persistent = [
        step.kernel
        for step in made.steps
        if step.kernel.band
        and any(isinstance(x, For) and x.lanes == 1 for x in walk(step.kernel.band[-1].body))
        and any(row.name == "slices" for row in step.kernel.scratch)
    ]
    assert len(persistent) == 2
    assert all(kernel.team >= 256 for kernel in persistent)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(("steps", "batch", "n"), [(2, 2, 17), (3, 1, 1), (1, 2, 5)])
def test_gradients_of_an_lstm(steps, batch, n):
    operands = drawn(*shapes_of_lstm(steps, batch, n))
    for machine in (CUDA, SMALL_CUDA) if n < 10 else (CUDA,):
        made, given, wanted = planned(gradient_of_lstm, *operands, machine=machine)
        found = interpreted(made, given, n)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


@pytest.mark.full
def test_slices_without_room_are_not_cut():
    small = target(CUDA, grid={"slices": 100})
    operands = drawn((64, 64), (3, 64))
    assert slices(planned(along, *operands)[0])
    made, given, wanted = planned(along, *operands, machine=small)
    assert not slices(made)
    (found,) = interpreted(made, given, 1)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-10)


@pytest.mark.full
def test_sums_that_need_each_other_are_not_cut():
    def step(w, h):
        scaled = w * h
        largest = np.max(scaled, axis=1)
        return np.sum(np.exp(scaled - largest[:, None]), axis=1) / 100

    def steps(w, h):
        return lax.scan(lambda h, _: (step(w, h), None), h, None, 2)[0]

    operands = drawn((40, 40), (40,))
    made, given, wanted = planned(steps, *operands)
    sums = [x for each in made.steps for x in walk(each.kernel.body) if isinstance(x, Reduce)]
    assert sums
    (found,) = interpreted(made, given, 2)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-10)


KINDS = {
    "any": lambda w, h: np.where(np.any(w * h > 0.5, axis=-1), 1, -1) * h[:, 0],
    "largest": lambda w, h: np.max((w * h * 100).astype(np.int32), axis=-1) * np.float32(0.01),
    "product": lambda w, h: np.prod(1 + w * h * h.dtype.type(0.01), axis=-1),
    "half": lambda w, h: np.sum((w * h).astype(np.float16), axis=-1) * np.float16(0.5),
}


@pytest.mark.parametrize("name", KINDS)
def test_other_folds_and_dtypes(name):
    def steps(w, h):
        def step(h, _):
            return KINDS[name](w, h[:, None]).astype(h.dtype), None

        return lax.scan(step, h, None, 2)[0]

    operands = drawn((33, 33), (3, 33), dtype=np.float32)
    made, given, wanted = planned(steps, *operands)
    assert slices(made)
    (found,) = emulated(made, given)
    tolerance = 1e-2 if name == "half" else 1e-5
    np.testing.assert_allclose(found, wanted[0], rtol=tolerance, atol=tolerance)
