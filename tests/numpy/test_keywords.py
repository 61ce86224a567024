"""``dtype=``, ``where=`` and ``copy=``, and what they change, against NumPy on arrays."""

import numpy as np
import pytest

from functrans import jit, jvp
from functrans.errors import MutationError

MASK = np.array([True, False, True])
OF_ONE = ["isinf", "log", "abs", "logical_not", "frexp", "negative", "signbit"]


def results(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", [*OF_ONE, "add", "less", "ldexp", "divide", "logical_and"])
def test_a_ufunc_has_the_dtype_or_no_such_loop(name):
    ufunc = getattr(np, name)
    for x in (np.array([1, 0, 3], d) for d in ("?", "u1", "i8", "f2", "f4", "c8")):
        for dtype in ("?", "i8", "f4", "f8", "c16"):
            operands = [x] if ufunc.nin == 1 else [x, np.array([1, 2, 0], np.int8)]

            def function(*operands, dtype=dtype):
                return ufunc(*operands, dtype=dtype)

            try:
                with np.errstate(all="ignore"):
                    expected = function(*operands)
            except TypeError:
                with pytest.raises(TypeError):
                    jit(function)(*operands)
                continue
            for ours, theirs in zip(
                results(jit(function)(*operands)), results(expected), strict=True
            ):
                assert ours.dtype == theirs.dtype
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["?", "u1", "f2"])
@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "nanprod"])
def test_a_masked_sum_has_the_dtype(name, dtype):
    def function(x):
        return getattr(np, name)(x, dtype=dtype, where=MASK, initial=3)

    x = np.array([2.0, np.nan, 0.0])
    found, expected = jit(function)(x), function(x)
    assert (found, found.dtype) == (expected, expected.dtype)


@pytest.mark.parametrize(
    "x",
    [np.full(4, 2**62), np.full(4, 3e38, np.float32), np.full(4, 100, np.int8)],
    ids=lambda x: str(x.dtype),
)
@pytest.mark.parametrize(
    "into",
    [
        lambda x, out: np.sum(x, None, None, out[0, ...]),
        lambda x, out: x.prod(out=out[0, ...]),
        lambda x, out: np.nansum(x, out=out[0, ...]),
        lambda x, out: np.add.reduce(x, out=out[0, ...]),
        lambda x, out: np.cumsum(x, out=out),
        lambda x, out: x.cumprod(0, None, out),
        lambda x, out: np.multiply.accumulate(x, out=out),
        lambda x, out: np.add.reduceat(x, [0, 2, 1, 3], out=out),
    ],
)
def test_elements_are_added_in_the_dtype_of_out(into, x):
    def function(x):
        out = np.zeros(4)
        into(x, out)
        return out

    np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-15)


def test_masked_bits_of_unsigned_integers():
    x = np.array([7, 0, 14], np.uint8)
    assert jit(lambda x: np.bitwise_and.reduce(x, where=MASK))(x) == 6


@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
@pytest.mark.parametrize(
    "x",
    [[1e200, -1e200], [1.0, np.nan, 2.0], [1, 2], [np.nan, np.nan], [np.inf, 1.0]],
    ids=["overflow", "NaN", "integers", "only NaN", "infinite"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_variances_that_are_not_finite(x, name):
    x = np.array(x)
    for ddof in (0, 1, 2, 5):

        def function(x, ddof=ddof):
            return getattr(np, name)(x, ddof=ddof)

        np.testing.assert_allclose(jit(function)(x), function(x))


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
def test_a_mean_of_floats_is_no_integer(name):
    with pytest.raises(TypeError, match=r"\.astype"):
        jit(lambda x: getattr(np, name)(x, dtype=int))(np.array([1.0, np.nan]))
    assert jit(lambda x: getattr(np, name)(x, dtype=np.float32))(np.array([1, 1])) in (0.0, 1.0)


@pytest.mark.parametrize("name", ["mean", "var", "nanmean", "nanvar"])
def test_the_number_of_elements_may_exceed_the_dtype(name):
    x = np.resize([0, 1, 2], 300)
    for where in (True, x > 0, np.arange(300) > 1):
        for dtype in ("u1", "i1", "f2", "f4"):

            def function(x, dtype=dtype, where=where):
                return getattr(np, name)(x, dtype=dtype, where=where)

            found, expected = jit(function)(x), function(x)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("way", [jit, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
def test_nan_to_num_in_place(way):
    def function(x):
        y, z = x.copy(), 1j * x
        tail = y[1:]
        same = np.nan_to_num(tail, copy=False, nan=7.0) is tail
        np.nan_to_num(z, copy=False)
        return y, z, same

    with np.errstate(invalid="ignore"):
        given = np.array([np.nan, np.inf, np.nan])
        for got, expected in zip(way(function)(given), function(given), strict=True):
            np.testing.assert_array_equal(got, expected)
        with pytest.raises(MutationError, match=r"np.nan_to_num\(..., copy=False\)"):
            way(lambda x: np.nan_to_num(x, copy=False))(given)


def test_positional_parameters_of_methods():
    x = np.arange(12.0).reshape(3, 4) % 5 - 1
    for function in (
        lambda x: x.sum(0, None, None, True, 2.0, x > 0),
        lambda x: x.prod(0, None, None, True),
        lambda x: x.mean(0, None, None, True),
        lambda x: x.std(0, None, None, 1),
        lambda x: x.var(0, None, None, 1, True),
        lambda x: x.max(0, None, True, 9.0),
        lambda x: x.min(0, None, True, -9.0, x > 0),
        lambda x: x.any(0, None, None, True),
        lambda x: x.compress([1, 0, 1], 0, None),
    ):
        np.testing.assert_allclose(jit(function)(x), function(x), strict=True)
    for function in (lambda x: x.argmax(0, None, True), lambda x: x.cumsum(0, None, None, None)):
        with pytest.raises(TypeError, match="at most"):
            jit(function)(x)


def test_the_polynomial_with_roots_in_float16():
    roots = np.array([1, 2, 3], np.float16)
    np.testing.assert_allclose(jit(np.poly)(roots), np.poly(roots), strict=True)


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind"])
def test_what_a_stricter_casting_refuses(casting):
    for d in ("i4", "f4", "f8"):
        x, y = np.ones(3, d), np.full(3, 2.0)

        def function(x, y=y):
            return np.multiply(x, y, casting=casting), np.sin(x, casting=casting)

        try:
            expected = function(x)
        except TypeError as error:
            with pytest.raises(type(error), match="Cannot cast ufunc"):
                jit(function)(x)
            continue
        for ours, theirs in zip(jit(function)(x), expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_an_unsafe_casting_stores_what_a_narrower_dtype_holds():
    def function(k, x):
        y, whole = k.copy(), np.zeros(3, np.int32)
        np.multiply(y, x, out=y, casting="unsafe")
        np.modf(x, None, whole, casting="unsafe")
        np.add(whole, x, out=whole, where=x > 1, casting="unsafe")
        return y, whole, np.add(k, x, dtype=np.int16, casting="unsafe")

    k, x = np.array([1, 2, -5]), np.array([0.5, 1.7, 2.9])
    for found, expected in zip(jit(function)(k, x), function(k, x), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_copies_in_numpys_older_words():
    """Array API wrappers in packages write them."""
    for copy in np._CopyMode:
        if copy is not np._CopyMode.NEVER:
            assert jit(lambda x, copy=copy: np.array(x, copy=copy)[1])(X) == X[1]

    def same(x):
        return np.array(x, copy=np._CopyMode.IF_NEEDED) is x

    assert jit(lambda x: (same(x), x))(X)[0]


X = np.array([1.0, 2.0])


def test_what_may_share_memory():
    found = []

    def function(x):
        y = x.copy()
        for a, b in ((x, x), (y, y[1:]), (y[:1].reshape(1, 1), y), (x, y), (y, 2 * y), (y, X)):
            found.append(np.may_share_memory(a, b))
        return y

    function(X)
    jit(function)(X)
    assert found[:6] == found[6:] == [True, True, True, False, False, False]
