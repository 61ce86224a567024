"""NumPy functions on traced values against NumPy on arrays: values, dtypes, shapes."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import functrans as ft
from functrans.ir.evaluate import evaluate
from functrans.ir.types import aval_of
from functrans.testing import check_grads
from functrans.trace.stage import stage
from functrans.trace.tracer import Tracer
from tests.amount import one_of_each
from tests.numpy.attempts import is_known, leaves

spec = importlib.util.spec_from_file_location("numpy_cases", Path(__file__).with_name("cases.py"))
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)


CASES = list(filter(is_known, cases.CASES))


def function(case):
    """The name of the function that is called, of which the quick set has one case."""
    return case.name.partition("(")[0]


TOLERANCES = {"float16": 1e-3, "float32": 1e-6, "complex64": 1e-6}


def traced(call, operands, with_values):
    """The results of a call on tracers, evaluated from its graph; and whether all were traced."""
    plain = {}

    def function(*tracers):
        results = leaves(call(*tracers))
        plain.update({i: r for i, r in enumerate(results) if not isinstance(r, Tracer)})
        return [r for r in results if isinstance(r, Tracer)]

    staged = stage(
        function,
        [aval_of(x) for x in operands],
        kind="test",
        values=operands if with_values else None,
    )
    if with_values:
        found = [staged.value_of(atom) for atom in staged.graph.outputs]
    else:
        found = list(evaluate(staged.graph, [*operands, *staged.captures]))
    results = iter(found)
    return [plain[i] if i in plain else next(results) for i in range(len(found) + len(plain))]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        if isinstance(y, (bool, int)) and not isinstance(y, np.generic):
            assert x == y
            continue
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        rtol = {"float16": 1e-3, "float32": 1e-6, "complex64": 1e-6}.get(
            np.asarray(y).dtype.name, 1e-12
        )
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("with_values", [True, False], ids=["values", "abstract"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_on_tracers_as_on_arrays(case, with_values):
    expected = leaves(case.call(*case.operands))
    if case.needs_values and not with_values:
        with pytest.raises((ft.errors.TracerIndexError, ft.errors.UnsupportedNumPyError)):
            traced(case.call, case.operands, with_values)
        return
    assert_same(traced(case.call, case.operands, with_values), expected)


DOUBLE = (np.float64, np.complex128)

DIFFERENTIABLE = [
    case
    for case in CASES
    if all(x.dtype in DOUBLE and np.isfinite(x).all() for x in case.operands)
    and any(
        isinstance(r, (np.ndarray, np.generic)) and r.dtype in DOUBLE
        for r in leaves(case.call(*case.operands))
    )
]


@pytest.mark.parametrize(
    "case", one_of_each(function, DIFFERENTIABLE), ids=[case.name for case in DIFFERENTIABLE]
)
def test_derivatives_are_those_of_finite_differences(case):
    def function(*operands):
        results = leaves(case.call(*operands))
        return tuple(r for r in results if getattr(r, "dtype", None) in DOUBLE)

    check_grads(function, case.operands, order=1, max_elements=4)


WITHOUT_VALUES = [case for case in CASES if not case.needs_values]


def arrays_of(case):
    """The call, without results that NumPy gives as Python's numbers."""
    plain = leaves(case.call(*case.operands))
    wanted = [i for i, r in enumerate(plain) if not isinstance(r, (bool, int))]

    def function(*operands):
        results = leaves(case.call(*operands))
        return [results[i] for i in wanted]

    return function


@pytest.mark.parametrize(
    "case", one_of_each(function, WITHOUT_VALUES), ids=[case.name for case in WITHOUT_VALUES]
)
def test_the_same_compiled_and_batched(case):
    function = arrays_of(case)
    expected = function(*case.operands)
    compiled = ft.jit(function)(*case.operands)
    twice = ft.vmap(function)(*(np.stack([x, x]) for x in case.operands))
    for found in (compiled, [x[1] for x in twice]):
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            assert np.shape(x) == np.shape(y)
            assert np.asarray(x).dtype == np.asarray(y).dtype
            # sums are added in another order
            tolerance = {"float16": 2e-3, "float32": 1e-5, "complex64": 1e-5}.get(
                np.asarray(y).dtype.name, 1e-11
            )
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
