"""Layout of contractions for BLAS: operands in memory order, long sums in parts."""

import re

import numpy as np
import pytest

from functrans import config, hessian, jit, vmap
from functrans.loop.target import CPU
from functrans.optimise.machine.contraction_layout import lay_out_contractions
from tests.targets import take_host_for

RNG = np.random.default_rng(0)


def schedule(function, *arrays):
    return jit(function).lower(*arrays).schedule()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("summed", "rows", "columns"),
    [(5797, 64, 64), (1025, 40, 32), (5000, 17, 33), (10_000, 16, 8), (100_003, 9, 10)],
)
def test_long_sums_are_cut(summed, rows, columns, dtype):
    x = RNG.standard_normal((summed, rows)).astype(dtype)
    y = RNG.standard_normal((summed, columns)).astype(dtype)
    product = jit(lambda x, y: x.T @ y)
    # calls of BLAS in a loop over parts, or a stack of their products
    cut = rf"for part in 0\.\.[248] |float\d\d\[[2-8], {rows}, {columns}\] in the arena"
    assert re.search(cut, product.lower(x, y).schedule())
    tolerance = 1e-11 if dtype == np.float64 else 1e-2
    expected = np.dot(x.T.astype(np.float64), y)
    np.testing.assert_allclose(product(x, y), expected, rtol=tolerance, atol=tolerance * 10)


def test_long_sums_of_wide_results_are_cut_where_a_packed_copy_leaves_the_caches():
    x, y = RNG.standard_normal((2400, 16)), RNG.standard_normal((2400, 512))
    product, along_terms = jit(lambda x, y: x.T @ y), jit(lambda x, y: x.T @ y.T)
    assert "8 of 16 x 300 times 300 x 512" in product.lower(x, y).schedule()
    np.testing.assert_allclose(product(x, y), x.T @ y, rtol=1e-10, atol=1e-10)
    assert "16 x 1200 times 1200 x 512" in product.lower(x[:1200], y[:1200]).schedule()
    assert " of 16 x " not in along_terms.lower(x, y.T.copy()).schedule()


@pytest.mark.parametrize(
    ("terms", "rows", "columns", "swaps"),
    [
        (1100, 1000, 10, True),
        (9000, 128, 2, True),
        (1100, 1000, 999, True),
        (1000, 1000, 1000, False),  # neither operand is larger
        (600, 1000, 10, False),  # it is in a cache
        (70_000, 17, 10, False),  # the lines are short
        (31, 40_000, 10, False),  # the result is large
    ],
)
def test_a_large_strided_operand_is_on_the_right(terms, rows, columns, swaps, monkeypatch):
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    x = RNG.standard_normal((terms, rows)).astype(np.float32)
    y = RNG.standard_normal((terms, columns)).astype(np.float32)
    step = jit(lambda x, y, w: w - 0.5 * (x.T @ y))
    w = np.ones((rows, columns), np.float32)
    sides = re.search(r"(\d+) x \d+ times \d+ x (\d+)", step.lower(x, y, w).schedule())
    assert [int(side) for side in sides.groups()] == [rows, columns][:: -1 if swaps else 1]
    np.testing.assert_allclose(step(x, y, w), w - 0.5 * (x.T @ y), rtol=1e-3, atol=1e-3)
    row = jit(lambda x, y: y[:, 0] @ x)
    np.testing.assert_allclose(row(x, y), y[:, 0] @ x, rtol=1e-3, atol=1e-3)
    stack = jit(lambda x, y: x.mT @ y)
    x, y = np.stack([x, -2 * x]), np.stack([y, y[::-1]])
    np.testing.assert_allclose(stack(x, y), x.mT @ y, rtol=1e-3, atol=1e-3)


def test_a_computed_operand_stays_on_the_left(monkeypatch):
    """A row of blocks may compute it, as in the gradient of attention."""
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    x, y = RNG.standard_normal((1100, 1000)), RNG.standard_normal((1100, 10))
    product = jit(lambda x, y: np.tanh(x).T @ y)
    sides = re.search(r"(\d+) x \d+ times \d+ x (\d+)", product.lower(x, y).schedule())
    assert sides.groups() == ("1000", "10")
    np.testing.assert_allclose(product(x, y), np.tanh(x).T @ y, rtol=1e-9, atol=1e-9)


def test_a_large_strided_operand_times_an_identity_is_its_transpose(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    x = RNG.standard_normal((400, 2000))
    np.testing.assert_array_equal(jit(lambda x: x.T @ np.eye(400))(x), x.T)


def test_sums_over_several_axes_are_cut():
    x, y = RNG.standard_normal((100, 32, 20)), RNG.standard_normal((100, 32, 24))
    product = jit(lambda x, y: np.einsum("tbi,tbj->ij", x, y))
    assert "8 of 20 x 400 times 400 x 24" in product.lower(x, y).schedule()
    np.testing.assert_allclose(product(x, y), np.einsum("tbi,tbj->ij", x, y), rtol=1e-10)


def test_parts_give_the_same_bits_for_any_number_of_threads(monkeypatch):
    x = RNG.standard_normal((3001, 40))
    product = jit(lambda x: x.T @ np.tanh(x))
    results = set()
    for number in (1, 2, 5):
        monkeypatch.setattr(config, "threads", number)
        results.add(product(x).tobytes())
    assert len(results) == 1


def test_square_products_are_not_cut_along_the_sum():
    x = RNG.standard_normal((300, 300))
    assert "reduce" not in schedule(lambda x: x @ x, x)
    assert "[8, 300, 300]" not in schedule(lambda x: x @ x, x)


def logistic(w, x):
    return np.mean(np.logaddexp(0.0, x @ w))


def test_an_operand_is_written_in_the_order_that_its_own_operands_lie_in():
    """The Hessian's `X.T * d` is as good as `X * d[:, None]`, which needs no strided reads."""
    w, x = RNG.standard_normal(30) / 10, RNG.standard_normal((500, 30))
    second = jit(hessian(logistic))
    text = second.lower(w, x).schedule()
    assert "float64[30, 500] in the arena" not in text
    p = 1 / (1 + np.exp(-x @ w))
    np.testing.assert_allclose(second(w, x), (x.T * (p * (1 - p))) @ x / 500, rtol=1e-10)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x.T * 2.0 + y) @ x,
        lambda x, y: (np.sin(x.T) * y) @ y.T,
        lambda x, y: (x.T + x.T * 3.0).T @ y,
        lambda x, y: np.exp(x) @ (y.T * np.arange(50.0)[:, None]).T,
        lambda x, y: (x.T - y) @ (x.T - y).T,
    ],
)
def test_turned_and_unturned_operands(function):
    x, y = RNG.standard_normal((50, 50)), RNG.standard_normal((50, 50))
    np.testing.assert_allclose(jit(function)(x, y), function(x, y), rtol=1e-9, atol=1e-9)


def test_turned_operands_of_a_batch():
    x, y = RNG.standard_normal((6, 40, 30)), RNG.standard_normal((6, 30, 40))

    def function(x, y):
        return (np.swapaxes(x, 1, 2) * 2.0) @ np.cos(np.swapaxes(y, 1, 2))

    np.testing.assert_allclose(jit(function)(x, y), function(x, y), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        jit(vmap(lambda a, b: np.sin(a.T) @ b.T))(x, y),
        [np.sin(a.T) @ b.T for a, b in zip(x, y, strict=True)],
        rtol=1e-9,
        atol=1e-12,
    )


X = RNG.standard_normal((700, 80))
D = RNG.standard_normal(700)

SYMMETRIC = {
    "gram": lambda x, d: x.T @ x,
    "long": lambda x, d: np.tile(x, (5, 1)).T @ np.tile(x, (5, 1)),
    "other way round": lambda x, d: x @ x.T,
    "weighted": lambda x, d: x.T @ (d[:, None] * x),
    "weighted left": lambda x, d: (x * d[:, None]).T @ x * 2.0,
    "weighted twice": lambda x, d: (x * d[:, None]).T @ (d[:, None] * x),
    "a value": lambda x, d: np.exp(x).T @ np.exp(x),
}

NOT_SYMMETRIC = {
    "two matrices": lambda x, d: x.T @ np.sin(x),
    "a weight of columns": lambda x, d: x.T @ (x * d[:80]),
    "turned": lambda x, d: x[:80] @ x[:80],
    "shifted": lambda x, d: x[1:].T @ x[:-1],
    "a mask": lambda x, d: x.T @ np.where(d[:, None] > 0, x, 0.0),
}


def is_halved(text):
    """Whether bands are BLAS's, or blocks above the diagonal are left out of a product."""
    return "for band in" in text or bool(re.search(r"for block in \S+ in parallel\n +if ", text))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_half_of_a_symmetric_matrix_is_computed(name):
    function = SYMMETRIC[name]
    assert is_halved(schedule(function, X, D))
    result = jit(function)(X, D)
    np.testing.assert_allclose(result, function(X, D), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(result, result.T)


@pytest.mark.parametrize("name", NOT_SYMMETRIC)
def test_the_whole_of_other_matrices_is_computed(name):
    function = NOT_SYMMETRIC[name]
    assert not is_halved(schedule(function, X, D))
    np.testing.assert_allclose(jit(function)(X, D), function(X, D), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dtype", "terms"), [(np.float32, 48), (np.float64, 24)])
def test_sums_of_few_terms_are_not_mirrored(dtype, terms):
    """Mirroring an element takes longer than adding them up."""
    x = RNG.standard_normal((300, terms)).astype(dtype)
    assert is_halved(schedule(lambda x: x @ x.T, x))
    assert not is_halved(schedule(lambda x: x @ x.T, x[:, 1:].copy()))


STACK = RNG.standard_normal((5, 120, 130))
WEIGHTS = RNG.standard_normal((5, 120))

SYMMETRIC_STACKS = {
    "gram": lambda x, d: x.mT @ x,
    "weighted": lambda x, d: x.mT @ (d[:, :, None] * x),
    "a weight on each side": lambda x, d: (x * d[:, :, None]).mT @ (np.sin(d)[:, :, None] * x),
    "vmap": lambda x, d: vmap(lambda x, d: (x.T * d) @ x)(x, d),
    "another axis": lambda x, d: vmap(lambda x: x.T @ x, in_axes=1)(np.swapaxes(x, 0, 1)),
    "rows": lambda x, d: np.sin(x) @ np.sin(x).mT,
    "two axes": lambda x, d: x[:4].reshape(2, 2, 120, 130).mT @ x[:4].reshape(2, 2, 120, 130),
}

OTHER_STACKS = {
    "another one": lambda x, d: x.mT @ x[::-1],
    "a weight of columns": lambda x, d: x.mT @ (x * d[:, None, :1]).mT[:, :120].mT,
    "one for all": lambda x, d: x.mT @ x[0],
}


def is_half(function):
    """Whether a contraction of stacks is known to be symmetric."""
    graph = jit(function).lower(STACK, WEIGHTS).graph()
    laid_out = lay_out_contractions(graph, CPU)
    return any(eqn.params.get("symmetric", False) for eqn in laid_out.eqns)


@pytest.mark.parametrize("name", SYMMETRIC_STACKS)
def test_half_of_each_symmetric_matrix_of_a_stack_is_computed(name, monkeypatch):
    function = SYMMETRIC_STACKS[name]
    assert is_half(function)
    monkeypatch.setattr(config, "parallel_threshold", 0)
    results = []
    for number in (1, 2, 3):
        monkeypatch.setattr(config, "threads", number)
        results.append(jit(function)(STACK, WEIGHTS))
    np.testing.assert_allclose(results[0], function(STACK, WEIGHTS), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(results[0], results[0].mT)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("name", OTHER_STACKS)
def test_the_whole_of_other_stacks_is_computed(name):
    function = OTHER_STACKS[name]
    assert not is_half(function)
    expected = function(STACK, WEIGHTS)
    np.testing.assert_allclose(jit(function)(STACK, WEIGHTS), expected, rtol=1e-9, atol=1e-9)


def test_nan_stays_in_its_matrix():
    x = STACK.copy()
    x[3, 4, 5] = np.nan
    expected = np.zeros((5, 130, 130), bool)
    expected[3, 5] = expected[3, :, 5] = True
    np.testing.assert_array_equal(np.isnan(jit(lambda x: x.mT @ x)(x)), expected)


def test_nan_goes_where_it_goes():
    x = X.copy()
    x[3, 5] = np.nan
    result = jit(lambda x: x.T @ x)(x)
    expected = np.zeros((80, 80), bool)
    expected[5] = expected[:, 5] = True
    np.testing.assert_array_equal(np.isnan(result), expected)


@pytest.mark.parametrize("size", [64, 65, 129, 300])
def test_symmetric_matrices_of_any_size(size):
    x = RNG.standard_normal((400, size)).astype(np.float32)
    np.testing.assert_allclose(jit(lambda x: x.T @ x)(x), x.T @ x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "shape", [(30, 40, 50), (5, 17, 13), (7, 2, 300), (4, 300, 1), (3, 40, 50)]
)
def test_the_smaller_operand_is_summed_in_the_order_of_the_larger(shape, dtype, monkeypatch):
    x = RNG.standard_normal(shape).astype(dtype)
    y = RNG.standard_normal(shape[1:]).astype(dtype)
    exact = (x.astype(np.float64) * y).sum((1, 2))
    tolerance = 1000 * np.finfo(dtype).eps
    across = np.ascontiguousarray(y.T)
    for f, other in (
        (lambda x, y: np.einsum("ijk,kj->i", x, y), across),
        (lambda x, y: np.einsum("kj,ijk->i", y, x), across),
        (lambda x, y: np.einsum("ijk,jk->i", x, y.T), across),
        (lambda x, y: np.einsum("ijk,jk->i", x, y), y),
        (vmap(lambda x, y: np.einsum("jk,kj->", x, y), (0, None)), across),
    ):
        found = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(config, "threads", threads)
            found.append(jit(f)(x, other))
        np.testing.assert_allclose(found[0], exact, rtol=tolerance, atol=tolerance)
        assert all((each == found[0]).all() for each in found)
    is_copied = "t0: " in schedule(lambda x, y: np.einsum("ijk,kj->i", x, y), x, across)
    assert is_copied == (x.size >= 4 * y.size and y.size >= 200 and 1 not in y.shape)
