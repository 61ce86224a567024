"""Tracers: Python's operators and conversions, NumPy's protocols."""

import functools
import numbers
import operator
import pickle

import numpy as np
import pytest

from functrans import grad, jit
from functrans.errors import (
    LeakedTracerError,
    TracerBoolError,
    TracerConversionError,
    TracerIndexError,
    UnsupportedAttributeError,
    UnsupportedNumPyError,
)
from functrans.ir.evaluate import evaluate
from functrans.ir.types import Aval
from functrans.trace import protocols
from functrans.trace.operators import is_operand
from functrans.trace.stage import stage

X, Y = np.array([1.5, -2.0, 3.0]), np.array([2.0, 4.0, 0.5])
N, M = np.array([5, 2, 7]), np.array([2, 1, 3])


def traced(function, *values, known=False):
    """What a function gives by its graph; None if it returns nothing."""
    made = stage(
        lambda *xs: [] if (out := function(*xs)) is None else [out],
        [Aval(x.shape, x.dtype) for x in values],
        kind="grad" if known else "jit",
        values=values if known else None,
    )
    results = evaluate(made.graph, [*values, *made.captures])
    return results[0] if results else None


def test_a_tracer_shows_what_an_array_shows():
    seen = []
    traced(lambda x: seen.append({name for name in dir(x) if not name.startswith("_")}), X)
    assert {"T", "at", "dtype", "mean", "reshape", "shape", "sum"} <= seen[0]
    assert seen[0] - {*dir(np.ndarray), *dir(np.float64)} == {"at"}


def test_other_libraries_do_not_take_a_tracer_for_their_own():
    def probe(x):
        for name in ("variable", "aval", "value", "owner", "version", "argument", "values"):
            assert not hasattr(x, name), name

    traced(probe, X)


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
OF_INTEGERS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", BINARY)
def test_operators(op):
    x = abs(X)
    np.testing.assert_allclose(traced(op, x, Y), op(x, Y), rtol=1e-15)
    np.testing.assert_allclose(traced(lambda y: op(x, y), Y), op(x, Y), rtol=1e-15)
    np.testing.assert_allclose(traced(lambda y: op(2.0, y), Y), op(2.0, Y), rtol=1e-15)
    np.testing.assert_allclose(traced(lambda y: op(y, [1, 2, 3]), Y), op(Y, [1, 2, 3]), rtol=1e-15)


@pytest.mark.parametrize("op", OF_INTEGERS)
def test_operators_of_integers(op):
    np.testing.assert_array_equal(traced(op, N, M), op(N, M))
    np.testing.assert_array_equal(traced(lambda m: op(N, m), M), op(N, M))
    np.testing.assert_array_equal(traced(operator.invert, N), ~N)


@pytest.mark.parametrize("op", [operator.neg, operator.pos, abs])
def test_operators_of_one(op):
    np.testing.assert_array_equal(traced(op, X), op(X))


def test_operators_in_place():
    def function(x):
        y = x * 1
        z = y
        y += 1
        y *= 2
        return z

    np.testing.assert_array_equal(traced(function, X), (X + 1) * 2)


def test_products_and_quotients_with_rest():
    a = np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(traced(lambda x: a @ x, X), a @ X)
    np.testing.assert_allclose(traced(lambda x: x @ a, X), X @ a)
    np.testing.assert_array_equal(traced(lambda n: divmod(n, 2)[0], N), N // 2)


@pytest.mark.parametrize(
    ("convert", "error"),
    [
        (bool, TracerBoolError),
        (operator.index, TracerIndexError),
        (int, TracerIndexError),
        (float, TracerConversionError),
        (complex, TracerConversionError),
        (np.asarray, TracerConversionError),
        (lambda x: x.tolist(), TracerConversionError),
        (pickle.dumps, TracerConversionError),
    ],
)
def test_conversions_of_what_stands_for_many_values(convert, error):
    with pytest.raises(error):
        traced(lambda x: convert(x) and None, np.float64(2.0))


def test_the_method_that_converts_to_an_array():
    def function(x):
        return np.sum(x.__array__() ** 2) * x[0].__array__()

    np.testing.assert_array_equal(grad(function)(X), jit(grad(function))(X))
    np.testing.assert_allclose(grad(function)(X), 2 * X * X[0] + (X @ X) * np.eye(len(X))[0])
    asarray = np.asarray  # NumPy's own, which calls the method
    for lost in (lambda x: np.sum(asarray(x)), lambda x: np.sum(asarray(x.__array__()))):
        with pytest.raises(TracerConversionError, match="derivative would be lost"):
            grad(lost)(X)


@pytest.mark.filterwarnings("ignore::functrans.errors.SwallowedErrorWarning")
def test_conversions_of_what_has_a_value():
    def function(x):
        assert x > 1 and bool(x)
        assert int(x) == 2 and f"{x:.1f}" == "2.5"
        assert "value=" in repr(x)
        with pytest.raises(TracerConversionError, match="derivative would be lost"):
            float(x)
        # what has no derivative can be taken out
        assert float(np.floor(x)) == 2.0 and np.floor(x).item() == 2.0
        assert [10, 20, 30][(x > 1).astype(int)] == 20

    traced(function, np.float64(2.5), known=True)


@pytest.mark.filterwarnings("ignore::functrans.errors.SwallowedErrorWarning")
def test_a_tracer_is_like_an_array():
    def function(x):
        assert (x.shape, x.dtype, x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == (
            (3,), np.dtype(float), 1, 3, 8, 24, 3,
        )  # fmt: skip
        assert len(list(x)) == 3 and "traced by jit" in repr(x)
        with pytest.raises(TypeError):
            hash(x)
        with pytest.raises(TypeError, match=r"unsized object at .*\n*.*np\.ndim\(x\) is 0"):
            len(x[0])
        with pytest.raises(TypeError, match="0-d"):
            iter(x[0])

    traced(function, X)


def test_ufuncs_and_their_keywords():
    np.testing.assert_array_equal(traced(np.sin, X), np.sin(X))
    np.testing.assert_array_equal(traced(lambda x: np.add(x, 1, dtype="f4"), X).dtype, "f4")
    np.testing.assert_array_equal(traced(np.add.reduce, X), X.sum())

    def out(x):
        y = x * 1
        np.multiply(x, 2, out=y, where=x > 0)
        return y

    np.testing.assert_array_equal(traced(out, X), np.where(X > 0, 2 * X, X))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (np.isnat, UnsupportedNumPyError, r"np\.isnat is not supported"),
        (np.busday_count, UnsupportedNumPyError, "not supported"),
        (lambda x: np.add(x, 1, sig="dd->d"), UnsupportedNumPyError, "leave the keyword out"),
        (lambda x: x.ctypes, UnsupportedAttributeError, r"ndarray\.ctypes"),
        (lambda x: x.cumsums(), AttributeError, "did you mean cumsum"),
        (lambda x: np.add(x, 1, dtype=int), TypeError, "NumPy does not cast"),
    ],
)
def test_what_is_refused_by_name(call, error, words):
    args = (X, X) if call is np.busday_count else (X,)
    with pytest.raises(error, match=words):
        traced(call, *args)


def test_an_operation_answers_for_a_function_of_numpys(monkeypatch):
    def unheard_of(x):
        return x

    monkeypatch.setattr(protocols, "functions", {})
    protocols.implements(unheard_of)(lambda x: x * 3)
    np.testing.assert_array_equal(
        traced(lambda x: x.__array_function__(unheard_of, (), (x,), {}), X), X * 3
    )


@pytest.mark.parametrize(
    ("x", "answer"),
    [(1, True), (True, True), (1.5, True), (np.float32(1), True), (X, True), (1j, True),
     (np.array(["a"]), False), ([1.0], False), (None, False)],
)  # fmt: skip
def test_what_can_stand_beside_a_tracer(x, answer):
    assert is_operand(x) is answer


def test_a_tracer_of_a_function_that_has_returned():
    kept = []
    traced(lambda x: kept.append(x), X)
    with pytest.raises(LeakedTracerError, match="it is argument 0"):
        traced(lambda x: x + kept[0], X)
    with pytest.raises(LeakedTracerError):
        np.sin(kept[0])


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x @ X, lambda x: X @ x, lambda x: x.reshape(-1, 1), bool, np.sort, np.cumsum,
        np.linalg.norm, lambda x: np.concatenate([x, x]), lambda x: np.where(True, x, 0.0),
        lambda x: np.linalg.inv(np.outer(x, x)), lambda x: np.einsum("i,i", x, X),
    ],
)  # fmt: skip
def test_it_is_not_computed_with_outside_of_any_trace(use):
    kept = []
    jit(lambda x: kept.append(x * 2.0) or x)(X)
    with pytest.raises(LeakedTracerError, match="it was made"):
        use(kept[0])


def _kinds(x):
    """The classes of a value, as a user's function sees them."""
    found = [x.__class__, isinstance(x, np.ndarray), isinstance(x, numbers.Number)]
    match x:
        case np.ndarray():
            found.append("array")
        case float() | int():
            found.append("number")
    return [*found, _dispatched(x)]


@functools.singledispatch
def _dispatched(x):
    return "other"


@_dispatched.register
def _(x: float):
    return "float"


@_dispatched.register
def _(x: np.ndarray):
    return "array"


@pytest.mark.parametrize("transform", [jit, grad])
@pytest.mark.parametrize(
    "x", [2.0, np.float64(2.0), np.float32(2.0), np.ones(3), np.ones((2, 0), np.float32)],
)  # fmt: skip
def test_a_users_function_sees_the_class_of_the_value(transform, x):
    seen = []

    def f(x):
        seen.append(_kinds(x))
        return np.sum(x)

    transform(f)(x)
    assert seen[-1] == _kinds(x)


def test_elements_have_the_class_of_a_numpy_scalar():
    seen = []

    def f(x, n):
        seen.append(([_kinds(x[0]), _kinds(n)], [isinstance(x, list), isinstance(x, str)]))
        return x[0] * n

    grad(f)(np.ones(2), 3)
    assert seen == [([_kinds(np.float64(1.0)), _kinds(3)], [False, False])]


def test_a_captured_array_that_becomes_an_input_stays_an_array():
    weights = np.ones(1000)
    f = jit(lambda x: np.sum(weights) * x if isinstance(weights, np.ndarray) else x)
    assert f(2.0) == 2000.0


def test_flags_are_those_of_a_copy():
    def f(x):
        flags = x.T.flags
        return x * (flags.c_contiguous and flags.owndata and flags.writeable)

    for transform in (jit, lambda f: lambda x: grad(lambda x: np.sum(f(x)))(x)):
        np.testing.assert_array_equal(transform(f)(np.ones((2, 3))), np.ones((2, 3)))
    for shape in ((), (7,), (1, 7), (7, 1), (7, 9), (7, 0)):
        seen = jit(lambda x: x * x.flags.c_contiguous + 2 * x.flags.f_contiguous)(np.ones(shape))
        copy = np.ones(shape).flags
        np.testing.assert_array_equal(
            seen, np.full(shape, copy.c_contiguous + 2 * copy.f_contiguous)
        )
