"""NumPy's functions on bfloat16 arrays: dtypes and values as with NumPy."""

import warnings

import numpy as np
import pytest

import functrans as ft
from tests.numpy.attempts import NEWEST, attempt, leaves, traced
from tests.numpy.calls import GROUPS, arrays, function_of

ml_dtypes = pytest.importorskip("ml_dtypes")

NARROW = np.dtype(ml_dtypes.bfloat16)
ARRAYS = (np.ndarray, np.generic)
SHAPES = {"any": (3, 4), "axis": (3, 4), "vector": (5,), "matrix": (3, 3)}

# What is otherwise than in NumPy, and why.
OTHERWISE = {
    "np.polyval([2, 1], a)": "refused: coefficients of int64 and bfloat16 have no common dtype",
    "np.nanmedian(a, axis=0)": "NumPy has float64, though not without the axis",
    "np.nanstd(a, mean=np.ones(()))": "NumPy has its std, since it knows no NaN of bfloat16",
    "np.dot(a, 2)": "NumPy has Python objects",
}
if not NEWEST:
    wider = [call for calls in GROUPS.values() for call in calls if "ntile(" in call]
    OTHERWISE |= dict.fromkeys([*wider, "np.sinc(a)"], "float64 before NumPy 2.4")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def operands_of(group):
    return [
        x.astype(NARROW) if x.dtype == np.float32 else x
        for x in map(np.asarray, arrays(np.dtype(np.float32), SHAPES[group]))
    ]


def problem(found, expected):
    if isinstance(found, Exception):
        return f"{found!r}, where NumPy gives {expected}"
    for x, y in zip(found, expected, strict=True):
        if not isinstance(y, ARRAYS):
            if x != y:
                return f"{x!r}, where NumPy gives {y!r}"
            continue
        x, y = np.asarray(x), np.asarray(y)
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"{x.dtype}{x.shape}, where NumPy gives {y.dtype}{y.shape}"
        kind = complex if y.dtype.kind == "c" else float
        x, y = x.astype(kind), y.astype(kind)
        if not np.allclose(x, y, rtol=0.02, atol=0.02, equal_nan=True):
            return f"{x}, where NumPy gives {y}"
    return None


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
def test_as_numpy_has_it(group):
    operands, wrong, batch = operands_of(group), [], {}
    for call in GROUPS[group]:
        function = function_of(call)
        expected = attempt(function, *operands)
        if call in OTHERWISE or isinstance(expected, Exception):
            continue
        found = attempt(traced, function, operands, False)
        wrong.append((call, problem(found, expected)))
        if all(isinstance(x, ARRAYS) for x in expected):
            batch[call] = function, expected

    def program(a, b):
        return [leaves(function(a, b)) for function, _ in batch.values()]

    compiled = ft.jit(program)(*operands)
    for (call, (_, expected)), found in zip(batch.items(), compiled, strict=True):
        wrong.append((f"{call}, compiled", problem(found, expected)))
    assert len(wrong) > 30
    assert not [each for each in wrong if each[1] is not None]
