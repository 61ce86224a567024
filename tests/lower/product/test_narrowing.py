"""Loop ranges exclude columns that a mask hides from whole blocks of rows."""

import numpy as np
import pytest

from functrans import clear_caches, config, grad, jit, trace
from functrans.loop.statements import While
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.product.stream import Streaming
from functrans.lower.verify import verify
from functrans.ops.linalg.compiled.blas import Products
from functrans.ops.linalg.compiled.forms import Forms
from functrans.optimise import optimise
from functrans.run.code import host

SMALL = CPU.having(
    Streaming(least_bytes=1, least_shared_bytes=1, tile=1, fewest_tiles=2, block_bytes=1),
    Forms(fewest_rows=1, least_work=1),
    Products(smallest_side=2, smallest_work=1),
)

HEADS, SIZE = 4, 5


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """All products are blocked, and streamed where they can be, in blocks of eight rows."""
    monkeypatch.setattr(host, "other", SMALL)
    clear_caches()
    monkeypatch.setattr(config, "cache", False)


def arrays(rows, columns, dtype=np.float64, size=SIZE, stack=(HEADS,)):
    rng = np.random.default_rng(rows)
    shapes = [(*stack, n, size) for n in (rows, columns, columns, rows)]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def attention(q, k, v, mask, nothing):
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) * 0.3, nothing)
    weights = np.exp(scores - np.max(scores, -1, keepdims=True))
    return weights / np.sum(weights, -1, keepdims=True) @ v


def loss(q, k, v, weights, mask, nothing):
    return np.sum(attention(q, k, v, mask, nothing) * weights)


gradient = grad(loss, argnums=(0, 1, 2, 3))


def error(q, k, v, weights, mask, nothing):
    """Its cotangent is made of the result, so that it is computed row by row as well."""
    return np.sum((attention(q, k, v, mask, nothing) - weights) ** 2)


gradient_of_error = grad(error, argnums=(0, 1, 2, 3))


def forward(q, k, v, weights, mask, nothing):
    return (attention(q, k, v, mask, nothing),)


FUNCTIONS = [forward, gradient, gradient_of_error]


def window(rows, columns):
    ahead = np.arange(rows)[:, None] - np.arange(columns)
    return (ahead >= 0) & (ahead < 20)


def padding(rows, columns):
    """Nothing but padding in the last rows, and in the last columns."""
    return (np.arange(rows)[:, None] < rows - 9) & (np.arange(columns) < columns // 2)


def scattered(rows, columns):
    return np.random.default_rng(0).random((rows, columns)) < 0.02


def by_heads(rows, columns):
    lengths = np.arange(HEADS) * columns // HEADS + 1
    return np.arange(columns) < lengths[:, None, None] + np.zeros((HEADS, rows, 1))


MASKS = {
    "causal": lambda rows, columns: np.tril(np.ones((rows, columns), bool)),
    "window": window,
    "padding": padding,
    "scattered": scattered,
    "heads": by_heads,
    "all": lambda rows, columns: np.ones((rows, columns), bool),
    "none": lambda rows, columns: np.zeros((rows, columns), bool),
}


def compare(function, *args):
    with np.errstate(all="ignore"):
        wanted = function(*args)
    tolerance = 1e-4 if args[0].dtype == np.float32 else 1e-9
    for one, other in zip(jit(function)(*args), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def compare_finite(function, *args):
    """What overflows is infinite, or NaN, by the order in which it is added."""
    with np.errstate(all="ignore"):
        wanted = function(*args)
    for one, other in zip(jit(function)(*args), wanted, strict=True):
        finite = np.isfinite(other)
        np.testing.assert_array_equal(np.isfinite(one), finite)
        np.testing.assert_allclose(one[finite], other[finite], rtol=1e-9, atol=1e-9)


def planned(function, *args):
    return pipeline.plan(optimise(trace(function)(*args)), SMALL)


def is_narrowed(function, *args):
    bodies = [step.kernel.body for step in planned(function, *args).steps]
    return any(isinstance(each, While) for body in bodies for each in walk(body))


@pytest.mark.parametrize("sizes", [(70, 70), (41, 100), (100, 33)])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_masks(function, name, sizes):
    mask = MASKS[name](*sizes)
    compare(function, *arrays(*sizes), mask, -np.inf)
    compare(function, *arrays(*sizes), mask, -1e9)


@pytest.mark.dear
@pytest.mark.parametrize("function", [forward, gradient])
def test_dtypes_and_sides(function):
    sizes, mask = (100, 200), window(100, 200)

    def other_side(q, k, v, weights, mask, nothing):
        scores = np.where(mask, nothing, q @ np.swapaxes(k, -1, -2))
        weight = np.exp(scores - np.max(scores, -1, keepdims=True))
        return weight / np.sum(weight, -1, keepdims=True) @ v

    def of_other_side(*args):
        if function is forward:
            return (other_side(*args),)
        return grad(lambda *x: np.sum(other_side(*x, *args[4:]) * x[3]), argnums=(0, 1, 2))(
            *args[:4]
        )

    compare(function, *arrays(*sizes, np.float32), mask, np.float32(-np.inf))
    compare(of_other_side, *arrays(*sizes), ~mask, -np.inf)
    assert is_narrowed(of_other_side, *arrays(*sizes), ~mask, -np.inf)


@pytest.mark.dear
@pytest.mark.parametrize("sizes", [(70, 70), (41, 100)])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("nothing", [-np.inf, -1e9, np.finfo(np.float64).min])
@pytest.mark.parametrize("made", ["before", "by where", "by a product"])
def test_masks_that_are_added(name, sizes, made, nothing):
    """Minus infinity, or a very small number, where nothing is; made before, or with the scores."""
    if made == "by a product":
        nothing = max(nothing, -1e300)  # zero times infinity

    def added(q, k, v, mask):
        if made == "by where":
            mask = np.where(mask, 0.0, nothing)
        if made == "by a product":
            mask = (1 - mask) * nothing
        scores = q @ np.swapaxes(k, -1, -2) * 0.3 + mask
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        return weights / np.sum(weights, -1, keepdims=True) @ v

    def loss(q, k, v, weights, mask):
        return np.sum(added(q, k, v, mask) * weights)

    mask = MASKS[name](*sizes)
    if made == "before":
        mask = np.where(mask, np.random.default_rng(0).random(mask.shape), nothing)
    if made == "by a product":
        mask = mask.astype(np.float64)
    args = arrays(*sizes)
    of_result = grad(lambda *x: np.sum(added(*x[:3], x[4]) ** 2), argnums=(0, 1, 2))
    for function in (
        lambda *x: (added(*x[:3], x[4]),),
        grad(loss, argnums=(0, 1, 2, 3)),
        of_result,
    ):
        assert is_narrowed(function, *args, mask)
        compare(function, *args, mask)
        for number in (np.inf, np.nan):
            given = [x.copy() for x in args]
            given[1][2, -1, 1] = number
            compare(function, *given, mask)
        # scores as large as what hides them
        compare(function, args[0] * 1e6, args[1] * 1e6, *args[2:], mask)


def test_a_mask_beside_numbers_that_hide_nothing():
    """Numbers that are added could hide columns, too; here they hide some, or are NaN."""

    def biased(q, k, v, bias, mask):
        scores = np.where(mask, q @ np.swapaxes(k, -1, -2) + bias, -np.inf)
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        return (weights / np.sum(weights, -1, keepdims=True) @ v,)

    mask = MASKS["causal"](70, 70)
    bias = np.random.default_rng(1).standard_normal((70, 70))
    args = *arrays(70, 70)[:3], bias, mask
    assert is_narrowed(biased, *args)
    for number in (0.5, np.nan, -1e9, -np.inf):
        bias[3, 60], bias[50, 4] = number, number
        compare(biased, *args)


def test_nan_in_a_mask_hides_nothing():
    def added(q, k, v, mask):
        scores = q @ np.swapaxes(k, -1, -2) + mask
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        return (weights / np.sum(weights, -1, keepdims=True) @ v,)

    mask = np.where(MASKS["causal"](70, 70), 0.0, -1e9)
    mask[10, 60] = np.nan
    compare(added, *arrays(70, 70)[:3], mask)


NUMBERS = [np.nan, np.inf, -np.inf, 1e308]


@pytest.mark.full
@pytest.mark.parametrize("where", [0, 1, 2, 3])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_is_left_out_that_is_not_finite(function, number, where):
    """Zero times infinity is NaN, in NumPy's products as well."""
    args = arrays(70, 70)
    for row in (0, 40, 69):
        args[where][1, row, 2] = number
        like = compare_finite if number == 1e308 else compare
        like(function, *args, MASKS["causal"](70, 70), -np.inf)
        args[where][1, row, 2] = 0.5


@pytest.mark.dear
@pytest.mark.parametrize("stack", [(), (2,)])
@pytest.mark.parametrize("name", ["causal", "window", "padding", "scattered", "none"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_that_threads_share(function, name, stack):
    """Each share of the rows of a matrix is done again, or not, by itself."""
    mask, args = MASKS[name](203, 150), arrays(203, 150, stack=stack)
    assert is_narrowed(function, *args, mask, -np.inf)
    compare(function, *args, mask, -np.inf)
    # of some rows, the other side is the largest score
    compare(function, *args, mask, -1.0)
    for where, row in ((0, 40), (1, 149), (2, 80)):
        for number in (np.nan, np.inf):
            given = [x.copy() for x in args]
            given[where][..., row, 2] = number
            compare(function, *given, mask, -np.inf)


@pytest.mark.dear
def test_a_product_that_overflows_where_nothing_is_looked_at():
    q, k, v, weights = arrays(70, 70)
    v[:, 60], weights[:, 3] = 1e200, 1e200
    args = q, k, v, weights, MASKS["causal"](70, 70), -np.inf
    # the gradient of the largest score, which is NaN, is left out
    compare_finite(gradient_of_error, *args)
    compare(gradient, *args)


@pytest.mark.dear
def test_scores_below_what_stands_for_nothing():
    """The other side of the choice is the largest score of a row."""
    q, k, v, weights = arrays(70, 70)
    for function in (forward, gradient):
        compare(function, q - 2e9, abs(k), v, weights, MASKS["causal"](70, 70), -1e9)
        compare(function, q, k, v, weights, MASKS["causal"](70, 70), -3.0)
        compare(function, q, k, v, weights, MASKS["causal"](70, 70), 3.0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_narrowed(function):
    args = arrays(70, 70)
    assert is_narrowed(function, *args, MASKS["causal"](70, 70), -np.inf)
    assert not is_narrowed(lambda *x: function(*x, True, -np.inf), *args)


def test_weights_that_are_a_result_are_whole():
    def both(q, k, v, mask):
        scores = np.where(mask, q @ np.swapaxes(k, -1, -2), -np.inf)
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        return weights, weights @ v

    args = *arrays(70, 70)[:3], MASKS["causal"](70, 70)
    assert not is_narrowed(both, *args)
    compare(both, *args)


def test_a_test_that_reads_what_is_computed_after_the_last_nest_of_rows():
    """A product of a product: what bounds it is known only behind the nest that tests."""

    def chain(q, k, v, mask):
        scores = np.where(mask, q @ np.swapaxes(k, -1, -2), 0.0)
        weights = np.tanh(scores)
        values = weights @ v
        again = np.where(mask, values @ np.swapaxes(v, -1, -2), 0.0)
        return np.swapaxes(again, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ values

    q, k, v, _ = arrays(70, 70)
    for number in (0.5, np.inf, np.nan):
        v[1, 60, 2] = number
        compare(chain, q, k, v, MASKS["causal"](70, 70))


@pytest.mark.dear
def test_as_many_columns_as_numbers_of_a_row():
    args = *arrays(70, 70, size=70), MASKS["causal"](70, 70), -np.inf
    compare(gradient, *args)
    compare(lambda *x: (np.tanh(forward(*x)[0] * 2.0),), *args)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_access_is_proved(function):
    args = arrays(19, 48, size=3)
    plan = planned(function, *args, MASKS["causal"](19, 48), -np.inf)
    assert verify(plan) == 0


@pytest.mark.dear
@pytest.mark.parametrize("stack", [(), (HEADS,)])
@pytest.mark.parametrize("nothing", [-np.inf, -1.0])
def test_bits_do_not_depend_on_the_number_of_threads(stack, nothing, monkeypatch):
    args = *arrays(200, 200, stack=stack), MASKS["causal"](200, 200), nothing
    results = set()
    function = jit(gradient)
    for number in (1, 2, 8):
        monkeypatch.setattr(config, "threads", number)
        results.add(b"".join(each.tobytes() for each in function(*args)))
    assert len(results) == 1
