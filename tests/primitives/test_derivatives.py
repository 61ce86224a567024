"""Every primitive's derivatives, to second order: against differences and against each other."""

import itertools

import numpy as np
import pytest

from functrans import grad, jvp
from functrans.errors import DtypeError
from functrans.ir.types import is_inexact, real_dtype
from tests.primitives.harness import (
    cases,
    complex_cases,
    inner,
    like,
    parameters,
    pulled_back,
    run,
    tangent_graph,
)

STEP = 1e-5

# Their derivative is not that of what they compute, by intention.
OTHERWISE = {"stop_gradient"}

# NumPy and SciPy have the function at complex numbers, but not its derivative.
REAL_DERIVATIVE = {
    **dict.fromkeys(
        ("digamma", "gamma", "loggamma", "rgamma"), "polygamma, the derivative of digamma"
    ),
    **dict.fromkeys(("erfcx", "dawsn"), "the imaginary part of w, the derivative of erfcx"),
    **dict.fromkeys(
        ("elliprc", "elliprd", "elliprf", "elliprg", "elliprj"), "carlson, the derivative"
    ),
    "spence": "log1prel_n, the derivative of spence",
}


def differentiable(dtype):
    return {
        name: case
        for name, case in cases(dtype).items()
        if case.differentiable and case.primitive.name not in OTHERWISE
    }


# Vectors with a phase that LAPACK chooses, and the derivative leaves as it is: their spaces are
# tested in tests/ops/linalg/test_spectra.py.
PHASES = ("eigh-", "schur-", "svd-", "qr-3-")

COMPLEX = {
    name: case
    for name, case in complex_cases().items()
    if case.differentiable
    and case.primitive.name not in OTHERWISE | REAL_DERIVATIVE.keys()
    and not name.startswith(PHASES)
}
FLOAT64 = differentiable(np.float64)
# in single precision LAPACK may choose other signs
FLOAT32 = {x: case for x, case in differentiable(np.float32).items() if "schur-" not in x}


def widened(x):
    """A number of two precisions, in the higher one."""
    return x.astype(np.result_type(x.dtype, np.float64))


def differences(graph, values, directions, moving):
    """The derivative along directions, from values on both sides."""
    sides = []
    for step in (STEP, -STEP):
        directions_left = iter(directions)
        inputs = [
            x + step * next(directions_left) if flag else x
            for x, flag in zip(values, moving, strict=True)
        ]
        sides.append(run(graph, inputs))
    return [
        (above - below) / (2 * STEP)
        for above, below in zip(*sides, strict=True)
        if is_inexact(above.dtype)
    ]


def check(graph, values, moving, order, rng):
    directions = [like(rng, x) for x, flag in zip(values, moving, strict=True) if flag]
    tangent = tangent_graph(graph, moving)
    tangents = run(tangent, [*values, *directions])
    expected = differences(graph, values, directions, moving)
    for found, difference in zip(tangents, expected, strict=True):
        scale = 1 + np.max(np.abs(difference), initial=0)
        # a difference of what was rounded to float32 (by a cast) is not worth more
        tolerance = 1e-6 if real_dtype(found.dtype) == np.float64 else 2e-2
        np.testing.assert_allclose(found, difference, rtol=tolerance, atol=tolerance * scale)
    cotangents = [like(rng, x) for x in tangents]
    back = pulled_back(tangent, values, directions, cotangents)
    forth_and_back = inner(cotangents, tangents), inner(back, directions)
    double = all(real_dtype(x.dtype) == np.float64 for x in tangents)
    tolerance = 1e-9 if double else 1e-6
    np.testing.assert_allclose(*forth_and_back, rtol=tolerance, atol=tolerance)
    if order > 1:
        check(tangent, [*values, *directions], (*moving, *[True] * len(directions)), order - 1, rng)


@pytest.mark.parametrize(**parameters(FLOAT64))
def test_derivatives_to_second_order(case):
    check(case.graph(), list(case.operands), case.moving, 2, np.random.default_rng(0))


@pytest.mark.parametrize(**parameters(COMPLEX))
def test_derivatives_at_complex_numbers(case):
    check(case.graph(), list(case.operands), case.moving, 2, np.random.default_rng(0))


@pytest.mark.parametrize("name", REAL_DERIVATIVE)
def test_a_derivative_for_real_numbers_only_says_so(name):
    case = complex_cases()[f"{name}-0-complex128"]
    with pytest.raises(
        DtypeError, match=f"^{REAL_DERIVATIVE[name]}.* is not defined for complex128"
    ):
        tangent = tangent_graph(case.graph(), case.moving)
        tangent_graph(tangent, (*case.moving, *[False] * sum(case.moving)))


@pytest.mark.parametrize(**parameters(FLOAT32))
def test_derivatives_in_float32(case):
    rng = np.random.default_rng(0)
    directions = [like(rng, x) for x, flag in zip(case.operands, case.moving, strict=True) if flag]
    tangent = tangent_graph(case.graph(), case.moving)
    tangents = run(tangent, [*case.operands, *directions])
    name = next(name for name, other in FLOAT32.items() if other is case)
    wide = FLOAT64[name.replace("float32", "float64")]
    expected = run(
        tangent_graph(wide.graph(), wide.moving),
        [*wide.operands, *map(widened, directions)],
    )
    cotangents = [like(rng, x) for x in tangents]
    back = pulled_back(tangent, list(case.operands), directions, cotangents)
    assert [x.dtype for x in back] == [x.dtype for x in directions]
    for found, value in zip(tangents, expected, strict=True):
        scale = 1 + np.max(np.abs(value), initial=0)
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize(**parameters(FLOAT64))
def test_cotangents_of_the_chosen_branch(case):
    """A cotangent with a mask, which `where` hands to the branch that it chose."""
    moving = [i for i, flag in enumerate(case.moving) if flag]

    def chosen(through, *values):
        operands = list(case.operands)
        for i, x in zip(moving, values, strict=True):
            operands[i] = x
        outs = case.primitive(*operands, **case.params)
        total = 0.0
        for out in outs if isinstance(outs, (list, tuple)) else [outs]:
            if is_inexact(out.dtype):
                kept = np.arange(out.size).reshape(out.shape) % 2 == 0
                total = total + np.sum(np.real(through(kept, out)))
        return total

    values = [case.operands[i] for i in moving]
    numbers = tuple(range(1, len(values) + 1))
    masked = grad(chosen, numbers)(lambda kept, x: np.where(kept, x, 0.0), *values)
    times = grad(chosen, numbers)(lambda kept, x: x * kept, *values)
    for found, expected in zip(masked, times, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [n for n, case in FLOAT32.items() if case.primitive.elementwise])
def test_tangents_have_the_dtypes_of_their_primals(name):
    """Also beside Python's numbers, and where SciPy computes half floats in a wider dtype."""
    case = FLOAT32[name]
    # SciPy has no half floats, of which its functions are given float32
    dtypes = [np.float16, np.float32] if type(case.primitive.numpy) is np.ufunc else [np.float32]
    moving = [i for i, x in enumerate(case.operands) if case.moving[i] and x.dtype.kind == "f"]
    for dtype, number in itertools.product(dtypes, moving):
        x = np.asarray(case.operands[number], dtype)

        def function(x, number=number):
            operands = [1.0 if is_inexact(y.dtype) else y for y in case.operands]
            operands[number] = x
            return case.primitive(*operands, **case.params)

        with np.errstate(all="ignore"):
            out, tangent = jvp(function, (x,), (x,))
        assert tangent.dtype == out.dtype
