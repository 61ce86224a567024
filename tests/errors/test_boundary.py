"""Input from other libraries: their dtypes and arrays, and NumPy's own errors."""

import functools
import math
import operator
import sysconfig
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.special

from functrans import grad, hessian, jit, jvp, value_and_grad, vmap
from functrans.errors import DtypeError, TracerConversionError, UnsupportedNumPyError
from functrans.trace import alternatives, protocols
from tests.errors.words import X, located, message_of


def identity(x):
    return x


BOUNDARIES = {
    "grad": grad(identity),
    "value_and_grad": value_and_grad(identity),
    "vmap": vmap(identity),
    "jit": jit(identity),
    "jvp": lambda x: jvp(identity, (x,), (x,)),
    "hessian": hessian(identity),
}
STATIC = "; to pass it as it is, write jit(f, static_argnums=...) or static_argnames"
REFUSED = [
    (np.ones(2, np.longdouble),
     "ndarray float128[2], whose dtype is not supported: use np.float64"),
    (np.array(["2020"], "M8[D]"),
     "ndarray datetime64[D][1], whose dtype is not supported: count the time in numbers"),
    (np.array(["a"]),
     "ndarray <U1[1], whose dtype is not supported: turn it into numbers outside of the traced "
     "function"),
    (np.array([{}]),
     "ndarray object[1], whose dtype is not supported: turn it into numbers outside of the traced "
     "function"),
]  # fmt: skip


@pytest.mark.parametrize("name", BOUNDARIES)
@pytest.mark.parametrize(("value", "words"), REFUSED, ids=lambda x: getattr(x, "dtype", ""))
def test_a_dtype_is_refused_in_the_same_words_by_all(name, value, words):
    said = message_of(DtypeError, lambda: BOUNDARIES[name](value))
    words = words.replace("float128", str(np.dtype(np.longdouble)))
    assert said == f"argument 0 ('x') of identity is {words}" + (STATIC if name == "jit" else "")


def test_an_integer_that_no_dtype_holds():
    compiled = jit(lambda x, n: x + n)
    words = f"argument 1 ('n') of <lambda> is {2**70}, which no int64 holds: pass 1.18059e+21"
    assert message_of(OverflowError, lambda: compiled(1, 2**70)) == words
    assert compiled(1, 2) == 3
    assert message_of(OverflowError, lambda: compiled(1, 2**70)) == words  # compiled for integers


# -- arrays of other libraries ---------------------------------------------------------------------


def of_library(package, name, **attributes):
    return type(name, (), {"__module__": f"{package}.core", **attributes})()


class Buffer:
    """As an array of another library, of changing length."""

    def __init__(self, count):
        self.array = np.arange(float(count))

    def __array__(self, dtype=None, copy=None):
        return self.array


class ByDlpack:
    def __dlpack__(self, **options):
        return X.__dlpack__(**options)

    def __dlpack_device__(self):
        return X.__dlpack_device__()


def test_arrays_without_labels_are_taken():
    compiled = jit(lambda p: p["x"].sum() + p["y"])
    for count in (3, 4, 3):
        assert compiled({"x": Buffer(count), "y": 1.0}) == np.arange(count).sum() + 1
    np.testing.assert_array_equal(grad(lambda x: np.sum(x**2))(Buffer(3)), [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(vmap(lambda x: 2 * x)(ByDlpack()), 2 * X)


@pytest.mark.parametrize("name", BOUNDARIES)
def test_labels_would_be_lost(name):
    series = of_library("pandas", "Series", __array__=lambda self, *_: X)
    said = message_of(DtypeError, lambda: BOUNDARIES[name](series))
    assert said.startswith(
        "argument 0 ('x') of identity is a pandas Series, whose labels would be lost: pass "
        "x.to_numpy()"
    )


class Settings(dict):
    def __array__(self, dtype=None, copy=None):
        return np.array(list(self.values()))


def test_a_container_that_makes_an_array_of_itself_is_no_vector():
    class Numbers(list):
        __array__ = Settings.__array__

    words = "pass {}(x), or make its class a container of arrays by functrans.tree.register"
    for name, transform in BOUNDARIES.items():
        for given, kind in ((Settings(a=1.0), "dict"), (Numbers([1.0]), "list")):
            said = message_of(DtypeError, lambda f=transform, x=given: f(x))
            assert f"of type {type(given).__name__}, not a number or an array: " in said, name
            assert words.format(kind) in said, name
    assert grad(lambda p: p["a"] ** 2)(dict(Settings(a=3.0))) == {"a": 6.0}


NUMBERS = "\nTake the numbers in it: np.asarray(series) * x, np.asarray(frame) @ x."


@pytest.mark.parametrize("transform", [grad, jit, lambda f: jit(grad(f))])
@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_labelled_array_beside_a_traced_value(package, transform):
    series = of_library(package, "Series", __array__=lambda self, *_: X)
    for f in (
        lambda x: x * series, lambda x: series * x, lambda x: x @ series, lambda x: series < x,
        lambda x: np.multiply(x, series),
    ):  # fmt: skip
        said = message_of(TracerConversionError, lambda f=f: transform(f)(X))
        assert said.startswith(f"a {package} Series meets a traced value at test_boundary.py:")
        assert said.endswith("`: its labels would be lost." + NUMBERS)


@pytest.mark.parametrize("transform", [grad, jit])
def test_columns_and_tables_of_pandas_beside_a_traced_value(transform):
    pandas = pytest.importorskip("pandas")
    series, frame = pandas.Series(X), pandas.DataFrame({"a": X, "b": 2 * X})
    for f in (
        lambda x: series * x, lambda x: x * series, lambda x: series - x[0], lambda x: x @ frame,
        lambda x: frame.T @ x, lambda x: frame.T.dot(x), lambda x: pandas.Index(X) + x,
        lambda x: series <= x, lambda x: np.multiply(series, x), lambda x: series @ x,
    ):  # fmt: skip
        said = message_of(TracerConversionError, lambda f=f: transform(lambda x: np.sum(f(x)))(X))
        assert NUMBERS.strip() in said
    found = transform(lambda x: np.sum(np.asarray(frame).T @ x))(X)
    np.testing.assert_allclose(found, 3 * X if transform is grad else 3 * X @ X)


@pytest.mark.parametrize("compiled", [lambda f: f, jit])
def test_arrays_of_xarray_hold_traced_values(compiled):
    xarray = pytest.importorskip("xarray")
    labelled = xarray.DataArray(X)
    for f in (lambda x: (labelled * x).sum().data, lambda x: (x * labelled).sum().data):
        np.testing.assert_array_equal(compiled(grad(f))(X), X)


def test_derivatives_would_be_lost():
    tensor = of_library("torch", "Tensor", __array__=lambda self: X, requires_grad=True)
    assert message_of(DtypeError, lambda: grad(np.sum)(tensor)).endswith(
        "is a torch Tensor with requires_grad, whose derivatives would be lost: pass "
        "x.detach().numpy()"
    )


def test_what_numpy_cannot_read():
    def fail(self, *args):
        raise RuntimeError("it lies on a GPU")

    tensor = of_library("torch", "Tensor", __array__=fail)
    assert message_of(DtypeError, lambda: grad(np.sum)(tensor)).endswith(
        "is a torch Tensor, which NumPy cannot read (it lies on a GPU): pass an array"
    )


# -- errors of NumPy's, with the argument and the line ---------------------------------------------


def of_an_axis(a):
    return a.sum(axis=2)  # here


def of_an_axis_by_numpy(a):
    return np.sum(a, axis=2)  # here


def of_a_name(a):
    return a["a"]  # here


def of_a_large_number(a):
    return a + 300  # here


def of_a_negative_power(a):
    return a**-1  # here


def of_a_power(a, n):
    return a**n


def of_shapes(a):
    return np.matmul(a, np.ones((2, 2)))  # here


ARGUMENT = "argument 0 ('a') of {}"
NOTES = [
    (of_an_axis, X, "in np.sum of f64[3] ({name}){here}"),
    (of_an_axis_by_numpy, X, "in np.sum of f64[3] ({name}){here}"),
    (of_a_name, X, "in x['a'] of f64[3] ({name}){here}"),
    (of_a_large_number, X.astype(np.uint8), "in add of u8[3] ({name}), 300{here}"),
    (of_a_negative_power, X.astype(int), "in pow of i64[3] ({name}), -1{here}"),
]


@pytest.mark.parametrize(
    ("function", "value", "note"), NOTES, ids=lambda x: getattr(x, "__name__", "")
)
def test_numpys_errors_say_of_what_and_where(function, value, note):
    with pytest.raises(Exception) as plain:
        function(value)
    with pytest.raises(type(plain.value)) as caught:
        jit(function)(value)
    name = ARGUMENT.format(function.__name__)
    assert caught.value.__notes__ == [located(note, function).replace("{name}", name)]


def test_a_place_is_said_once():
    with pytest.raises(ValueError) as caught:
        grad(of_shapes)(X)
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert text.count("test_boundary.py") == 1


def test_the_place_of_a_power_whose_operands_are_known_later():
    with pytest.raises(ValueError, match="negative integer powers") as caught:
        jit(of_a_power)(X.astype(int), -1)
    (note,) = caught.value.__notes__
    assert note.startswith("  in power_of_integers, written at test_boundary.py:")
    assert note.endswith("(of_a_power)")


@pytest.mark.parametrize("index", [7, np.array([0, 9]), np.array([[-4]])])
def test_an_index_of_compiled_code(index):
    @jit
    def pick(x, i):
        y = 2 * x
        return y[i]  # here

    wrong = np.ravel(index)[-1]
    for function in (
        pick,
        jit(lambda x, i: pick(x, i) + 1),
        lambda x, i: vmap(pick, (None, None), axis_size=2)(x, i),
    ):
        with pytest.raises(IndexError) as caught:
            function(X, index)
        assert str(caught.value) == f"index {wrong} is out of bounds for axis 0 with size 3"
        assert any("test_boundary.py" in note and "pick" in note for note in caught.value.__notes__)


def test_a_singular_matrix_of_compiled_code():
    @jit
    def solve(a):
        return np.linalg.solve(a, X)

    with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
        solve(np.ones((3, 3)))
    assert "test_boundary.py" in caught.value.__notes__[0]


# -- hashes, factorials, formats -------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [lambda x: {x: 1}, lambda x: {x}, functools.lru_cache(lambda x: x), hash],
    ids=["dict", "set", "lru_cache", "hash"],
)
@pytest.mark.parametrize("transform", [grad, jit, vmap])
def test_a_tracer_cannot_be_hashed(use, transform):
    value = np.ones(1) if transform is vmap else 1.0
    said = message_of(TracerConversionError, lambda: transform(lambda x: (use(x), x)[1])(value))
    assert " cannot be hashed at test_boundary.py" in said
    assert (
        "it cannot be a key of a dict, an element of a set or an argument of functools.cache"
        in said
    )


def test_a_factorial():
    with pytest.raises(
        TypeError, match=r"math.factorial, and a value .* is a float: .*gamma\(x \+ 1\)"
    ):
        grad(lambda x: x * math.factorial(x))(3.0)


def test_formats():
    shown = []

    def function(x):
        shown.append("%.2f" % x)  # noqa: UP031
        shown.append(f"{x:.2f}")
        line = "%s|%d"
        line %= (x, x)
        shown.append(line.split("|")[1])
        return x * 2.0

    assert grad(function)(1.25) == 2.0
    assert shown == ["1.25", "1.25", "1"]
    with pytest.raises(TracerConversionError, match="has no value to be formatted at"):
        jit(lambda x: "%.1f" % x)(1.0)  # noqa: UP031
    with pytest.raises(TracerConversionError, match=r"cannot become a plain float"):
        grad(lambda x: float(x))(1.0)
    with pytest.raises(TracerConversionError, match=r"cannot become a plain float"):
        grad(lambda x: 5 % float(x))(1.0)


# -- what to write instead -------------------------------------------------------------------------


def test_alternatives_are_of_what_is_not_supported():
    functions = {f.__name__ for f in protocols.functions}
    functions |= {n for n in protocols.ufuncs if isinstance(getattr(np, n, None), np.ufunc)}
    for name in alternatives._INSTEAD:
        assert any(hasattr(owner, name) for owner in (np, np.ndarray, scipy.special)), name
        assert name not in functions or hasattr(np.ndarray, name), name
        assert name not in protocols.methods, name


def test_nothing_is_said_where_nothing_does_the_same():
    assert alternatives.instead_of("svd") == alternatives.instead_of("betaln") == ""


# -- whose line it is ------------------------------------------------------------------------------


def test_a_message_points_at_the_users_line_and_not_into_an_installed_package():
    path = sysconfig.get_path("purelib") + "/somebodys/package.py"
    source = "import numpy as np\ndef save(x):\n    np.save('f', x)\n    return x"
    package = types.ModuleType("somebodys")
    exec(compile(source, path, "exec"), vars(package))

    def uses(x):
        return package.save(x)  # here

    said = message_of(UnsupportedNumPyError, lambda: grad(uses)(1.0))
    assert said.startswith(located("np.save is not supported on traced values{here}", uses))


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.matmul, operator.eq, operator.ne, operator.lt, operator.le, operator.gt,
    operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("transform", [grad, jit])
@pytest.mark.parametrize("operate", OPERATORS)
def test_polars_on_either_side_of_a_traced_value(operate, transform):
    polars = pytest.importorskip("polars")
    for kind, labelled in (
        ("Series", polars.Series(X)), ("DataFrame", polars.DataFrame({"a": X})),
        ("Expr", polars.lit(2.0)),
    ):  # fmt: skip
        if not hasattr(labelled, f"__{operate.__name__}__"):
            continue
        for f in (lambda x, y=labelled: operate(y, x), lambda x, y=labelled: operate(x, y)):
            said = message_of(TracerConversionError, lambda f=f: transform(f)(X))
            assert said.startswith(f"a polars {kind} meets a traced value at test_boundary.py:")
            assert NUMBERS in said
    series = polars.Series(X)
    assert (series * X).to_list() == (X * X).tolist()
    np.testing.assert_allclose(jit(lambda x: np.asarray(series) * x)(X), X * X)


@pytest.mark.parametrize("operate", OPERATORS)
def test_arrays_of_dask_beside_a_traced_value(operate):
    dask = pytest.importorskip("dask.array").from_array(X)
    for f in (lambda x: operate(dask, x), lambda x: operate(x, dask)):
        said = message_of(TracerConversionError, lambda f=f: jit(f)(X))
        assert said.startswith("a dask Array meets a traced value at test_boundary.py:")
        assert said.endswith("`: it is computed later, when that value is gone." + NUMBERS)


class LeftToNumPy:
    def __array__(self, dtype=None, copy=None):
        return X


@pytest.mark.parametrize("operate", OPERATORS)
@pytest.mark.parametrize("compiled", [jit, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
def test_what_is_left_to_numpy_is_taken_as_an_array(operate, compiled):
    for given in (LeftToNumPy(), memoryview(X)):
        for f in (lambda x, y=given: operate(y, x), lambda x, y=given: operate(x, y)):
            found = compiled(f)(X)
            numpys = f(X) if not isinstance(given, memoryview) else operate(X, X)
            np.testing.assert_array_equal(found, numpys)


def test_what_has_operators_of_its_own_keeps_them():
    class Doubling:
        __array__, __array_priority__ = LeftToNumPy.__array__, 1.0

        def __rmul__(self, other):
            return 2 * other

    class Prior(Doubling):
        __array_ufunc__ = None
        __array_priority__ = 0

    for given in (Doubling(), Prior()):
        np.testing.assert_array_equal(jit(lambda x, y=given: x * y)(X), 2 * X)
        np.testing.assert_array_equal(X * given, 2 * X)


def test_what_has_ufuncs_of_its_own_keeps_them():
    class Scaled(np.lib.mixins.NDArrayOperatorsMixin):
        def __init__(self, value):
            self.value = value

        def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
            values = [x.value if isinstance(x, Scaled) else x for x in inputs]
            return Scaled(getattr(ufunc, method)(*values, **keywords) * 10)

    for operate in (operator.mul, operator.matmul, operator.pow, np.hypot):
        for given in (Scaled(X), Scaled(2.0)):
            if operate is not operator.matmul or given.value is X:
                f = lambda x, y=given, o=operate: o(x, y).value  # noqa: E731
                np.testing.assert_allclose(jit(f)(X), f(X))
    with pytest.raises(DtypeError, match="expected an array or a number"):
        jit(lambda x: np.hypot(x, object()))(X)


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal(2)])
def test_exact_numbers_beside_a_traced_value(number):
    """`==` was False, where NumPy compares."""
    kind = type(number).__name__
    for operate in OPERATORS:
        if operate is operator.pow:  # which fractions see to
            continue
        for f in (lambda x, o=operate: o(number, x), lambda x, o=operate: o(x, number)):
            said = message_of(DtypeError, lambda f=f: jit(f)(X))
            assert said.startswith(f"a {kind} meets a traced value at test_boundary.py:")
            assert said.endswith("\nWrite float(number).")

    def assigned(x):
        y = 1.0 * x
        y[0] = number
        return y

    np.testing.assert_array_equal(jit(assigned)(X), assigned(X))


def test_a_class_that_raises_for_names_that_it_has_not():
    class Raising:
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            raise KeyError(name)

    class Number:
        def __getattr__(self, name):
            raise KeyError(name)

        def __float__(self):
            return 2.0

    for f in (lambda x: np.array([x[0], Raising()]), lambda x: np.sum([x[0], Raising()])):
        said = message_of(DtypeError, lambda f=f: jit(f)(X))
        assert "expected an array of bool, integer, float or complex dtype" in said

    def assigned(x):
        y = 1.0 * x
        y[0] = Number()
        return y

    np.testing.assert_array_equal(jit(assigned)(X), assigned(X))
