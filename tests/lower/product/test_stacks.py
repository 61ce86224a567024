"""Batched products: partial sums of long contractions, and one matrix times a stack."""

import numpy as np
import pytest

from functrans import config, grad, jit, vmap
from tests.lower.product.test_kernel import array, check, kernels
from tests.targets import take_host_for


@pytest.mark.dear
@pytest.mark.parametrize("registers", [32, 16])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (41, 70), (17, 130), (96, 32)])
@pytest.mark.parametrize("terms", [1, 90, 391])
def test_matrices_of_a_stack_that_pack_both_operands(registers, rows, columns, terms, monkeypatch):
    """Parts of a long sum are such a stack: some terms at a time, in the cache."""
    blocking = {"fewest_packed": 8, "rows_in_place": 0, "depth_bytes": 256, "panel_bytes": 1}
    take_host_for(
        monkeypatch, cache=64, registers=registers, largest_stack=100_000, blocking=blocking
    )
    x, y = array(8, terms, rows), array(8, terms, columns)
    functions = (
        lambda x, y: x.mT @ y,
        lambda x, y: (2 * x).mT @ np.exp(y),
        lambda x, y: np.ascontiguousarray(x.mT) @ y,
        lambda x, y: x.mT @ y.mT.copy().mT,
        lambda x, y: (x.mT @ y) * 2 + 1,
    )
    for function in functions:
        check(function, x, y)
    if terms == 391:
        assert len(kernels(functions[0], x, y)) == 1
        results = set()
        for threads in (1, 2, 5):
            monkeypatch.setattr(config, "threads", threads)
            results.add(jit(functions[0])(x, y).tobytes())
        assert len(results) == 1


STACKS = {
    "a stack": (lambda w, x: w @ x, array(70, 40), array(3, 40, 90)),
    "stacks of stacks": (lambda w, x: w @ x, array(17, 40), array(2, 3, 40, 33)),
    "transposed": (lambda w, x: w.T @ x, array(40, 70), array(3, 40, 90)),
    "followed": (lambda w, x: np.tanh(w @ x + 1).sum(0), array(70, 40), array(3, 40, 90)),
    "computed": (lambda w, x: np.tanh(w) @ np.cos(x), array(70, 40), array(3, 40, 90)),
    "gradients": (
        lambda w, x: grad(lambda w, x: np.sum(np.tanh(w @ x)), argnums=(0, 1))(w, x),
        array(70, 40), array(3, 40, 90),
    ),
    "none": (lambda w, x: w @ x, array(70, 40), array(0, 40, 90)),
    "of one": (lambda w, x: w @ x, array(70, 40), array(1, 40, 90)),
    "few columns": (lambda w, x: w @ x, array(70, 40), array(30, 40, 2)),
    "by vmap": (vmap(lambda w, x: w @ x, (None, 0)), array(70, 40), array(3, 40, 90)),
}  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize("name", STACKS)
def test_a_matrix_times_each_of_a_stack(name):
    check(*STACKS[name])


@pytest.mark.dear
def test_a_matrix_times_each_of_a_stack_is_one_kernel():
    """Neither the stack nor the result is copied to another order of axes."""
    for name in ("a stack", "transposed", "by vmap"):
        *packs, product = kernels(*STACKS[name])
        assert len(packs) <= 1 and all("_right[" in each for each in packs)
        assert "gemm" not in product


SUMS_OF_STACKS = {
    "of rows and columns": (lambda x, y: np.einsum("bik,bjk->ij", x, y), (5, 17), (5, 40)),
    "more rows": (lambda x, y: np.einsum("bik,bjk->ij", x, y), (5, 65), (5, 24)),
    "turned": (lambda x, y: np.einsum("bki,bjk->ij", x.mT, y), (5, 17), (5, 40)),
    "two axes": (lambda x, y: np.einsum("abik,abjk->ij", x, y), (2, 3, 33), (2, 3, 17)),
    "several rows": (lambda x, y: np.einsum("bcik,bjk->cij", x, y), (5, 3, 17), (5, 40)),
    "symmetric": (lambda x, y: np.einsum("bik,bjk->ij", x, x), (5, 40), (1, 1)),
}


@pytest.mark.dear
@pytest.mark.parametrize("name", SUMS_OF_STACKS)
@pytest.mark.parametrize("terms", [300, 2600])
def test_sums_of_stacks_of_products(name, terms, monkeypatch):
    function, *shapes = SUMS_OF_STACKS[name]
    x, y = (array(*shape, terms) for shape in shapes)
    results = set()
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found = jit(function)(x, y)
        np.testing.assert_allclose(found, function(x, y), rtol=1e-9, atol=1e-9)
        results.add(found.tobytes())
    assert len(results) == 1


@pytest.mark.dear
def test_nothing_is_copied_for_a_sum_of_a_stack_of_products():
    x, y, w = array(5, 40, 400), array(5, 64, 400), array(64, 40)
    gradient = grad(lambda w, x, y: np.sum((w @ x) * y))
    for text in (
        jit(SUMS_OF_STACKS["more rows"][0]).lower(x, y).schedule(),
        jit(gradient).lower(w, x, y).schedule(),
    ):
        assert "gemm" not in text and "5 of 64 x 400 times 400 x 40" in text


def test_a_stack_of_no_products():
    check(lambda x, w: x @ w, array(0, 70, 40), array(0, 40, 90))
    check(lambda x, w: x @ w, array(0, 40), array(40, 90))
    check(lambda x, w: x @ w, array(70, 0), array(0, 90))


@pytest.mark.dear
@pytest.mark.parametrize(
    ("terms", "rows", "columns"), [(25_600, 64, 64), (8960, 40, 544), (1600, 20, 384)]
)
def test_parts_of_long_sums_need_little_memory(terms, rows, columns):
    x, y = (array(terms, n, dtype=np.float32) for n in (rows, columns))
    function = jit(lambda x, y: x.T @ y)
    np.testing.assert_allclose(function(x, y), x.T.astype(float) @ y, atol=2e-3)
    lowered = function.lower(x, y)
    assert "gemm" not in lowered.schedule()
    assert lowered.cost().temporary_bytes == 8 * rows * columns * 4
