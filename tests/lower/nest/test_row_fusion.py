"""Fusion of nests over the same rows, on nests written by hand and on Fourier transforms."""

import numpy as np
import pytest

from functrans import config, grad, jit
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import Address, Call, For, Store, buffer, load
from functrans.loop.walk import stored
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.row_fusion import with_fused_rows
from tests.lower.by_hand import results
from tests.targets import CPU, target

F8 = np.dtype(float)
ROWS, LENGTH = 6, 4
X, T, Y, Z = (buffer(name, F8, (ROWS, LENGTH)) for name in ("x", "t", "y", "z"))
LINE = buffer("line", F8, (LENGTH,))
A = np.arange(1.0, ROWS * LENGTH + 1).reshape(ROWS, LENGTH)


def loop(name, extent, body, **more):
    i = index(name, extent)
    return For(i, ZERO, const(extent, INDEX), tuple(body(i)), **more)


def doubled(source, made, group=1, row=lambda i: i):
    """Rows times two, ``group`` of them in an iteration."""

    def one(i):
        return [loop("j", LENGTH, lambda j: [Store(made, (i, j), load(source, (row(i), j)) * 2.0)])]

    def body(i):
        return one(i) if group == 1 else [loop("k", group, lambda k: one(i * group + k))]

    return nest(loop("i", ROWS // group, body, parallel=True))


def reversed_rows(source, made, group=1):
    """Each row from its end to its start, by way of scratch."""

    def one(i):
        yield loop("j", LENGTH, lambda j: [Store(LINE, (j,), load(source, (i, j)))])
        last = const(LENGTH - 1, INDEX)
        yield loop("j", LENGTH, lambda j: [Store(made, (i, j), load(LINE, (last - j,)))])

    def body(i):
        return one(i) if group == 1 else [loop("k", group, lambda k: one(i * group + k))]

    return nest(loop("i", ROWS // group, body, parallel=True), scratch=(LINE,))


def nest(*body, scratch=(), **more):
    return Nest(body, scratch, **more)


def done(nests, *outputs):
    body = [each for one in nests for each in one.body]
    scratch = {row for one in nests for row in one.scratch}
    others = stored(body) - scratch - {*outputs}
    return results(body, {X: A}, (*outputs, *others), scratch)


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("of_plain", [1, 2, 3, 6])
def test_rows_before_and_after(group, of_plain):
    nests = [doubled(X, T, of_plain), reversed_rows(T, Y, group), doubled(Y, Z)]
    fused = with_fused_rows(nests, [Z], CPU)
    divides = max(group, of_plain) % min(group, of_plain) == 0
    assert len(fused) == (1 if divides else 2)
    together = max(group, of_plain if divides else 1)
    kept = {one.name: one.extents for one in fused[-1].scratch}
    assert kept["y_rows"] == (together, LENGTH) and ("t_rows" in kept) == divides
    np.testing.assert_array_equal(done(fused, Z)[0], A[:, ::-1] * 4)


def test_what_else_is_between():
    """Another nest, which needs nothing of these, comes first now."""
    other = doubled(X, buffer("w", F8, (ROWS, LENGTH)))
    fused = with_fused_rows([doubled(X, T), other, reversed_rows(T, Y)], [Y], CPU)
    assert len(fused) == 2 and fused[0] is other
    np.testing.assert_array_equal(done(fused, Y)[0], A[:, ::-1] * 2)


def other_row(i):
    return const(ROWS - 1, INDEX) - i


STAYS = {
    # an iteration needs a row of another one
    "rows": [reversed_rows(X, T), doubled(T, Y, row=other_row)],
    # what is between needs what the first one makes
    "between": [doubled(X, T), doubled(T, Z), reversed_rows(T, Y)],
    # plain elements alone, which have been fused where it pays
    "plain": [doubled(X, T), doubled(T, Y)],
    # in order
    "serial": [nest(loop("i", ROWS, lambda i: [Store(T, (i, ZERO), load(X, (i, ZERO)))])),
               reversed_rows(T, Y)],
    # a call says nothing of rows
    "call": [reversed_rows(X, T), nest(loop("i", ROWS, lambda i: [
        Call("dtest", (Address(T, (i, ZERO)),), (T,), (Y,))], parallel=True))],
    "part": [doubled(X, T), nest(*reversed_rows(T, Y).body, scratch=(LINE,), part=1)],
}  # fmt: skip


@pytest.mark.parametrize("nests", STAYS.values(), ids=STAYS)
def test_what_stays(nests):
    assert with_fused_rows(nests, [Y], CPU) == nests


def test_what_is_an_output_stays_in_memory():
    nests = [doubled(X, T), reversed_rows(T, Y)]
    assert with_fused_rows(nests, [T, Y], CPU) == nests


def test_rows_that_fill_the_stack_stay_in_memory():
    nests = [doubled(X, T), reversed_rows(T, Y)]
    row = LENGTH * F8.itemsize
    assert with_fused_rows(nests, [Y], target(largest_stack=2 * row - 1)) == nests
    assert len(with_fused_rows(nests, [Y], target(largest_stack=2 * row))) == 1


def test_what_overwrites_what_was_read():
    """A later nest that writes what an earlier one has read, of the same row, stays behind it."""
    nests = [doubled(X, T), reversed_rows(T, Y), doubled(Y, T), reversed_rows(T, Z)]
    fused = with_fused_rows(nests, [Z], CPU)
    np.testing.assert_array_equal(done(fused, Z)[0], A * 4)


def kernels(f, *args):
    return sum(line.startswith("nest") for line in jit(f).lower(*args).schedule().splitlines())


def power(x):
    return np.sum(np.abs(np.fft.fft(x)) ** 2, axis=1)


@pytest.mark.few(3)
@pytest.mark.parametrize("shape", [(24, 48), (17, 100), (3, 2), (1, 300), (2, 1)])
def test_transforms(shape, monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 1)
    re, im = np.random.default_rng(0).normal(size=(2, *shape))
    x = re + 1j * im
    for f in (power, grad(lambda x: np.sum(power(x) ** 2)), lambda x: np.fft.ifft(np.fft.fft(x)).T):
        found = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(config, "threads", threads)
            found.append(jit(f)(x))
        np.testing.assert_allclose(found[0], f(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_a_transform_between_plain_elements_is_one_loop():
    x = np.ones((20, 128), complex)
    # beside it, tables of twiddle factors
    assert kernels(power, x) == kernels(np.fft.fft, x) == 3
