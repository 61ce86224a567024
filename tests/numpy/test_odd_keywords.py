"""Reductions and methods of ufuncs with keywords that NumPy refuses in part, against NumPy."""

import itertools

import numpy as np
import pytest

from functrans import jit, jvp
from functrans.errors import UnsupportedNumPyError
from tests.numpy.attempts import attempt, difference, traced

ABSENT = object()
"""Stands for a keyword that is not given."""

VALUES = {
    "axis": [ABSENT, None, 0, -1, (0, 1), (0, 0), 5, 0.5],
    "dtype": [ABSENT, bool, np.int64, np.float32, np.complex128],
    "keepdims": [ABSENT, True],
    "initial": [ABSENT, None, 2, 300, "x"],
    "where": [ABSENT, False, np.array([True, False, True]), np.array([1, 0, 1])],
    "ddof": [ABSENT, 1],
    "correction": [ABSENT, 1],
}

KEYWORDS = {
    **dict.fromkeys(("sum", "prod", "nansum", "nanprod"), "axis dtype initial where"),
    **dict.fromkeys(("max", "min", "nanmax", "nanmin"), "axis keepdims initial where"),
    **dict.fromkeys(("all", "any"), "axis keepdims where"),
    **dict.fromkeys(("mean", "var"), "dtype keepdims where"),
    **dict.fromkeys(("std", "nanstd"), "dtype keepdims ddof correction"),
    **dict.fromkeys(("argmax", "ptp", "count_nonzero"), "axis keepdims"),
    **{
        f"{name}.reduce": "axis dtype initial where"
        for name in "add multiply maximum fmin logical_or bitwise_and logaddexp lcm".split()
    },
    **{
        f"{name}.accumulate": "axis dtype"
        for name in "add minimum logical_or logical_xor bitwise_and hypot".split()
    },
}

OPERANDS = [
    np.array([[1, 3, 2], [2, 0, 1]], np.int8),
    np.array([[True, False, True]]),
    np.array([2.0, 0.5, 3.0]),
    np.array([[0.5, 3.0, np.nan]], np.float32),
    np.array([1 + 1j, 2, 3]),
    np.array(2.5),
    np.zeros((0, 3)),
]


def named(name):
    function = np
    for part in name.split("."):
        function = getattr(function, part)
    return function


@pytest.mark.parametrize("name", KEYWORDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_what_numpy_refuses_is_refused_and_what_it_gives_is_given(name):
    function, keywords = named(name), KEYWORDS[name].split()
    combinations = itertools.product(*(VALUES[keyword] for keyword in keywords))
    pairs = [(x, given) for given in combinations for x in OPERANDS]
    for x, given in pairs[::9]:
        some = {k: v for k, v in zip(keywords, given, strict=True) if v is not ABSENT}

        def call(x, some=some):
            return function(x, **some)

        with np.errstate(all="ignore"):
            expected, found = attempt(call, x), attempt(traced, call, (x,), False)
        if not isinstance(found, UnsupportedNumPyError):
            assert difference(found, expected) is None, (x, some)


@pytest.mark.parametrize("way", [jit, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_first_number_of_float16_is_added_before_rounding(way):
    x = np.array([60000, 60000], np.float16)
    for function, first in ((np.sum, -60000), (np.add.reduce, -60000), (np.prod, 1e-5)):
        found = way(lambda x, f=function, first=first: f(x, initial=first))(x)
        assert (found, found.dtype) == (function(x, initial=first), np.float16)


def test_an_extreme_of_float16_with_a_first_number_is_found_in_float16():
    """Nothing is rounded; and kernels of attention know the maximum of scores by this form."""
    graph = jit(lambda x: np.max(x, -1, initial=-np.inf)).lower(np.ones((2, 3), np.float16)).graph()
    assert {eqn.outputs[0].aval.dtype for eqn in graph.eqns} == {np.dtype(np.float16)}


@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_first_number_that_is_nan_is_ignored(name):
    for x in ([1.0, np.nan, 3.0], [np.nan, np.nan], []):

        def function(x):
            return getattr(np, name)(x, initial=np.nan)

        np.testing.assert_array_equal(jit(function)(np.array(x)), function(np.array(x)))


def test_no_mask_is_one_without_elements():
    x = np.array([2.0, 3.0])
    for method in (lambda x: x.sum(where=None), lambda x: np.prod(x, where=None)):
        assert jit(method)(x) == method(x)


@pytest.mark.parametrize("way", [jit, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
def test_quantiles_at_no_levels(way):
    x = np.array([[1.0, 5.0, np.nan], [2.0, 3.0, 4.0]])
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
        for levels, axis in (([], None), (np.zeros(0), 0), ([[0.2, 0.5]], 1)):

            def function(x, name=name, levels=levels, axis=axis):
                return getattr(np, name)(x, levels, axis, keepdims=True)

            np.testing.assert_allclose(way(function)(x), function(x), strict=True)
    with pytest.raises(ValueError, match="q must be a scalar or 1d"):
        way(lambda x: np.quantile(x, np.zeros((1, 1, 1))))(x)
