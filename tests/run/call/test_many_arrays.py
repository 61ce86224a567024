"""Programs of thousands of arrays."""

import threading

import numpy as np
import pytest

from functrans import compile, jit, lax
from functrans.loop.target import CPU
from functrans.lower.nest.fusion import Fusion
from tests.targets import take_host_for

MANY = 4094


def small_arrays(count):
    return [np.full(3, float(i)) for i in range(count)]


@pytest.mark.full
def test_a_sum_of_thousands_of_arrays():
    xs = small_arrays(MANY)
    np.testing.assert_array_equal(jit(lambda xs: sum(xs))(xs), sum(xs))


@pytest.mark.full
def test_thousands_of_numbers():
    results = jit(lambda xs: [x + 1.0 for x in xs])([float(i) for i in range(2048)])
    assert results == [i + 1.0 for i in range(2048)]


@pytest.mark.full
def test_a_step_of_an_optimiser_of_thousands_of_parameters():
    ws, gs = small_arrays(1400), small_arrays(1400)[::-1]
    step = jit(lambda ws, gs: [w - 0.5 * g for w, g in zip(ws, gs, strict=True)])
    for result, w, g in zip(step(ws, gs), ws, gs, strict=True):
        np.testing.assert_array_equal(result, w - 0.5 * g)


@pytest.mark.full
def test_thousands_of_donated_arrays():
    ws, gs = small_arrays(1400), small_arrays(1400)
    base = np.zeros((1400, 3))
    step = jit(
        lambda ws, gs, rows: [w - g + r for w, g, r in zip(ws, gs, rows, strict=True)],
        donate_argnums=0,
    )
    expected = [w - g + 1 for w, g in zip(ws, gs, strict=True)]
    # one of those that are given up is a view of what another argument is made of
    base += 1
    rows = list(base)
    places = {w.ctypes.data for w in ws[1:]}
    results = step([base[0], *ws[1:]], gs, rows)
    np.testing.assert_array_equal(results[0], [2.0] * 3)
    np.testing.assert_array_equal(base[0], [1.0] * 3)
    np.testing.assert_array_equal(results[1:], expected[1:])
    assert {result.ctypes.data for result in results[1:]} == places


def test_one_array_in_many_places_is_not_overwritten():
    x = np.ones(3)
    results = jit(lambda xs: [2 * y for y in xs], donate_argnums=0)([x, np.zeros(3), x])
    np.testing.assert_array_equal(results, [[2] * 3, [0] * 3, [2] * 3])
    np.testing.assert_array_equal(x, [1] * 3)


@pytest.mark.full
def test_no_kernel_is_handed_many_more_arrays_than_llvm_likes():
    lowered = jit(lambda xs: [x + 1.0 for x in xs]).lower(small_arrays(1500))
    buffers = [len(step.buffers) for step in lowered._program().parts[0].plan.steps]
    assert max(buffers) <= CPU[Fusion].most_buffers + 2
    assert sum(buffers) == 3000


def test_the_frame_of_thousands_of_arrays_is_not_on_the_stack():
    """A thread with little stack calls what has room for nothing but the frame there."""
    count = 20_000
    xs = np.arange(float(count))
    function = jit(lambda *xs: xs[0] + xs[-1])
    assert function(*xs) == count - 1
    before = threading.stack_size(128 * 1024)
    results = []
    try:
        worker = threading.Thread(target=lambda: results.append(function(*xs)))
        worker.start()
        worker.join()
    finally:
        threading.stack_size(before)
    assert results == [count - 1]


@pytest.mark.full
@pytest.mark.parametrize("count", [3, 900])
def test_an_exported_function_of_many_arrays(count):
    exported = compile(lambda *xs: (sum(xs), xs[0] * 2.0), *[0.5] * (count - 1), np.ones(3))
    first, second = np.zeros(3), np.zeros(())
    last = np.arange(3.0)
    pointers = [last.ctypes.data, first.ctypes.data, second.ctypes.data]
    assert exported.ctypes(*map(float, range(1, count)), *pointers) == 0
    np.testing.assert_array_equal(first, last + sum(range(1, count)))
    assert second == 2.0


@pytest.mark.slow
def test_twenty_thousand_arrays():
    xs = small_arrays(20_000)
    np.testing.assert_array_equal(jit(lambda xs: sum(xs))(xs), sum(xs))
    results = jit(lambda xs: [x + 1.0 for x in xs])(xs)
    np.testing.assert_array_equal(results, np.stack(xs) + 1)


def softmax(x):
    return np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)


@pytest.mark.full
def test_rows_of_the_nests_inside_of_a_loop_are_bounded_in_all(monkeypatch):
    """Each nest may have its rows on the stack, and a loop has many of them inside."""

    def steps(x):
        for scale in (0.5, 1.5, 2.5):
            x = softmax(x * scale)
            x = x @ x.T
        return x

    def rows(function):
        (step,) = function.lower(x)._program().parts[0].plan.steps
        return len(step.kernel.scratch)

    def repeated(count):
        return jit(lambda x: lax.scan(lambda c, _: (steps(c), None), x, None, length=count)[0])

    x = np.linspace(-1, 1, 100 * 100).reshape(100, 100)
    assert rows(repeated(3)) == 3
    take_host_for(monkeypatch, largest_stack=1000)
    bounded = repeated(2)
    assert rows(bounded) == 1
    np.testing.assert_allclose(bounded(x), steps(steps(x)), rtol=1e-12)
