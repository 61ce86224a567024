"""Banded products skip terms with a zero factor, and tiles that are not read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import clear_caches, config, grad, jit, trace
from functrans.loop.nodes import index
from functrans.loop.scalar import const, eq, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Reduce
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.product.bands import ALL, Band, band_where
from functrans.optimise import optimise
from functrans.run.code import host
from tests.targets import take_host_for, target

RNG = np.random.default_rng(0)

SMALL_BLOCKS = {
    "forms": {"fewest_rows": 2, "shortest": 2, "least_work": 1},
    "blocking": {
        "depth_bytes": 64,
        "deepest_bytes": 64,
        "panel_bytes": 1,
        "rows": 6,
        "columns": 8,
        "packed_bytes": 64,
    },
}
"""Of which even small products have several, and several stretches of terms."""

IN_BLOCKS = {**SMALL_BLOCKS, "cache": 64}
"""Where blocks pack their own parts of the right operand."""

LARGE_BLOCKS = {"forms": SMALL_BLOCKS["forms"]}

INF, NAN = np.inf, np.nan


@pytest.fixture(params=[SMALL_BLOCKS, IN_BLOCKS, LARGE_BLOCKS], ids=["small", "inside", "large"])
def blocks(request, monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    take_host_for(monkeypatch, **request.param)


def array(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


def turned(x):
    return np.swapaxes(x, -1, -2)


def sums(function, *args):
    """The sums of a program: nodes of their bounds, and how they are combined."""
    plan = pipeline.plan(optimise(trace(function)(*args)), host.target())
    for step in plan.steps:
        for each in walk(step.kernel.body):
            if isinstance(each, Reduce):
                bounds = [bound for _, *pair in each.loops for bound in pair]
                yield {node.op for node in postorder(bounds)}, each.ops


def looks(function, *args):
    """How often a program looks whether an operand is finite."""
    return sum(ops == ("and",) for _, ops in sums(function, *args))


def is_cut(function, *args):
    """Whether a sum has no terms where nobody reads it."""
    return any("where" in nodes for nodes, _ in sums(function, *args))


def check(function, *args, rtol=1e-9):
    with np.errstate(all="ignore"):
        expected = function(*args)
    compiled = jit(function)
    for config.threads in (1, 2):
        np.testing.assert_allclose(compiled(*args), expected, rtol=rtol, atol=rtol)


@pytest.fixture(autouse=True)
def threads():
    before = config.threads
    yield
    config.threads = before


SIDES = {
    "tril(a) @ b": lambda t, a, b: t(a) @ b,
    "b @ tril(a)": lambda t, a, b: b @ t(a),
    "tril(a).T @ b": lambda t, a, b: turned(t(a)) @ b,
    "b.T @ tril(a)": lambda t, a, b: turned(b) @ t(a),
    "b @ tril(a).T": lambda t, a, b: b @ turned(t(a)),
    "tril(a) @ exp(b)": lambda t, a, b: t(a) @ np.exp(b),
    "tril(a) @ triu(b)": lambda t, a, b: t(a) @ np.triu(b),
    "tril(a) @ tril(a).T": lambda t, a, b: t(a) @ turned(t(a)),
}

TRIANGLES = {
    "tril": lambda k: lambda x: np.tril(x, k),
    "triu": lambda k: lambda x: np.triu(x, k),
    "band": lambda k: lambda x: np.triu(np.tril(x, k), k - 3),
}

PLACES = ((0, 0), (0, -1), (-1, 0), (-1, -1), (3, 20), (20, 3), (10, 10))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("triangle", TRIANGLES)
@pytest.mark.parametrize("side", SIDES)
def test_bits_are_those_of_all_terms(blocks, side, triangle, dtype):
    """A mask from memory may be any, and all terms are added up."""
    function, cut = SIDES[side], TRIANGLES[triangle](1)
    a, b = array(29, 29, dtype=dtype), array(29, 29, dtype=dtype)
    a[4] = b[7] = 0.0
    a[6] = b[:, 9] = -0.0
    mask = cut(np.ones((29, 29), dtype)) != 0

    banded = jit(lambda a, b: function(cut, a, b))
    whole = jit(lambda a, b, mask: function(lambda x: np.where(mask, x, dtype(0)), a, b))
    assert looks(lambda a, b: function(cut, a, b), a, b) >= 1
    assert looks(lambda a, b, mask: function(lambda x: x * mask, a, b), a, b, mask) <= 1
    for value in (None, INF, -INF, NAN):
        for place in PLACES[: None if value else 1]:
            for one in (a, b):
                usual = one[place]
                if value is not None:
                    one[place] = value
                found, expected = [], whole(a, b, mask)
                for config.threads in (1, 2):
                    found.append(banded(a, b))
                for each in found:
                    np.testing.assert_array_equal(each, expected)
                    np.testing.assert_array_equal(
                        np.signbit(each) | np.isnan(each), np.signbit(expected) | np.isnan(expected)
                    )
                one[place] = usual


@pytest.mark.parametrize("side", SIDES)
def test_numbers_are_those_of_numpy(blocks, side):
    function = jit(lambda a, b: SIDES[side](np.tril, a, b))
    for value in (0.0, INF, -INF, NAN):
        for place in PLACES:
            for changed in (0, 1):
                args = array(29, 29), array(29, 29)
                args[changed][place] = value
                with np.errstate(all="ignore"):
                    expected = SIDES[side](np.tril, *args)
                np.testing.assert_allclose(function(*args), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 17, 40, 77]),
    columns=st.sampled_from([1, 2, 9, 17, 40, 77]),
    terms=st.sampled_from([1, 2, 3, 17, 40, 77]),
    k=st.integers(-90, 90),
    stack=st.sampled_from([(), (3,)]),
    options=st.sampled_from([SMALL_BLOCKS, IN_BLOCKS, LARGE_BLOCKS]),
    data=st.data(),
)
@pytest.mark.dear
def test_any_sizes_and_diagonals(rows, columns, terms, k, stack, options, data):
    a, b = array(*stack, rows, terms), array(*stack, terms, columns)
    for one in (a, b):
        if data.draw(st.booleans()):
            one[tuple(data.draw(st.integers(0, n - 1)) for n in one.shape)] = data.draw(
                st.sampled_from([INF, -INF, NAN])
            )
    config.cache, before, host.other = False, host.other, target(host.kind(), **options)
    clear_caches()
    try:
        check(lambda a, b: np.tril(a, k) @ b, a, b)
        check(lambda a, b: a @ np.triu(b, k), a, b)
        check(lambda a, b: np.tril(a @ b, k), a, b)
        check(lambda a, b: np.triu(np.tril(a, k) @ np.triu(b, -k) * 2, k) + 1, a, b)
    finally:
        host.other = before


def test_integers_need_no_look(blocks):
    a, b = (RNG.integers(-(2**62), 2**62, (29, 29)) for _ in range(2))
    check(lambda a, b: np.tril(a) @ b, a, b, rtol=0)
    assert looks(lambda a, b: np.tril(a) @ b, a, b) == 0


@pytest.mark.dear
def test_stacks_and_rows_along_two_axes(blocks):
    stack, one = array(4, 20, 20), array(20, 20)
    stack[2, 3, 19] = INF
    check(lambda a, b: np.tril(a) @ b, stack, array(4, 20, 30))
    check(lambda a, b: np.tril(a) @ b, array(4, 20, 20), stack)
    check(lambda a, b: b @ np.tril(a), one, stack)
    assert looks(lambda a, b: b @ np.tril(a), one, stack) == 1


@pytest.mark.dear
def test_gradients(blocks):
    a, b = array(29, 29), array(29, 29)

    def loss(a, b):
        return np.sum(np.tanh(np.tril(a, -1) @ b) ** 2)

    for argnum in (0, 1):
        check(lambda a, b, argnum=argnum: grad(loss, argnums=argnum)(a, b), a, b)


READ = {
    "a triangle": (lambda x: np.tril(x), True),
    "another": (lambda x: np.triu(x, 2) + 1, True),
    "behind an exponential": (lambda x: np.tril(np.exp(x)), True),
    "twice": (lambda x: np.tril(x) + np.tril(np.tanh(x), -3), True),
    "sums of it": (lambda x: np.tril(x).sum(1), True),
    "sums of its columns": (lambda x: np.tril(x).sum(0), True),
    "either side": (lambda x: np.tril(x) + np.triu(x) * 2, False),
    "as a condition": (lambda x: np.tril(np.ones((29, 29))) * (x > 0), False),
    "transposed": (lambda x: np.tril(x.T), True),
    "both": (lambda x: np.tril(x.T) + np.tril(x), False),
    "also whole": (lambda x: (np.tril(x) * 2, x)[0] + x[0], False),
    "a diagonal": (lambda x: np.diagonal(x) * 2, False),
    "by a product": (lambda x: np.tril(x) @ np.ones((29, 9)), True),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_tiles_that_nobody_reads(blocks, name):
    read, some = READ[name]
    x, y = array(29, 29), array(29, 29)

    def function(x, y):
        return read(x @ y)

    compiled = jit(function)
    for value in (0.0, INF, NAN):
        for place in PLACES:
            usual, x[place] = x[place], value
            with np.errstate(all="ignore"):
                expected = function(x, y)
            np.testing.assert_allclose(compiled(x, y), expected, rtol=1e-9, atol=1e-9)
            x[place] = usual
    assert is_cut(function, x, y) == some


@pytest.mark.dear
def test_halves_of_symmetric_products_that_are_read(monkeypatch):
    """What is above the diagonal is a copy of what is below it."""
    monkeypatch.setattr(config, "cache", False)
    take_host_for(monkeypatch, **SMALL_BLOCKS, products={"worth_splitting": 1})
    x = array(150, 150)
    for read in (np.tril, np.triu):
        check(lambda x, read=read: read(x.T @ x), x)
        check(lambda x, read=read: read(x).T @ read(x), x)
        check(lambda x, read=read: read(read(x) @ read(x).T), x)


@pytest.mark.dear
def test_conditions_that_are_bands():
    i, k, simplify = index("i", 50), index("k", 60), Simplifier()

    def of(condition, holds=True):
        band = band_where(simplify(condition), holds, i, k, simplify)
        for line in range(50):
            for place in range(60):
                values = {i: const(line, np.int64), k: const(place, np.int64)}
                (truth,) = simplify.substitute([condition], values)
                inside = (band.low is None or line + band.low <= place) and (
                    band.high is None or place <= line + band.high
                )
                assert inside or bool(truth.attribute) != holds
        return band

    assert of(k <= i) == Band(high=0) == of(i < k, holds=False)
    assert of(k < i + 3) == Band(high=2) == of(i - k <= -3, holds=False)
    assert of(i <= k) == Band(low=0) == of(k < i, holds=False)
    assert of(i - 7 < k) == Band(low=-6)
    assert of((k <= i) & (i - 3 <= k)) == Band(-3, 0)
    assert of(eq(k, i)) == Band(0, 0) and of(eq(i + 2, k)) == Band(2, 2)
    assert of(eq(k, i), holds=False) == ALL
    assert of((k <= i) & (i - 3 <= k), holds=False) == ALL
    assert of((k <= i) | (i - 3 <= k)) == ALL
    assert of(k * 2 <= i) == ALL == of(k <= const(7, np.int64)) == of(i + k <= 9)


def test_what_wraps_is_no_band():
    """An offset near the end of int64 makes the comparison another one."""
    i, k = index("i", 50), index("k", 60)
    far = i + (2**63 - 1)
    assert band_where(k <= far, True, i, k, Simplifier()) == ALL
