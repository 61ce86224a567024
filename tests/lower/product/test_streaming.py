"""Products that share a loop over blocks of rows: attention and its gradients."""

import numpy as np
import pytest

from functrans import clear_caches, config, grad, jit, trace
from functrans.loop.statements import For, Store
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.product.stream import Streaming
from functrans.lower.verify import verify
from functrans.ops.linalg.compiled.blas import Products
from functrans.ops.linalg.compiled.forms import Forms
from functrans.optimise import optimise
from functrans.run.code import host

RNG = np.random.default_rng(0)
SMALL = CPU.having(
    Streaming(least_bytes=1, least_shared_bytes=1),
    Forms(fewest_rows=1, least_work=1),
    Products(smallest_side=2, smallest_work=1),
)

SHARED = SMALL.having(Streaming(least_bytes=1, least_shared_bytes=1, block_bytes=1))


@pytest.fixture
def shared(small, monkeypatch):
    """Blocks of few rows, so that threads share them."""
    monkeypatch.setattr(host, "other", SHARED)
    clear_caches()


@pytest.fixture
def small(monkeypatch):
    """All products are blocked, and streamed where they can be."""
    monkeypatch.setattr(host, "other", SMALL)
    clear_caches()
    monkeypatch.setattr(config, "cache", False)


def arrays(heads, rows, others, size):
    return [RNG.standard_normal((heads, n, size)) for n in (rows, others, others)]


def softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def attention(q, k, v):
    return softmax(np.einsum("hqd,hkd->hqk", q, k) * 0.3) @ v


def loss(q, k, v):
    return np.sum(attention(q, k, v) ** 2)


def planned(function, *args, target=SMALL):
    return pipeline.plan(optimise(trace(function)(*args)), target)


def is_shared(function, *args):
    """Whether rows are gone through in blocks, of which each thread has every so many-th."""
    bodies = [step.kernel.body for step in planned(function, *args, target=SHARED).steps]
    loops = [each for body in bodies for each in walk(body) if isinstance(each, For)]
    return any(loop.index.attribute[0] == "turn" for loop in loops)


def is_sum(statement):
    """Whether a statement adds to memory."""
    return isinstance(statement, Store) and statement.op == "add"


def temporaries(function, *args):
    """The largest array between the kernels of a program, in elements."""
    return max(one.count for one in planned(function, *args).offsets)


def close(function, *args):
    for one, other in zip(jit(function)(*args), function(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def few(stack, rows, others, size):
    """Arrays of a few matrices, or of one without a stack."""
    return [RNG.standard_normal((*stack, n, size)) for n in (rows, others, others)]


def softmax_attention(q, k, v):
    return softmax(q @ k.mT * 0.3) @ v


def few_loss(q, k, v):
    return np.sum(softmax_attention(q, k, v) ** 2)


FUNCTIONS = [softmax_attention, grad(few_loss, argnums=(0, 1, 2))]
STACKS = [(), (1,), (1, 1), (2,), (3,), (1, 3)]
SIZES = [(4, 16, 16, 8), (5, 20, 9, 3), (4, 7, 30, 17), (6, 33, 8, 5)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("function", [attention, grad(loss, argnums=(0, 1, 2))])
def test_attention(small, function, sizes):
    args = arrays(*sizes)
    for one, other in zip(jit(function)(*args), function(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", [attention, grad(loss, argnums=(0, 1, 2))])
def test_every_access_is_proved(function):
    assert verify(planned(function, *arrays(4, 13, 9, 5))) == 0


@pytest.mark.dear
@pytest.mark.parametrize("sizes", [(150, 150, 5), (203, 90, 5), (301, 17, 4)])
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_that_threads_share(shared, function, stack, sizes):
    args = few(stack, *sizes)
    assert is_shared(function, *args)
    close(function, *args)


@pytest.mark.parametrize("stack", [(), (2,)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_access_of_shares_is_proved(function, stack):
    args = few(stack, 80, 24, 5)
    assert is_shared(function, *args)
    assert verify(planned(function, *args, target=SHARED)) == 0


@pytest.mark.parametrize("stack", [(), (2,)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_memory_of_shares_is_linear_in_the_rows(function, stack):
    def memory(rows):
        return sum(one.nbytes for one in planned(function, *few(stack, rows, rows, 8)).offsets)

    # of fewer rows, some values are on the stack
    assert memory(16000) <= 2.2 * memory(8000)


def test_symmetric_sums_of_shares(shared):
    def moments(x, a):
        y = np.tanh(x @ a)
        return y.T @ y, y @ a.T

    args = [RNG.standard_normal(shape) for shape in ((300, 4), (4, 20))]
    assert is_shared(moments, *args)
    close(moments, *args)


def test_products_of_many_terms_are_not_streamed():
    def layers(x, a, b):
        return np.tanh(x @ a) @ b

    few_terms = [np.ones(shape) for shape in ((2048, 64), (64, 1024), (1024, 64))]
    many_terms = [np.ones(shape) for shape in ((2048, 512), (512, 1024), (1024, 512))]
    assert temporaries(layers, *few_terms) < 2048 * 1024
    assert temporaries(layers, *many_terms) == 2048 * 1024


def test_memory_is_linear_in_the_rows():
    whole = 4 * 400 * 400
    args = arrays(4, 400, 400, 8)
    assert temporaries(attention, *args) <= whole // 8
    assert temporaries(grad(loss, argnums=(0, 1, 2)), *args) <= whole // 8


def test_values_of_a_block_are_on_the_stack_if_they_fit():
    gradient = grad(loss, argnums=(0, 1, 2))

    def own(*sizes):
        """The arrays that a program keeps for each part of a stream, and those on stacks."""
        plan = planned(gradient, *arrays(*sizes))
        rows = {row for step in plan.steps for row in step.kernel.scratch}
        return {one for one in plan.offsets if one.name.endswith(("_block", "_rows"))}, rows

    kept, rows = own(4, 64, 64, 16)
    assert not kept and any(one.name.endswith("_block") for one in rows)
    kept, rows = own(4, 2000, 2000, 16)
    assert kept and rows


def test_sums_are_added_to_the_result():
    plan = planned(grad(loss, argnums=(0, 1, 2)), *arrays(4, 48, 48, 32))
    targets = {x.target for step in plan.steps for x in walk(step.kernel.body) if is_sum(x)}
    assert len(targets) == 2 and not any(one.name.endswith("_block") for one in targets)


def test_weights_that_are_a_result_are_in_memory(small):
    def both(q, k, v):
        weights = softmax(np.einsum("hqd,hkd->hqk", q, k) * 0.3)
        return weights, weights @ v

    args = arrays(4, 20, 24, 8)
    for one, other in zip(jit(both)(*args), both(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_what_reads_other_rows_is_not_streamed(small):
    def shifted(q, k, v):
        weights = softmax(np.einsum("hqd,hkd->hqk", q, k))
        return weights[:, ::-1] @ v, np.cumsum(weights, axis=1) @ v

    args = arrays(4, 20, 20, 8)
    for one, other in zip(jit(shifted)(*args), shifted(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def same_bits(function, args, monkeypatch):
    results = set()
    for number in (1, 2, 5, 8):
        monkeypatch.setattr(config, "threads", number)
        results.add(b"".join(each.tobytes() for each in function(*args)))
    assert len(results) == 1


@pytest.mark.dear
def test_bits_do_not_depend_on_the_number_of_threads(small, monkeypatch):
    same_bits(jit(grad(loss, argnums=(0, 1, 2))), arrays(6, 40, 40, 16), monkeypatch)


@pytest.mark.dear
@pytest.mark.parametrize("stack", [(), (3,)])
def test_bits_of_shares_do_not_depend_on_the_number_of_threads(shared, stack, monkeypatch):
    same_bits(jit(FUNCTIONS[1]), few(stack, 200, 200, 16), monkeypatch)
