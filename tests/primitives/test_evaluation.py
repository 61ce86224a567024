"""Every primitive: its type rule, batching rule and compiled form agree with NumPy."""

import itertools

import numpy as np
import pytest

from functrans.ir.types import aval_of, is_complex
from functrans.loop.scalar import Scalar, evaluate
from functrans.transform.batch import batch_graph
from tests.primitives.harness import by_primitive, cases, complex_cases, parameters, run

BOTH = cases(np.float32, np.float64)
FLOAT64 = cases(np.float64)
COMPLEX = complex_cases()
MAPPABLE = {
    name: case
    for name, case in {**FLOAT64, **COMPLEX}.items()
    if case.operands and case.primitive.batch
}
SCALAR = {
    name: case
    for name, case in BOTH.items()
    if case.primitive.scalar is not None
    and not any(is_complex(x.dtype) for x in (*case.operands, *case.numpy(*case.operands)))
}


@pytest.mark.parametrize(**by_primitive({**BOTH, **COMPLEX, **complex_cases(np.complex64)}))
def test_the_type_rule_knows_what_numpy_gives(group):
    for name, case in group.items():
        avals = [aval_of(x) for x in case.operands]
        expected = case.primitive.infer_all(avals, case.params)
        results = case.numpy(*case.operands)
        assert [(x.shape, x.dtype) for x in map(np.asarray, results)] == [
            (x.shape, x.dtype) for x in expected
        ], name


MOST_CHOICES = 100


def mapped_axes(operands):
    """Every choice of an axis (or none) for each operand, with at least one mapped."""
    choices = [[None, *range(np.ndim(x) + 1)] for x in operands]
    every = [axes for axes in itertools.product(*choices) if any(a is not None for a in axes)]
    if len(every) <= MOST_CHOICES:
        return every
    # of many operands: one of them alone, in every way, or all of them
    alone = [axes for axes in every if sum(a is not None for a in axes) == 1]
    together = [axes for axes in every if None not in axes]
    return [*alone, *together[:: max(1, len(together) // len(alone))]]


@pytest.mark.parametrize(**parameters(MAPPABLE))
def test_vmap_is_a_loop(case):
    graph = case.graph()
    pairs = list(zip(case.operands, case.another.operands, strict=True))
    looped = {}
    for axes in mapped_axes(case.operands):
        mapped = [axis is not None for axis in axes]
        if tuple(mapped) not in looped:
            rows = [
                case.numpy(
                    *(pair[i if flag else 0] for pair, flag in zip(pairs, mapped, strict=True))
                )
                for i in range(2)
            ]
            looped[tuple(mapped)] = [np.stack(column) for column in zip(*rows, strict=True)]
        inputs = [
            pair[0] if axis is None else np.stack(pair, axis)
            for pair, axis in zip(pairs, axes, strict=True)
        ]
        batched, out_axes = batch_graph(graph, axes, 2)
        results = run(batched, inputs)
        for result, expected, out_axis in zip(
            results, looped[tuple(mapped)], out_axes, strict=True
        ):
            assert result.dtype == expected.dtype
            found = np.stack([result] * 2) if out_axis is None else np.moveaxis(result, out_axis, 0)
            np.testing.assert_allclose(found, expected, rtol=1e-13, err_msg=f"axes {axes}")


@pytest.mark.parametrize(**by_primitive(SCALAR))
def test_the_scalar_form_means_what_numpy_means(group):
    for name, case in group.items():
        leaves = [Scalar("input", (), x.dtype, i) for i, x in enumerate(case.operands)]
        expression = case.primitive.scalar(*leaves, **case.params)
        [expected] = case.numpy(*case.operands)
        assert expression.dtype == expected.dtype, name
        result = evaluate(expression, dict(zip(leaves, case.operands, strict=True)))
        tolerance = 1e-14 if expected.dtype == np.float64 else 1e-6
        np.testing.assert_allclose(
            np.broadcast_to(result, expected.shape), expected, tolerance, tolerance, err_msg=name
        )
