"""Python's numbers among the arguments: their arithmetic, and the dtype that they take."""

import numpy as np
import pytest

from functrans import grad, jit
from tests.numpy.attempts import traced

NARROW = np.array([1.0, 2.0, 3.0], np.float32)


def check(function, *arguments):
    """The same result as without tracing, in type and value."""
    expected = np.asarray(function(*arguments))
    with_values = traced(function, arguments, with_values=True)[0]
    for found in (jit(function)(*arguments), with_values):
        assert np.asarray(found).dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x > 0) + (y > 0),
        lambda x, y: (x > 0) - (y < 0),
        lambda x, y: -(x > 0) * (y > 0),
        lambda x, y: +(x > 0) + abs(y > 0),
        lambda x, y: (x > 0) + True,
        lambda x, y: (x > 0) << (y > 0),
        lambda x, y: divmod(x > 5, y > 0),
        lambda x, y: (x > 0) ** (y > 5),
        lambda x, y: (x > 0) & (y > 0),
        lambda x, y: ((x > 0) * x + (y > 0) * 3) * NARROW,
        lambda x, y: np.add(x > 0, y > 0),
    ],
)
@pytest.mark.parametrize("of", [float, int])
def test_comparisons_are_pythons_bools(function, of):
    check(function, of(1), of(2))


def test_the_inverse_of_a_comparison_is_a_truth():
    """Python deprecates ``~True``, which is -2, and true; rules of derivatives choose by ``~``."""
    assert not grad(lambda x: np.where(~(x > 0), x, 0.0))(1.0)
    assert jit(lambda x: ~(x > 0))(1.0) is np.False_


def test_a_slope_counts_conditions():
    assert grad(lambda x, y: x * ((x > 0) + (y > 0)))(1.0, 2.0) == 2.0
    assert jit(lambda x, y: x + y)(True, True) == 2
    check(lambda x, y: (x > 0) + (y > 0), np.float64(1), np.float64(2))  # truths, in NumPy


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.dot(x, NARROW),
        lambda x: np.inner(NARROW, x),
        lambda x: np.tensordot(x, NARROW, 0),
        lambda x: np.einsum(",i->i", x, NARROW),
        lambda x: np.clip(x, NARROW, NARROW + 1),
        lambda x: np.polyval(NARROW, x),
        lambda x: np.multiply.outer(NARROW, x),
        lambda x: np.choose([0, 1, 0], [NARROW, x]),
        lambda x: np.polynomial.polynomial.polyval(x, NARROW),
        lambda x: round(x, 1) * NARROW,
        lambda x: round(x) * NARROW,
    ],
)
def test_functions_that_make_arrays_of_numbers_and_others(function):
    expected = function(2.5)
    for x in (2.5, np.float64(2.5)):
        assert jit(function)(x).dtype == function(x).dtype
    np.testing.assert_allclose(jit(function)(2.5), expected, rtol=1e-6)


def test_a_sequence_of_numbers_is_no_scalar():
    assert jit(lambda x: 2 * x if np.isscalar((x,)) else x)(3.0) == 3.0


def test_a_rounded_integer_does_not_wrap():
    assert jit(lambda x: round(x) + 100)(np.int8(100)) == 200


@pytest.mark.parametrize("level", [0.3, np.float64(0.3), np.array(0.3), np.float32(0.3), [0.3]])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_only_a_python_number_takes_the_dtype_of_the_elements(level, dtype):
    x = np.arange(5).astype(dtype)
    assert jit(lambda x: np.quantile(x, level))(x).dtype == np.quantile(x, level).dtype


@pytest.mark.parametrize("name", ["solve", "tensorsolve"])
def test_integers_are_solved_for_in_float64(name):
    a, b = np.array([[3, 1], [1, 2]]), np.array([1, 2])
    solve = getattr(np.linalg, name)
    for x, y in [(a.astype(np.int8), b.astype("f4")), (a.astype("c8"), b.astype(np.int8))]:
        assert jit(solve)(x, y).dtype == solve(x, y).dtype


def test_dtypes_of_progressions_and_quotients():
    x = NARROW
    for function in (
        lambda x: np.geomspace(x, x + 1, 3),
        lambda x: np.geomspace(x, x + 1, 3, dtype=np.float32),
        lambda x: np.polyint(x, 1, 1j),
    ):
        found, expected = jit(function)(x), function(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    quotient = grad(lambda t: (t, np.polydiv(x * t, [True, True])), has_aux=True)
    for found, expected in zip(
        quotient(np.float32(1))[1], np.polydiv(x, [True, True]), strict=True
    ):
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("name", ["bitwise_or", "bitwise_xor", "logical_and", "gcd"])
def test_what_a_reduction_starts_with_has_the_dtype_of_the_elements(name):
    reduce = getattr(np, name).reduce
    for x in (np.array([True, False]), np.array([6, 4], np.int8)):
        if name == "gcd" and x.dtype == bool:
            continue
        for initial in (2, np.int64(2)):
            expected = reduce(x, initial=initial)
            found = jit(lambda x, initial=initial: reduce(x, initial=initial))(x)
            assert (found.dtype, found) == (expected.dtype, expected)
