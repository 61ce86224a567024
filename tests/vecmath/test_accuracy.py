"""Every function against mpmath, in units of the last place."""

import mpmath as mp
import numpy as np
import pytest

from functrans import vecmath
from tests.vecmath.reference import CASES as ELEMENTARY
from tests.vecmath.reference import DTYPES, Case, apply, errors, expression, points
from tests.vecmath.special_cases import NEGATIVE_APART, SPECIAL_CASES

# the arguments that come closest to a multiple of pi/2 (Muller, Elementary Functions, 11.2)
CLOSE_TO_A_MULTIPLE = {
    np.float64: 6381956970095103 * 2.0**797,
    np.float32: 16367173 * 2.0**72,
}

CASES = (*ELEMENTARY, *SPECIAL_CASES)


def label(case: Case) -> str:
    negative = ["negative"] if case.ranges[0][0] < 0 and case.name in NEGATIVE_APART else []
    return "-".join([case.name, *map(str, case.params.values()), *negative])


IDS = list(map(label, CASES))


def largest_error(case: Case, operands: list[np.ndarray]) -> tuple[float, list[float]]:
    with mp.workprec(1300 if case.name in ("sin", "cos", "tan") else 300):
        found = errors(case, operands, apply(case.name, *operands, **case.params))
    worst = int(np.argmax(found))
    return float(found[worst]), [float(x[worst]) for x in operands]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_error(case, dtype):
    few = 60 if dtype == np.float64 else 20  # float32 by way of float64
    count = few if case in SPECIAL_CASES else 400
    worst, where = largest_error(case, points(case, dtype, count))
    assert worst <= case.bound, f"{worst:.2f} ulp at {where}"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_error_at_many_points(case, dtype):
    count = 1_000 if case in SPECIAL_CASES else 20_000  # mpmath takes its time
    worst, where = largest_error(case, points(case, dtype, count, seed=1))
    assert worst <= case.bound, f"{worst:.2f} ulp at {where}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_next_to_multiples_of_half_pi(name, dtype):
    case = next(case for case in CASES if case.name == name)
    multiples = (np.arange(1, 500) * (np.pi / 2)).astype(dtype)
    worst, where = largest_error(case, [np.append(multiples, dtype(CLOSE_TO_A_MULTIPLE[dtype]))])
    assert worst <= case.bound, f"{worst:.2f} ulp at {where}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms_of_powers_are_exact(dtype):
    exponents = np.arange(-100, 100)
    assert np.array_equal(apply("log2", np.ldexp(dtype(1), exponents)), exponents)
    assert np.array_equal(apply("exp2", exponents.astype(dtype)), np.ldexp(dtype(1), exponents))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cubes_have_exact_roots(dtype):
    roots = np.arange(-100, 100).astype(dtype)
    assert np.array_equal(apply("cbrt", roots**3), roots)


def test_float16_goes_by_way_of_float32():
    x = np.linspace(-5, 5, 101).astype(np.float16)
    expected = np.exp(x.astype(np.float32)).astype(np.float16)
    assert np.array_equal(apply("exp", x), expected)


def test_operands_of_two_dtypes_are_refused():
    _, (x,) = expression("exp", np.float64)
    _, (y,) = expression("exp", np.float32)
    with pytest.raises(TypeError, match=r"^power takes floats of one dtype, and got "):
        vecmath.power(x, y)
