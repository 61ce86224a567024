"""Fused loops store the same values; what only one loop needs is not stored."""

import numpy as np
import pytest

from functrans.loop.distribution import Levels, in_levels
from functrans.loop.fusion import Joining, contracted, fused
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Kernel, Let, Reduce, Store, buffer, load, local
from functrans.loop.walk import loaded, stored
from tests.loop.evaluate import Memory, evaluate

F8 = np.dtype(float)
N = 20
X, A, B, C = (buffer(name, F8, (N,)) for name in "xabc")
ROWS = buffer("rows", F8, (2, 2 * N))
BEFORE = buffer("before", F8, (2, 2 * N))


def vectors(store, extent=N, lanes=8, repeatable=True):
    """A vector loop of what a function of its index gives."""
    i = index("i", extent)
    whole = extent % lanes == 0
    stop = const(extent, INDEX)
    return For(i, ZERO, stop, tuple(store(i)), lanes, repeatable=repeatable, whole=whole)


def put(one, value, op=None):
    return lambda i: [Store(one, (i,), value(i), op)]


def of(one, shift=0):
    return lambda i: load(one, (i + shift if shift else i,))


def in_row(row, shift, i):
    return const(row, INDEX), i + shift if shift else i


def add(row, shift, value):
    def store(i):
        return [Store(ROWS, in_row(row, shift, i), value(i), "add")]

    return vectors(store, lanes=4, repeatable=False)


def names(body):
    """What each statement stores."""
    return ["".join(sorted(one.name for one in stored([each]))) for each in body]


def join(*body, longest=1024):
    return fused(body, Joining(longest), Simplifier())


def results(body, *buffers, given=3):
    """The values of some buffers after statements; the first ones have values before."""
    rng = np.random.default_rng(0)
    memory = [Memory(rng.random(one.extents), number < given) for number, one in enumerate(buffers)]
    assert evaluate(Kernel(buffers, 0, tuple(body)), memory, ()) == 0
    return [each.array for each in memory]


COPY = For(
    c := index("c", 2),
    ZERO,
    const(2, INDEX),
    (
        For(
            k := index("k", 2 * N),
            ZERO,
            const(2 * N, INDEX),
            (Store(ROWS, (c, k), load(BEFORE, (c, k))),),
        ),
    ),
)


def test_sums_join_the_loop_of_what_they_add_and_it_is_not_stored():
    body = (
        vectors(put(A, lambda i: of(X)(i) * 2.0)),
        vectors(put(B, lambda i: of(A)(i) + 1.0), lanes=4),
        COPY,
        add(0, 0, of(A)),
        add(0, N, of(B)),
        add(1, N, lambda i: of(A)(i) * of(B)(i)),
    )
    made = join(*body)
    assert names(made) == ["rows", "abrows"]
    loop = made[1]
    assert (loop.lanes, loop.repeatable, loop.whole, loop.parallel) == (8, False, False, False)
    left = contracted(made, {ROWS, BEFORE, X}, Simplifier())
    assert names(left) == ["rows", "rows"]
    assert loaded(left) == {X, BEFORE, ROWS}
    assert names(contracted(made, {ROWS, A}, Simplifier())) == ["rows", "arows"]
    given = X, BEFORE, C, A, B, ROWS
    for other in (made, left, in_levels(body, {ROWS}, Levels(1), Joining(), Simplifier())):
        for one, wanted in zip(
            results(other, *given)[-1:], results(body, *given)[-1:], strict=True
        ):
            np.testing.assert_array_equal(one, wanted)


double = vectors(put(A, lambda i: of(X)(i) * 2.0))


@pytest.mark.parametrize(
    "other",
    [
        vectors(put(B, lambda i: of(A, 1)(i)), extent=N - 1),  # another number of iterations
        vectors(put(B, of(C))),  # no data in common
        vectors(put(B, lambda i: load(A, (const(N - 1, INDEX) - i,)))),  # of other iterations
        vectors(put(B, lambda i: load(A, (const(0, INDEX),)))),
        vectors(put(X, lambda i: load(C, (const(N - 1, INDEX) - i,))), lanes=1),  # no vectors
    ],
)
def test_loops_that_are_not_fused(other):
    assert join(double, other) == [double, other]


def test_what_is_between_two_loops():
    last = vectors(put(C, lambda i: of(A)(i) + of(B)(i)))
    # it may be computed before the first loop; or it depends on it
    early = For(k, ZERO, const(N, INDEX), (Store(B, (k,), load(X, (k,))),))
    late = For(k, ZERO, const(N, INDEX), (Store(B, (k,), load(A, (k,))),))
    assert names(join(double, early, last)) == ["b", "ac"]
    assert names(join(double, late, last)) == ["a", "b", "c"]
    # the last loop needs a sum
    total = local(F8)
    sums = Reduce((total,), ("add",), (load(A, (k,)),), ((k, ZERO, const(N, INDEX)),))
    scaled = vectors(put(C, lambda i: of(A)(i) * total))
    assert names(join(double, sums, scaled)) == ["a", "", "c"]
    assert names(join(double, sums, last)) == ["ac", ""]


def test_positions_that_depend_on_data():
    # the second loop reads elements that other iterations of the first one have stored
    places = buffer("p", INDEX, (N,))
    there = lambda i: (load(places, (i,)),)  # noqa: E731
    first = vectors(
        lambda i: [Store(A, there(i), of(X)(i)), Store(places, (i,), const(N - 1, INDEX) - i)]
    )
    last = vectors(lambda i: [Store(B, (i,), load(A, there(i)))])
    assert join(first, last) == [first, last]


def test_long_loops_are_not_fused():
    last = vectors(put(C, of(A)))
    assert names(join(double, last)) == ["ac"]
    assert names(join(double, last, longest=N - 1)) == ["a", "c"]


def test_parts_of_a_row_are_apart():
    first, second = add(0, 0, of(X)), add(0, N, of(X))
    assert names(join(first, second)) == ["rows"]
    assert names(join(first, add(0, N - 1, of(X)))) == ["rows", "rows"]
    assert names(join(first, add(1, N - 1, of(X)))) == ["rows"]


def test_what_is_not_contracted():
    # it is read before it is stored, stored twice, added to, read at two places, or by two loops
    def left(*body):
        return contracted(body, {X, C}, Simplifier())

    for stores in (
        lambda i: [*put(C, of(A))(i), *put(A, of(X))(i)],
        lambda i: [*put(A, of(X))(i), *put(A, of(C))(i)],
        lambda i: put(A, of(X), "add")(i),
        lambda i: [*put(A, of(X))(i), *put(C, of(A, 1))(i)],
    ):
        loop = vectors(stores)
        assert left(loop) == [loop]
    read = vectors(put(C, of(A)))
    assert left(double, read) == [double, read]
    once = left(vectors(lambda i: [*put(A, of(X))(i), *put(C, of(A))(i)]))
    assert isinstance(once[0].body[0], Let)
    assert names(once) == ["c"]


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed):
    rng = np.random.default_rng(seed)
    made, others = [A, B, ROWS], [X, BEFORE, buffer("other", F8, (2, 2 * N))]

    def random_loop():
        # an iteration accesses one element of each array
        rows, shifts = rng.integers(2, size=6), rng.choice([0, 0, 0, 1, N], 6)
        ops, chosen = rng.choice([None, "add"], 3), rng.integers(6, size=(3, 2))

        def element(number, i):
            one = [*made, *others][number]
            flat = len(one.shape) == 1
            return one, (i,) if flat else in_row(int(rows[number]), int(shifts[number]), i)

        def stores(i):
            for target, (x, y), op in zip(rng.integers(3, size=3), chosen, ops, strict=True):
                value = load(*element(x, i)) + load(*element(y, i)) * 0.5
                yield Store(*element(target, i), value, op)

        return vectors(stores, lanes=4, repeatable=False)

    body = [random_loop() for _ in range(6)]
    body.insert(int(rng.integers(7)), COPY)
    buffers = *others, *made
    wanted = results(body, *buffers, given=6)
    distributed = in_levels(body, {*buffers}, Levels(2), Joining(), Simplifier())
    for one in (join(*body), distributed):
        for found, value in zip(results(one, *buffers, given=6), wanted, strict=True):
            np.testing.assert_array_equal(found, value)
