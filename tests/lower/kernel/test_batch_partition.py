"""Batch partition: scans over independent rows are executed for groups of rows."""

import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import config, grad, jit, lax, tree
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Store, buffer, load
from functrans.loop.target import CPU
from functrans.lower.grid.target import CUDA
from functrans.lower.kernel.batch_partition import partition_batch
from functrans.lower.nest.bodies import Nest
from tests.targets import take_host_for

RNG = np.random.default_rng(0)
LENGTH = 20
PARTS = "for rows in"


def weights(hidden, dtype=np.float64):
    shapes = (5, 3 * hidden), (hidden, 3 * hidden)
    return [(RNG.standard_normal(shape) / 4).astype(dtype) for shape in shapes]


def gru(params, xs):
    w, u = params
    hidden = u.shape[0]

    def step(h, x):
        a, b = x @ w, h @ u
        r = 1 / (1 + np.exp(-a[:, :hidden] - b[:, :hidden]))
        z = 1 / (1 + np.exp(-a[:, hidden : 2 * hidden] - b[:, hidden : 2 * hidden]))
        n = np.tanh(a[:, 2 * hidden :] + r * b[:, 2 * hidden :])
        h = (1 - z) * n + z * h
        return h, h.sum(axis=1)

    h, sums = lax.scan(step, np.zeros((xs.shape[1], hidden), xs.dtype), xs)
    return np.sum(h * h) + np.sum(sums**2) / 100


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("batch", "hidden"), [(16, 24), (17, 24), (33, 20), (24, 24), (130, 20)])
def test_parts_give_what_the_whole_gives(batch, hidden, dtype):
    params = weights(hidden, dtype)
    xs = RNG.standard_normal((LENGTH, batch, 5)).astype(dtype)
    compiled = jit(grad(gru, argnums=(0, 1)))
    assert compiled.lower(params, xs).schedule().count(PARTS) == 2
    rtol = 1e-10 if dtype == np.float64 else 2e-3
    expected = grad(gru, argnums=(0, 1))(params, xs)
    for one, other in zip(tree.leaves(compiled(params, xs)), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol / 10)


def test_no_part_is_less_than_a_vector(monkeypatch):
    """The columns of a table to which rows are added."""
    take_host_for(monkeypatch, vector_bytes=64, registers=32)

    def table(x, i):
        made = np.zeros((50, x.shape[1]), x.dtype)
        np.add.at(made, i, x)
        return made

    i = RNG.integers(0, 50, 70_000)
    for columns, parts in ((16, 0), (32, 1)):
        x = RNG.standard_normal((len(i), columns)).astype(np.float32)
        compiled = jit(table)
        assert compiled.lower(x, i).schedule().count(PARTS) == parts
        np.testing.assert_allclose(compiled(x, i), table(x, i), rtol=1e-3)


@pytest.mark.dear
def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 0)
    params, xs = weights(24), RNG.standard_normal((LENGTH, 50, 5))
    compiled = jit(grad(gru))
    results = []
    for number in (1, 2, 3, 16):
        monkeypatch.setattr(config, "threads", number)
        results.append([leaf.tobytes() for leaf in compiled(params, xs)])
    assert all(result == results[0] for result in results)


def scanned(step, carry):
    return jit(lambda carry: lax.scan(step, carry, None, length=LENGTH)), carry


SQUARE = RNG.standard_normal((40, 40)) / 8
WIDE = RNG.standard_normal((300, 400))


def beside(h):
    """What mixes columns, so that these cannot take the place of rows."""
    return 0.1 * np.roll(h, 1, axis=1)


MIXING = {
    "a mean over rows": (lambda h, _: (np.tanh(h - h.mean(axis=0) + beside(h)), None), WIDE),
    "rows turned round": (lambda h, _: (np.tanh(h[::-1] + beside(h)) * 0.9, None), WIDE),
    "rows rolled": (lambda h, _: (np.tanh(np.roll(h, 1, axis=0) + beside(h)), None), WIDE),
    "a product from the left": (
        lambda h, _: (np.tanh(SQUARE @ h + beside(h)), None),
        RNG.standard_normal((40, 3000)),
    ),
    "a sum that is a carry": (
        lambda c, _: ((np.tanh(c[0] + beside(c[0])), c[1] + c[0].sum()), None),
        (WIDE, 0.0),
    ),
    "transposed": (lambda h, _: (np.tanh(h.T) * 0.9, None), RNG.standard_normal((400, 400))),
}


@pytest.mark.parametrize("name", MIXING)
def test_rows_that_mix_stay_together(name):
    step, carry = MIXING[name]
    compiled, carry = scanned(step, carry)
    assert PARTS not in compiled.lower(carry).schedule()
    expected = carry
    for _ in range(LENGTH):
        expected, _ = step(expected, None)
    for one, other in zip(tree.leaves(compiled(carry)[0]), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_columns_may_be_what_does_not_mix():
    step = lambda h, _: (np.tanh(h - h.mean(axis=0)), None)  # noqa: E731
    compiled, carry = scanned(step, WIDE)
    assert PARTS in compiled.lower(carry).schedule()
    expected = carry
    for _ in range(LENGTH):
        expected, _ = step(expected, None)
    np.testing.assert_allclose(compiled(carry)[0], expected, rtol=1e-9, atol=1e-12)


def test_a_counter_is_done_by_every_part():
    def step(carry, x):
        h, i = carry
        return (np.tanh(h @ SQUARE) + x * i, i + 1), h

    h, xs = RNG.standard_normal((64, 40)), RNG.standard_normal((LENGTH, 64, 40))
    compiled = jit(lambda h, xs: lax.scan(step, (h, 0), xs))
    assert PARTS in compiled.lower(h, xs).schedule()
    (last, count), stack = compiled(h, xs)
    carry, rows = (h, 0), []
    for x in xs:
        carry, row = step(carry, x)
        rows.append(row)
    assert count == LENGTH
    np.testing.assert_allclose(last, carry[0], rtol=1e-10)
    np.testing.assert_allclose(stack, rows, rtol=1e-10)


def test_small_loops_stay_whole():
    compiled, carry = scanned(lambda h, _: (np.tanh(h @ SQUARE[:4, :4]), None), np.ones((16, 4)))
    assert PARTS not in compiled.lower(carry).schedule()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_are_not_begun_again(name):
    x = RNG.uniform(0.9, 1.1, (600, 200))
    running = getattr(np, name)
    np.testing.assert_allclose(jit(lambda x: running(x, axis=1))(x), running(x, axis=1))


def test_running_sums_inside_of_scans_are_not_begun_again():
    def step(h, _):
        return np.cumsum(np.tanh(h), axis=1) / 100, None

    compiled, carry = scanned(step, WIDE)
    expected = carry
    for _ in range(LENGTH):
        expected, _ = step(expected, None)
    np.testing.assert_allclose(compiled(carry)[0], expected, rtol=1e-9, atol=1e-12)


def test_parts_do_not_update_the_same_number():
    """Each would count all that is counted, and all at once."""
    places = RNG.integers(0, 50, (LENGTH, 700))

    def step(h, given):
        x, at = given
        counts = fnp.zeros(50)
        np.add.at(counts, at, 1.5)
        return np.tanh(h @ SQUARE + x), counts

    h, xs = RNG.standard_normal((64, 40)), RNG.standard_normal((LENGTH, 64, 40))
    compiled = jit(lambda h, xs: lax.scan(step, h, (xs, places)))
    assert PARTS not in compiled.lower(h, xs).schedule()
    np.testing.assert_allclose(
        compiled(h, xs)[1], [1.5 * np.bincount(at, minlength=50) for at in places]
    )


def test_a_row_that_an_iteration_has_to_itself_is_no_hindrance():
    def step(h, _):
        e = np.exp(h - h.max(axis=1, keepdims=True))
        return np.tanh(h @ SQUARE) + e / e.sum(axis=1, keepdims=True), h.sum(axis=1)

    compiled, h = scanned(step, RNG.standard_normal((64, 40)))
    assert PARTS in compiled.lower(h).schedule()
    rows, expected = [], h
    for _ in range(LENGTH):
        expected, row = step(expected, None)
        rows.append(row)
    last, stack = compiled(h)
    np.testing.assert_allclose(last, expected, rtol=1e-10)
    np.testing.assert_allclose(stack, rows, rtol=1e-9, atol=1e-12)


ROWS, COLUMNS = 2600, 8
X, OUT = buffer("x", float, (4, ROWS, COLUMNS)), buffer("out", float, (4, ROWS, COLUMNS))
OUTER, J, K, L = (index(name, n) for name, n in zip("ijkl", (4, ROWS, COLUMNS, ROWS), strict=True))


def loop(counter, *body):
    return For(counter, const(0, INDEX), const(counter.attribute[2], INDEX), body)


def nest(scratch, *body):
    return Nest((loop(OUTER, *body),), (scratch,), uncounted=10**9)


def copied_to(row, *at):
    return loop(J, loop(K, Store(row, at, load(X, (OUTER, J, K)))))


def is_cut(given, target=CPU):
    return partition_batch(given, target) is not given


def test_a_row_on_the_stack_is_not_cut_where_others_read_it():
    row = buffer("row", float, (ROWS, COLUMNS))
    turned = const(ROWS - 1, INDEX) - J
    own = loop(J, loop(K, Store(OUT, (OUTER, J, K), load(row, (J, K)))))
    other = loop(L, loop(K, Store(OUT, (OUTER, L, K), load(row, (const(3, INDEX), K)))))
    reverse = loop(J, loop(K, Store(OUT, (OUTER, J, K), load(row, (turned, K)))))
    assert is_cut(nest(row, copied_to(row, J, K), own))
    assert not is_cut(nest(row, copied_to(row, J, K), other))
    assert not is_cut(nest(row, copied_to(row, J, K), reverse))


def test_what_an_iteration_finds_on_the_stack_must_be_its_own():
    row = buffer("row", float, (COLUMNS,))
    write = loop(K, Store(row, (K,), load(X, (OUTER, J, K))))
    half = index("k", COLUMNS // 2)
    write_half = loop(half, Store(row, (half,), load(X, (OUTER, J, half))))
    write_rest = loop(half, Store(row, (half + 4,), load(X, (OUTER, J, half))))
    read = loop(K, Store(OUT, (OUTER, J, K), load(row, (const(7, INDEX) - K,))))
    assert is_cut(nest(row, loop(J, write, read)))
    assert is_cut(nest(row, loop(J, write_half, write_rest, read)))
    assert not is_cut(nest(row, loop(J, read, write)))
    assert not is_cut(nest(row, loop(J, write_half, read)))
    assert not is_cut(nest(row, loop(J, write), loop(J, read)))
    assert not is_cut(nest(row, loop(J, write, read), loop(J, read)))


def test_what_all_parts_find_is_written_by_one(monkeypatch):
    """A number that is carried along with the rows: threads must not write it at once."""
    take_host_for(monkeypatch, batch_partition={"least_work": 0})
    monkeypatch.setattr(config, "check_plans", True)
    rng = np.random.default_rng(0)
    start, rows, xs = np.float64(2.0), rng.normal(size=(32, 4)), rng.normal(size=20)

    def step(carry, x):
        number, rows = carry
        number = number * 0.5 + x
        return (number, np.tanh(rows + np.roll(rows, 1, axis=1) + number)), number

    def run(start, rows, xs):
        return lax.scan(step, (start, rows), xs)

    compiled = jit(run)
    (number, found), numbers = compiled(start, rows, xs)
    (wanted, expected), all_wanted = run(start, rows, xs)
    np.testing.assert_allclose(number, wanted, rtol=1e-13)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(numbers, all_wanted, rtol=1e-13)
    assert PARTS in compiled.lower(start, rows, xs).schedule()


@pytest.mark.parametrize(("steps", "cut"), [(100, True), (100_000, False)])
def test_blocks_repeat_little_that_concerns_no_rows(steps, cut):
    scratch, m = buffer("scratch", float, (1,)), index("m", steps)
    first = loop(m, Store(scratch, (ZERO,), load(X, (OUTER, ZERO, ZERO)) * 2))
    row = loop(K, Store(OUT, (OUTER, J, K), load(X, (OUTER, J, K)) * load(scratch, (ZERO,))))
    assert is_cut(nest(scratch, first, loop(J, row))) is cut
    assert is_cut(nest(scratch, first, loop(J, row)), CUDA)
    copies = loop(J, loop(K, Store(OUT, (OUTER, J, K), load(X, (OUTER, J, K)))))
    assert is_cut(nest(scratch, copies)) and is_cut(nest(scratch, copies), CUDA)
