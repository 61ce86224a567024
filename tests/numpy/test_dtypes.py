"""Every NumPy function with every dtype, and with empty arrays, against NumPy.

The calls are in calls.py. Each is made on tracers with and without values, batched and compiled.
"""

import warnings

import numpy as np
import pytest

import functrans as ft
from tests.numpy.attempts import attempt, difference, leaves, traced
from tests.numpy.calls import DTYPES, GROUPS, SHAPES, arrays, function_of

FUNCTIONS = {call: function_of(call) for calls in GROUPS.values() for call in calls}

# Where NumPy has an exception, or a result of another shape, only because there is no element.
NOTHING_IS_OTHERWISE = {
    "np.average(a, weights=b)": "NaN: whether weights add up to 0 is not known to a program",
    "np.average(a, weights=np.ones(a.shape, np.float32))": "as above",
    "np.average(a, axis=-1)": "no averages of no elements: NumPy divides by their number",
    "np.nanquantile(a, 0.3)": "truths are refused whether or not there are any",
    "np.nanpercentile(a, [30, 60])": "one NaN for each level: NumPy has one for all",
}

# What has a shape, or a dtype, that depends on the elements, by the kind of the dtype.
NEEDS_VALUES = {("np.ix_(a)", "b"), ("np.real_if_close(a)", "c")}

# Of single numbers NumPy drops the imaginary part, which it refuses to do for arrays.
REFUSED = {call for call in FUNCTIONS if call.startswith("np.interp(a, [0, 2, 4]")}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def cases(dtype):
    """The calls with their operands and what NumPy gives."""
    for group, calls in GROUPS.items():
        for shape in SHAPES[group]:
            operands = arrays(dtype, shape)
            for call in calls:
                if call in NOTHING_IS_OTHERWISE and operands[0].size == 0:
                    continue
                if call in REFUSED and dtype.kind == "c":
                    continue
                yield call, shape, operands, attempt(FUNCTIONS[call], *operands)


def some_slow(dtypes, quick, full=""):
    """Those that are told by a letter are tried always, or in full; others with the slow tests."""
    return [
        pytest.param(x, id=str(x), marks=() if x.char in quick else mark)
        for x in dtypes
        for mark in [pytest.mark.full if x.char in full else pytest.mark.slow]
    ]


@pytest.mark.parametrize("dtype", some_slow(DTYPES, "qdD", "?bBQefF"))
def test_as_numpy_has_it(dtype):
    wrong = []
    for call, shape, operands, expected in cases(dtype):
        for with_values in (True, False):
            if (call, dtype.kind) in NEEDS_VALUES and not with_values:
                continue
            found = attempt(traced, FUNCTIONS[call], operands, with_values)
            problem = difference(found, expected)
            if problem:
                wrong.append(f"{call}, shape {shape}, values {with_values}: {problem}")
    assert not wrong, "\n".join(wrong)


ARRAYS = (np.ndarray, np.generic)
SOME_SHAPE = {"any": (3, 4), "axis": (3, 4), "vector": (5,), "matrix": (3, 3)}

# An integer divided by 0, or shifted by more than its width: whatever the machine gives.
UNDEFINED = {"np.reciprocal(a)", "np.left_shift(a, b)", "2 << a", "a ** -1"}


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", some_slow(DTYPES, "?bdD"))
def test_batched_and_compiled(dtype, group):
    """All calls as one program, since compiling takes longest."""
    operands = arrays(dtype, SOME_SHAPE[group])
    expected = {call: attempt(FUNCTIONS[call], *operands) for call in GROUPS[group]}
    calls = [
        call
        for call, results in expected.items()
        if not isinstance(results, Exception)
        and all(isinstance(r, ARRAYS) for r in results)
        and (call, dtype.kind) not in NEEDS_VALUES
        and call not in UNDEFINED
    ]

    def program(a, b):
        return [leaves(FUNCTIONS[call](a, b)) for call in calls]

    compiled = ft.jit(program)(*operands)
    batched = ft.vmap(program)(*(np.stack([x, x]) for x in operands))
    wrong = []
    for call, one, both in zip(calls, compiled, batched, strict=True):
        for how, found in (("compiled", one), ("batched", [x[1] for x in both])):
            problem = difference(found, expected[call])
            if problem:
                wrong.append(f"{call}, {how}: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("p", [np.float32([2.0]), np.complex64([2.0]), np.complex64([2.0, 0.0])])
def test_roots_without_eigenvalues_are_double(p):
    """As NumPy's."""
    found = ft.jvp(np.roots, (p,), (np.zeros_like(p),))[0]
    np.testing.assert_array_equal(found, np.roots(p), strict=True)
