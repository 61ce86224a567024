"""Products fused into larger kernels are not library calls; all others are."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from functrans import grad, jit
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.lower import overview, pipeline
from functrans.lower.grid.target import CUDA
from tests.emit.cuda.programs import interpreted
from tests.lower.grid.attention.test_softmax_kernel import (
    FORMS,
    SMALL,
    attend,
    check,
    drawn,
    fused,
    kept_scores,
    planned,
    two,
)
from tests.lower.grid.test_libraries import calls
from tests.targets import target

CALLING = target(SMALL, libraries=True, products={"smallest_side": 1, "smallest_work": 1})
"""A small GPU whose products are all a library's."""


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "form", ["batch", "divided late", "causal", "heads", "mapped", "scaled before"]
)
def test_attention_is_one_kernel(form):
    made = check(*FORMS[form], machine=CALLING)
    assert made.arena == 0


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 2e-5), (np.float16, 4e-3), (bfloat16, 2e-5)]
)
def test_so_is_that_of_narrow_floats(dtype, tolerance):
    operands = [x.astype(dtype) for x in two(5, 18, 4)]
    check(attend, *operands, machine=CALLING, tolerance=tolerance)


def long_work(x):
    return np.tanh(np.sin(x) * np.cos(x + 1)) / (1 + np.exp(x) ** 2)


def attend_to_common(q, k, v):
    scaled = k * 2
    return attend(q, scaled, v), attend(q + 1, scaled, v)


@pytest.mark.full
def test_operands_that_are_much_work_or_read_by_others_are_in_memory():
    q, k, v = two(5, 18, 4)
    check(lambda q, k, v: attend(q, k, long_work(v)), q, k, v, machine=CALLING, launches=2)
    made, given, _ = planned(attend_to_common, q, k, v, machine=CALLING)
    assert (fused(made), len(made.steps)) == (2, 3)
    found = interpreted(made, given)
    for one, other in zip(found, attend_to_common(q, k, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


OTHERS = {
    "few queries": (lambda q, k, v: attend(q[:2], k, v), 2),
    "kept scores": (kept_scores, 2),
    "projected": (lambda q, k, v: attend(q @ q.T @ q, k @ k.T @ k, v) @ v.T, 5),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_products_are_calls(name):
    function, count = OTHERS[name]
    operands = drawn(5, 17), drawn(18, 17), drawn(18, 4)
    made, given, _ = planned(function, *operands, machine=CALLING)
    assert (fused(made), len(calls(made))) == (name == "projected", count)
    found = interpreted(made, given)
    expected = function(*operands)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.full
def test_gradients_of_attention_are_no_calls():
    operands = drawn(17, 8), drawn(18, 8), drawn(18, 3)
    function = grad(lambda q, k, v: np.sum(attend(q, k, v) ** 2), (0, 1, 2))
    made, given, graph = planned(function, *operands, machine=CALLING)
    assert not calls(made)
    found = interpreted(made, given)
    for one, other in zip(found, by_numpy(graph, list(given)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_attention_of_real_sizes_has_the_kernel_that_it_has_without_libraries():
    operands = [np.ones((2, 8, 512, 64), np.float32)] * 3
    graph = jit(attend).lower(*operands).graph()
    own, other = (pipeline.plan(graph, machine) for machine in (CUDA, target(CUDA, libraries=True)))
    assert len(own.steps) == len(other.steps) == 1
    assert own.steps[0].kernel.private and not calls(other)
    assert other.arena == 0


def test_roots_say_what_may_be_called():
    graph = jit(lambda x, y: x @ y).lower(drawn(5, 7), drawn(7, 3)).graph()
    shown = {stage.name: text for stage, _, text in overview.shown(graph, CALLING)}
    assert "or call dgemm_batch_strided" in shown["selection"]
    assert "or call" not in shown["library calls"]
    assert "call dgemm_batch_strided" in shown["library calls"]
