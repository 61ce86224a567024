"""Elementwise primitives at special values: zeros, infinities, NaN, extreme integers."""

import itertools

import numpy as np
import pytest

from functrans.errors import DtypeError
from functrans.ir.primitive import bind, registry
from functrans.ir.types import aval_of, real_dtype
from functrans.run.call.compiled import compile_graph
from functrans.trace.stage import rewrite
from tests.amount import one_of_each
from tests.primitives.harness import PRIMITIVES, takes

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, 1e300, -1e-300, np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, -1, 2, -3, 7, 63, 64, 100]

# There is no result.
UNDEFINED = {
    ("reciprocal", "i"): "an integer divided by 0",
    ("reciprocal", "u"): "an integer divided by 0",
    ("power_of_integers", "i"): "negative powers are refused",
    ("power_of_integers", "f"): "its operands are integers",
    ("required_good", "f"): "NaN is refused: it is there for that",
    ("required_index", "i"): "a negative number is no index",
    ("required_index", "f"): "an index is an integer",
    ("counted", "i"): "numbers that are not counted are refused",
    ("counted", "u"): "numbers that are not counted are refused",
    ("counted", "f"): "a number that is counted is an integer",
    ("counted", "b"): "a number that is counted is an integer",
    ("within", "i"): "what is not in bounds is refused",
    ("within", "u"): "what is not in bounds is refused",
    ("within", "f"): "an index is an integer",
    ("within", "b"): "an index is an integer",
}

# There is no limit, and SciPy does not say what C says; or SciPy's own result overflows on the way
# (scaled Bessel functions), has lost digits (the others at 1e300), or is not the limit.
UNSETTLED = {
    "gammaln": (-np.inf,),
    "beta": (-1.0, 1e300, -1e-300, np.inf, -np.inf, np.nan),
    "betaln": (1e300, -np.inf, np.nan),
    "boxcox": (1e300,),
    "boxcox1p": (1e300, -1e-300),
    "inv_boxcox1p": (-1e-300,),
    "powm1": (-1.0, np.inf, -np.inf),
    "pseudo_huber": (1e300, np.inf),
    "ive_whole": (1e300, np.inf, -np.inf),
    "kve_whole": (1e300, np.inf),
    **dict.fromkeys(("jv_whole", "yv_whole"), (1e300,)),
}

# Their value may be 0 because terms cancel.
CANCELLING = {"betaln", "gammaln_difference"}

# The sign of a zero that means "too small to tell", or that an odd function of SciPy's loses; and
# of one that is equal to a bound: with a single number as the bound NumPy gives the element, with
# an array of bounds the bound.
ANY_ZERO = {
    "log_ndtr",
    "clip",
    "beta",
    "cosm1",
    "erfcinv",
    "erfinv",
    "exprel_n",
}
ANY_ZERO |= {"gammaln_difference", "ndtri", "polygamma_difference", "powm1", "round"}


def numbers(dtype):
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.array(FLOATS).astype(dtype)
        if dtype.kind == "b":
            return np.array([False, True])
    limits = np.iinfo(dtype)
    values = [n for n in INTEGERS if limits.min <= n <= limits.max]
    return np.array([*values, limits.min, limits.max], dtype)


def operands_of(primitive, dtype):
    """Every combination of special numbers, or None if the primitive does not take the dtype."""
    arity = len(next(primitive.samples(np.random.default_rng(0))).operands)
    grid = list(itertools.product(numbers(dtype), repeat=arity))
    columns = [np.array(column, dtype) for column in zip(*grid, strict=True)]
    if primitive.name == "select":
        columns[0] = columns[0].astype(bool)
    rows = np.stack(columns)
    if primitive.name in UNSETTLED and dtype.kind == "f":
        with np.errstate(over="ignore"):
            unsettled = np.array(UNSETTLED[primitive.name]).astype(dtype)
        left_out = np.isin(rows, unsettled) | (np.isnan(rows) & np.isnan(unsettled).any())
        columns = [column[~left_out.any(0)] for column in columns]
    try:
        promoted, _ = primitive.prepare(*columns)
    except DtypeError:
        return None
    same = all(x.dtype == y.dtype for x, y in zip(promoted, columns, strict=True))
    return columns if same else None


CASES = {
    f"{primitive.name}-{np.dtype(dtype)}": (primitive, operands)
    for primitive in PRIMITIVES
    if primitive.elementwise and primitive.scalar is not None and primitive.prepare is not None
    for dtype in (np.float64, np.float32, np.int64, np.int8, np.uint8, np.bool_)
    if (primitive.name, np.dtype(dtype).kind) not in UNDEFINED
    for operands in [operands_of(primitive, np.dtype(dtype))]
    if operands is not None
}


def kind(case):
    """A primitive, and the kind of its operands: the quick set has one precision of it."""
    primitive, operands = case
    return primitive.name, operands[0].dtype.kind


def pairs(catalogue):
    """The arguments of `parametrize` for primitives with operands."""
    return {
        "argnames": "pair",
        "argvalues": one_of_each(kind, catalogue.values()),
        "ids": catalogue,
    }


def in_both_ways(primitive, operands):
    """What machine code gives for the parameters of the first sample, and what NumPy gives."""
    params = next(primitive.samples(np.random.default_rng(0))).params
    graph = rewrite(lambda *xs: [bind(primitive, xs, params)], [aval_of(x) for x in operands])
    with np.errstate(all="ignore"):
        expected = primitive.numpy(*operands, **params)
    [found] = compile_graph(graph)(*operands)
    assert found.dtype == expected.dtype
    return found, expected


@pytest.mark.parametrize(**pairs(CASES))
def test_machine_code_agrees_where_numbers_end(pair):
    primitive, operands = pair
    found, expected = in_both_ways(primitive, operands)
    tolerance = 1e-14 if expected.dtype == np.float64 else 1e-6
    least = tolerance if primitive.name in CANCELLING else 0.0
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=least)
    if expected.dtype.kind == "f" and primitive.name not in ANY_ZERO:
        exact = ~np.isnan(expected) & (expected == 0)
        signs = np.signbit(found[exact]), np.signbit(expected[exact])
        np.testing.assert_array_equal(*signs, err_msg="the signs of zeros")


# -- complex numbers -------------------------------------------------------------------------------

PARTS = [*FLOATS, 30.0, -800.0]

# What is less exact in one of the two: compiled, a power is exp(y log(x)); NumPy's log1p has lost
# what a number near -1 differs from it by; the square of sech has NaN for it at infinities.
INEXACT = {"power", "log1p", "sech_squared"}


def complex_numbers(dtype):
    with np.errstate(all="ignore"):
        parts = np.array(PARTS).astype(dtype)
    made = np.empty((parts.size, parts.size), np.result_type(dtype, np.complex64))
    made.real, made.imag = parts[:, None], parts
    return made.ravel()


def complex_operands_of(primitive, dtype):
    """Every combination of two special parts, and of such a number with some others."""
    arity = len(next(primitive.samples(np.random.default_rng(0))).operands)
    numbers = complex_numbers(dtype)
    several = (numbers, numbers[::7, None], numbers[::31, None, None])[:arity]
    operands = [x.ravel() for x in np.broadcast_arrays(*several)]
    if primitive.name == "complex":  # which is made of two real numbers
        operands = [numbers.real.copy(), numbers.imag.copy()]
    return operands if takes(primitive, operands, {}) else None


def by_parts(primitive):
    return primitive.elementwise and primitive.parts is not None and primitive.prepare is not None


COMPLEX = {
    f"{primitive.name}-{np.dtype(dtype)}": (primitive, operands)
    for primitive in PRIMITIVES
    if by_parts(primitive) and primitive.name not in INEXACT
    for dtype in (np.float32, np.float64)
    for operands in [complex_operands_of(primitive, dtype)]
    if operands is not None
}


def depends_on_the_machine(primitive, x):
    """Where two squares overflow, of which NumPy rounds one before the other or both alike."""
    with np.errstate(all="ignore"):
        return (primitive.name == "square") & np.isinf(x.real**2) & np.isinf(x.imag**2)


@pytest.mark.parametrize(**pairs(COMPLEX))
def test_pairs_agree_with_numpy_where_numbers_end(pair):
    primitive, operands = pair
    found, expected = in_both_ways(primitive, operands)
    tolerance = 1e-14 if real_dtype(expected.dtype) == np.float64 else 2e-6
    parts = [np.where(np.isfinite(x), abs(x * 1.0), 0) for x in (expected.real, expected.imag)]
    size = np.maximum(*parts)
    finite = np.all([np.isfinite(x) for x in operands], axis=0)
    for one, other in ((found.real, expected.real), (found.imag, expected.imag)):
        known = np.isfinite(other)
        # relative to the absolute value: a part may be the small difference of large numbers
        assert np.all(abs(one[known] * 1.0 - other[known]) <= tolerance * size[known])
        ends = ~known & ~np.all([depends_on_the_machine(primitive, x) for x in operands], axis=0)
        np.testing.assert_array_equal(one[ends], other[ends])
        zeros = known & finite & (other == 0)
        np.testing.assert_array_equal(np.signbit(one[zeros] * 1.0), np.signbit(other[zeros] * 1.0))


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater"])
def test_signed_and_unsigned_numbers_are_compared_exactly(name):
    signed = np.array([-1, 0, 1, 2**63 - 1, -(2**63)])[:, None]
    unsigned = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    for x, y in ((signed, unsigned), (unsigned, signed)):
        graph = rewrite(lambda x, y: [registry[name](x, y)], [aval_of(x), aval_of(y)])
        [found] = compile_graph(graph)(x, y)
        np.testing.assert_array_equal(found, getattr(np, name)(x, y))
