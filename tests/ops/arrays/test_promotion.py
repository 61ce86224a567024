"""Type promotion as in NumPy, for every ufunc and every pair of dtypes and Python numbers."""

import warnings

import numpy as np
import pytest
from scipy import special

import functrans
from functrans.ir.types import aval_of
from functrans.ops.arrays.promotion import _WITHOUT_LOOPS_OF_FLOATS
from functrans.trace import protocols
from functrans.trace.stage import stage
from tests.primitives.harness import PRIMITIVES

DTYPES = [
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
]  # fmt: skip
ARRAYS = [np.array([1, 1], dtype) for dtype in DTYPES]
NUMBERS = [True, 3, 0.5]

UFUNCS = [
    ufunc
    for name in sorted(protocols.ufuncs)
    if isinstance(ufunc := getattr(np, name, None), np.ufunc) and ufunc.signature is None
]
UNARY = [ufunc for ufunc in UFUNCS if ufunc.nin == 1]
BINARY = [ufunc for ufunc in UFUNCS if ufunc.nin == 2]


def outcome(function, operands):
    """The results, or None if NumPy does not take such operands."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = function(*operands)
        except TypeError:
            return None
    return results if isinstance(results, tuple) else (results,)


def traced(ufunc, operands, tracing):
    """What a ufunc gives for operands of which some are traced."""

    def function(*tracers):
        left = iter(tracers)
        mixed = [next(left) if flag else x for x, flag in zip(operands, tracing, strict=True)]
        results = ufunc(*mixed)
        return list(results) if isinstance(results, tuple) else [results]

    values = [x for x, flag in zip(operands, tracing, strict=True) if flag]
    avals = [aval_of(x) for x in values]
    values = [aval.dtype.type(x) if aval.weak else x for x, aval in zip(values, avals, strict=True)]
    staged = stage(function, avals, kind="jvp", values=values)
    assert not any(aval.weak for aval in staged.graph.out_avals)
    return tuple(staged.value_of(atom) for atom in staged.graph.outputs)


def check(ufunc, operands, tracing):
    expected = outcome(ufunc, operands)
    found = outcome(lambda *xs: traced(ufunc, xs, tracing), operands)
    described = f"{ufunc.__name__}{tuple(map(repr, operands))}, traced: {tracing}"
    assert (found is None) == (expected is None), described
    for x, y in zip(found or (), expected or (), strict=True):
        assert x.dtype == y.dtype, described
        np.testing.assert_allclose(x, y, rtol=2e-3 if x.dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda ufunc: ufunc.__name__)
def test_unary_ufuncs(ufunc):
    for x in [*ARRAYS, *NUMBERS]:
        check(ufunc, (x,), (True,))


@pytest.mark.few(10)
@pytest.mark.parametrize("ufunc", BINARY, ids=lambda ufunc: ufunc.__name__)
def test_binary_ufuncs(ufunc):
    for x in ARRAYS:
        for y in ARRAYS:
            check(ufunc, (x, y), (True, True))
        for number in NUMBERS:
            check(ufunc, (x, number), (True, False))
            check(ufunc, (number, x), (False, True))
            # a traced Python number yields as the number itself does
            check(ufunc, (x, number), (True, True))
            check(ufunc, (number, x), (True, True))
    for x in NUMBERS:
        for y in NUMBERS:
            check(ufunc, (x, y), (True, False))
            check(ufunc, (x, y), (True, True))


def test_there_are_ufuncs_to_look_at():
    assert len(UNARY) > 30
    assert len(BINARY) > 25
    assert len(PRIMITIVES) > 100


def test_python_numbers_among_themselves_stay_weak_under_operators_and_not_under_ufuncs():
    x = np.ones(3, np.float32)

    def by_operators(s):
        return x * (s**2 * 2.0 + 1 - s / 2)

    def by_a_ufunc(s):
        return x * np.sin(s)

    for function in (by_operators, by_a_ufunc):
        expected = function(3.0).dtype
        assert functrans.jit(function)(3.0).dtype == expected
        assert functrans.jvp(function, (3.0,), (1.0,))[0].dtype == expected


# ml_dtypes has defined them as deg2rad and rad2deg only
WITHOUT_BFLOAT16 = ("degrees", "radians")


@pytest.mark.parametrize("ufunc", [*UNARY, *BINARY], ids=lambda ufunc: ufunc.__name__)
def test_ufuncs_of_bfloat16(ufunc):
    x = np.array([1, 1], pytest.importorskip("ml_dtypes").bfloat16)
    if ufunc.nin == 1:
        if ufunc.__name__ not in WITHOUT_BFLOAT16:
            check(ufunc, (x,), (True,))
        return
    for y in [*ARRAYS, x]:
        check(ufunc, (x, y), (True, True))
        check(ufunc, (y, x), (True, True))
    for number in NUMBERS:
        for tracing in ((True, False), (True, True)):
            check(ufunc, (x, number), tracing)
            check(ufunc, (number, x), tracing[::-1])


def test_scipy_has_a_loop_for_each_float():
    """But for those which are known to have none: they are asked."""
    without, known = set(), 0
    for name in protocols.ufuncs:
        ufunc = getattr(special, name, None)
        if isinstance(ufunc, np.ufunc):
            known += 1
            for dtype in (np.float32, np.float64):
                given = (np.dtype(dtype),) * ufunc.nin
                try:
                    loop = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout))
                except TypeError:
                    loop = ()
                if loop[: ufunc.nin] != given:
                    without.add(name)
    assert without <= _WITHOUT_LOOPS_OF_FLOATS and known > 40
