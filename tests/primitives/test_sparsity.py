"""The sparsity pattern of each linear primitive contains all nonzeros of its derivative."""

import numpy as np
import pytest

from functrans.ir.primitive import Primitive, bind
from functrans.ir.types import aval_of, is_float
from functrans.trace.stage import rewrite
from functrans.transform.sparsity import patterns
from tests.primitives.harness import Case, by_primitive, cases

LARGER = {
    "cholesky_cotangent": "a triangle is zero",
    "lstsq": "all systems are taken together",
    "scatter_set": "an element that is overwritten is counted",
    "solve_banded": "all systems are taken together",
    "trigonometric_transform": "zeros of some transforms",
    "triangular_solve": "half of the inverse is zero",
}
"""Where the pattern is larger than the nonzero elements, and why."""


def is_linear(case: Case) -> bool:
    primitive = case.primitive
    if primitive.higher_order or not (primitive.linear or primitive.transpose):
        return False
    return all(is_float(x.dtype) or x.dtype.kind in "ib" for x in map(np.asarray, case.operands))


def groups(primitive: Primitive, operands: tuple) -> list[tuple[int, ...]]:
    found = primitive.linear_groups(len(operands))
    return [
        group
        for group in found
        if group and all(is_float(np.asarray(operands[number]).dtype) for number in group)
    ]


def dense(case: Case, group: tuple[int, ...], values: tuple) -> np.ndarray:
    """The matrix of the linear function, by unit vectors; one column for each."""
    columns = []
    for number in group:
        for i in range(np.size(values[number])):
            given = [
                np.zeros_like(x) if j in group else x for j, x in enumerate(map(np.asarray, values))
            ]
            given[number] = given[number].copy()
            given[number].reshape(-1)[i] = 1
            results = case.numpy(*given)
            columns.append(np.concatenate([np.ravel(x) for x in results]))
    height = sum(np.size(x) for x in case.numpy(*values))
    return np.stack(columns, 1) if columns else np.zeros((height, 0))


def found(case: Case, group: tuple[int, ...], known: bool) -> np.ndarray:
    others = [i for i in range(len(case.operands)) if i not in group]
    order = [*others, *group]

    def run(*operands):
        given = dict(zip(order, operands, strict=True))
        result = bind(case.primitive, tuple(given[i] for i in range(len(given))), case.params)
        return result if case.primitive.several else [result]

    graph = rewrite(run, [aval_of(np.asarray(case.operands[i])) for i in order])
    values = [np.asarray(case.operands[i]) if known else None for i in others]
    return np.concatenate([p.toarray() for p in patterns(graph, values)])


LINEAR = by_primitive({name: case for name, case in cases(np.float64).items() if is_linear(case)})


@pytest.mark.parametrize(**LINEAR)
def test_nothing_is_missing(group):
    for name, case in group.items():
        for linear in groups(case.primitive, case.operands):
            true = dense(case, linear, case.operands) != 0
            own, any_values = found(case, linear, True), found(case, linear, False)
            assert not (true & ~own).any(), name
            assert not (own & ~any_values).any(), name
            if case.primitive.name not in LARGER:
                np.testing.assert_array_equal(own, true, name)
