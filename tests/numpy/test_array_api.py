"""The array API standard, 2024.12: names, signatures, dtypes, values and special cases, as NumPy.

The functions and their calls are in standard.py. Each is tried on plain arrays, on tracers with and
without values, batched and compiled.
"""

import inspect
import sys
import types
import warnings

import numpy as np
import pytest

import functrans as ft
import functrans.numpy as fnp
from functrans import grad, jit, vmap
from functrans.errors import TracerBoolError, TracerConversionError, TracerIndexError
from functrans.lazily import lazy
from functrans.trace import protocols
from tests.numpy import standard
from tests.numpy.attempts import attempt, difference, leaves, traced

FUNCTIONS = [*standard.FUNCTIONS, *standard.LINALG, *standard.FFT]
FLOATS = [-np.inf, -3.0, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.5, 3.0, np.inf, np.nan]
X = np.array([0.5, -1.5, 2.0])


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def found_in(namespace, name):
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


# -- names and signatures --------------------------------------------------------------------------


def test_every_name_is_there():
    missing = [n for n in standard.NAMES if not hasattr(fnp, n)]
    for function in FUNCTIONS:
        found_in(fnp, function.name)
    assert not missing
    assert fnp.__array_api_version__ == "2024.12"


def written(function):
    """The standard's signature, as an object."""
    _, _, parameters = function.signature.partition("(")
    scope = {}
    exec(f"def f({parameters}:\n    pass", scope)
    return inspect.signature(scope["f"])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_parameters_are_taken_by_the_standards_names(function):
    found = found_in(fnp, function.name)
    if isinstance(found, np.ufunc):
        return  # it has no signature, and no parameter of it has a name
    positional, keywords = [], {}
    for parameter in written(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            positional.append(X)
        else:
            keywords[parameter.name] = X
    inspect.signature(found).bind(*positional, **keywords)


METHODS = {
    "__array_namespace__": "(*, api_version=None)",
    "__dlpack__": "(*, stream=None, max_version=None, dl_device=None, copy=None)",
    "__dlpack_device__": "()",
    "to_device": "(device, /, *, stream=None)",
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_arrays_take_the_standards_parameters(name):
    """Their kinds and names; what is optional in the standard is optional here."""
    expected = written(standard.row(f"{name}{METHODS[name]}", "", "")).parameters
    found = seen(lambda a: inspect.signature(getattr(a, name)), X).parameters
    assert list(found) == list(expected)
    for parameter in expected.values():
        own = found[parameter.name]
        assert own.default == parameter.default
        assert own.kind in (parameter.kind, own.POSITIONAL_OR_KEYWORD)


# -- values ----------------------------------------------------------------------------------------


def calls(dtype):
    """All calls of a dtype: how it is written here, for NumPy, and the operands."""
    kind = np.dtype(dtype).kind
    for function in FUNCTIONS:
        if kind not in function.kinds:
            continue
        for shape in standard.SHAPES[function.shapes]:
            operands = standard.operands(dtype, shape)
            for call in function.calls:
                ours, numpys = call if isinstance(call, tuple) else (call, call)
                yield ours, numpys, operands


COMPILED = {text: standard.function_of(text) for f in FUNCTIONS for c in f.calls
            for text in (c if isinstance(c, tuple) else (c,))}  # fmt: skip
ALL_DTYPES = [name for names in standard.DTYPES.values() for name in names]
QUICK = {"bool", "int8", "int64", "uint8", "float32", "float64", "complex128"}


def some_slow(quick):
    return [pytest.param(d, marks=() if d in quick else pytest.mark.slow) for d in ALL_DTYPES]


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", some_slow(QUICK))
def test_values_and_dtypes(dtype):
    wrong = []
    for ours, numpys, operands in calls(dtype):
        expected = attempt(COMPILED[numpys], np, *operands)
        if isinstance(expected, Exception):
            continue

        def here(*arrays, ours=ours):
            return COMPILED[ours](fnp, *arrays)

        for how, found in (
            ("plain", attempt(here, *operands)),
            ("with values", attempt(traced, here, operands, True)),
            ("without values", attempt(traced, here, operands, False)),
        ):
            problem = difference(found, expected)
            if problem:
                wrong.append(f"{ours}, {dtype}{operands[0].shape}, {how}: {problem}")
    assert not wrong, "\n".join(wrong)


ARRAYS = (np.ndarray, np.generic)


@pytest.mark.full
@pytest.mark.parametrize("dtype", some_slow({"bool", "int64", "float64", "complex128"}))
def test_batched_and_compiled(dtype):
    """All calls of a shape as one program, since compiling takes longest."""
    by_shape = {}
    for ours, numpys, operands in calls(dtype):
        expected = attempt(COMPILED[numpys], np, *operands)
        if not isinstance(expected, Exception) and all(isinstance(r, ARRAYS) for r in expected):
            by_shape.setdefault(operands[0].shape, []).append((ours, operands, expected))
    wrong = []
    for group in by_shape.values():
        operands = group[0][1]

        def program(*arrays, group=group):
            return [leaves(COMPILED[ours](fnp, *arrays)) for ours, _, _ in group]

        compiled = jit(program)(*operands)
        batched = vmap(program)(*(np.stack([x, x]) for x in operands))
        for (ours, _, expected), one, both in zip(group, compiled, batched, strict=True):
            for how, found in (("compiled", one), ("batched", [x[1] for x in both])):
                problem = difference(found, expected)
                if problem:
                    wrong.append(f"{ours}, {dtype}{operands[0].shape}, {how}: {problem}")
    assert not wrong, "\n".join(wrong)


# The sign of a zero, or which NaN, that NumPy gives otherwise for one number and for many.
ANY_ZERO = {"maximum", "minimum", "clip"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_cases(dtype):
    """Infinities, NaN and both zeros, in all pairs, by every elementwise function."""
    names = [f.name for f in standard.ELEMENTWISE if "f" in f.kinds]
    pairs = {f.name for f in standard.ELEMENTWISE if "x2" in f.signature}
    grid = np.meshgrid(np.array(FLOATS, dtype), np.array(FLOATS, dtype))
    x, y = (part.ravel() for part in grid)

    def program(x, y):
        return [getattr(fnp, n)(x, y) if n in pairs else getattr(fnp, n)(x) for n in names]

    expected = program(x, y)
    wrong = []
    for how, results in (
        ("with values", traced(program, (x, y), True)),
        ("compiled", jit(program)(x, y)),
        ("batched", vmap(program)(x, y)),
    ):
        for name, found, value in zip(names, results, expected, strict=True):
            problem = difference([found], [value], signs=name not in ANY_ZERO)
            if problem:
                wrong.append(f"{name}, {how}: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("cross", [(2,), (2,)]),
        ("cross", [(2,), (3,)]),
        ("outer", [(2, 2), (2,)]),
        ("outer", [(), (2,)]),
    ],
)
def test_shapes_that_the_namespaces_own_functions_would_take(name, shapes):
    """np.cross and np.outer take more than the standard's, on plain arrays and on traced ones."""
    x, y = map(np.ones, shapes)
    function = getattr(fnp.linalg, name)
    for call in (function, jit(function), lambda x, y: grad(lambda x: function(x, y).sum())(x)):
        with pytest.raises(ValueError, match="dimension"):
            call(x, y)


# -- arrays ----------------------------------------------------------------------------------------


def seen(function, *operands):
    """What a function of tracers with values returns."""
    results = []
    grad(lambda *xs: results.append(function(*xs)) or np.sum(xs[0]))(*operands)
    return results[0]


def test_attributes_and_methods_of_arrays():
    m = np.arange(6.0).reshape(2, 3)
    assert seen(lambda a: (a.device, a.shape, a.size, a.ndim, a.dtype), m) == (
        "cpu", (2, 3), 6, 2, np.dtype(float),
    )  # fmt: skip
    assert seen(lambda a: (a.T.shape, a.mT.shape, a.to_device("cpu") is a), m) == (
        (3, 2), (3, 2), True,
    )  # fmt: skip
    assert seen(lambda a: a.__dlpack_device__(), m) == m.__dlpack_device__()
    with pytest.raises(ValueError, match=r"x\.to_device\('gpu'\) at .*: arrays are on 'cpu'"):
        grad(lambda a: a.to_device("gpu"))(1.0)
    with pytest.raises(TracerConversionError, match="cannot be handed to another library"):
        grad(lambda a: np.from_dlpack(a))(1.0)


def test_namespace_of_arrays():
    for version in (None, "2021.12", "2024.12"):
        assert seen(lambda a, v=version: a.__array_namespace__(api_version=v), 1.0) is fnp
    with pytest.raises(ValueError, match="version '1999' of the array API standard is not"):
        grad(lambda a: a.__array_namespace__(api_version="1999"))(1.0)


def test_conversions_where_values_are_known():
    integer = stop = ft.stop_gradient
    assert seen(lambda a: bool(a > 1), 2.0) is True
    assert seen(lambda a: int(integer(a).astype(int)), 2.0) == 2
    assert seen(lambda a: range(5)[integer(a).astype(int)], 2.0) == 2
    assert seen(lambda a: float(stop(a)), 2.5) == 2.5
    assert seen(lambda a: complex(stop(a)), 2.5) == 2.5
    for convert, error in (
        (bool, TracerBoolError), (int, TracerIndexError), (float, TracerConversionError),
        (complex, TracerConversionError),
    ):  # fmt: skip
        with pytest.raises(error):
            vmap(lambda a, convert=convert: convert(a))(np.arange(3.0))


OPERATORS = "+ - * / // % **".split()


@pytest.mark.parametrize("operator", [*OPERATORS, "@", "& | ^".split()[0], "<<", ">>", "|", "^"])
def test_operators_reflected_and_in_place(operator):
    integers = operator in ("&", "|", "^", "<<", ">>")
    a, b = (np.array([[2, 3], [4, 1]]), np.array([[1, 2], [3, 1]]))
    if not integers:
        a, b = a * 1.5, b * 0.5
    scope = {}
    exec(f"def in_place(a, b):\n    a = a + 0\n    a {operator}= b\n    return a", scope)
    both = eval(f"lambda a, b: a {operator} b")
    for function, operands in (
        (both, (a, b)), (lambda y: both(a, y), (b,)), (lambda x: both(x, b), (a,)),
        (scope["in_place"], (a, b)),
    ):  # fmt: skip
        (found,) = traced(function, operands, True)
        np.testing.assert_array_equal(found, function(*operands))
        np.testing.assert_allclose(jit(function)(*operands), function(*operands), rtol=1e-14)


# -- the namespace's account of itself -------------------------------------------------------------


def test_the_account_of_the_namespace():
    info, numpys = fnp.__array_namespace_info__(), np.__array_namespace_info__()
    assert (info.default_device(), info.devices()) == ("cpu", ["cpu"])
    kinds = [None, "bool", "signed integer", "unsigned integer", "integral", "real floating"]
    for kind in kinds[1:]:
        assert info.dtypes(kind=kind) == numpys.dtypes(kind=kind)
    assert info.dtypes(kind=("bool", "integral"), device="cpu").keys() == {
        "bool", *numpys.dtypes(kind="integral"),
    }  # fmt: skip
    default = info.default_dtypes()
    assert all(default[kind] == numpys.default_dtypes()[kind] for kind in default)
    assert {"real floating", "integral", "indexing"} <= default.keys()


def test_what_depends_on_elements_can_be_had_where_there_are_elements():
    def capabilities():
        return fnp.__array_namespace_info__().capabilities()

    # NumPy says how many axes there may be since 2.2
    numpys = {"max dimensions": 64, **np.__array_namespace_info__().capabilities()}
    assert capabilities() == numpys
    assert seen(lambda a: capabilities(), 1.0)["data-dependent shapes"]
    answers = []
    jit(lambda a: answers.append(capabilities()) or a)(1.0)
    assert answers[0] == {
        "boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64,
    }  # fmt: skip


# -- shapes that depend on elements ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["nonzero", "flatnonzero", "argwhere", "unique", "unique_all",
                                  "unique_counts", "unique_inverse", "unique_values"])  # fmt: skip
@pytest.mark.parametrize("transform", [jit, vmap])
def test_a_shape_that_depends_on_elements_is_refused(name, transform):
    with pytest.raises(TracerIndexError) as caught:
        transform(lambda a: getattr(fnp, name)(a))(np.array([[1, 0, 2]]))
    message = str(caught.value)
    written = "unique" if "unique" in name else name
    assert f"so np.{written} has no shape at " in message and "test_array_api.py" in message
    assert message.endswith(f"functrans.numpy.{written}(x, size=n).")


@pytest.mark.parametrize("size", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("how", [lambda f: f, jit, lambda f: lambda x: vmap(f)(x[None])[0]])
def test_positions_in_places_of_a_given_number(size, how):
    x = np.array([[0, 3, 0], [5, 7, 1]])
    rows = np.concatenate([np.argwhere(x), np.full((9, 2), -1)])[:size]
    flat = np.concatenate([np.flatnonzero(x), np.full(9, -2)])[:size]
    found = how(lambda a: fnp.argwhere(a, size=size, fill_value=-1))(x)
    np.testing.assert_array_equal(found, rows)
    found = how(lambda a: fnp.flatnonzero(a, size=size, fill_value=-2))(x)
    np.testing.assert_array_equal(found, flat)
    for function in (fnp.nonzero, fnp.where, lambda a, **k: a.nonzero(**k)):
        if function not in (fnp.nonzero, fnp.where) and isinstance(how(len), type(len)):
            continue  # an ndarray's own method knows no sizes
        found = how(lambda a, f=function: np.stack(f(a, size=size, fill_value=(-1, -1))))(x)
        np.testing.assert_array_equal(found, rows.T)
    nothing = how(lambda a: fnp.flatnonzero(a, size=size))(np.zeros((2, 0)))
    np.testing.assert_array_equal(nothing, np.zeros(size, int))


@pytest.mark.parametrize("size", [0, 1, 3, 5])
@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("how", [lambda f: f, jit, lambda f: lambda x: vmap(f)(x[None])[0]])
def test_different_elements_in_places_of_a_given_number(size, equal_nan, how):
    x = np.array([[3.0, np.nan, 1.0], [1.0, np.nan, -2.0]])
    values, first, inverse, counts = np.unique(x, True, True, True, equal_nan=equal_nan)

    def wanted(part, fill):
        return np.append(part, [fill] * size)[:size].astype(part.dtype)

    def function(a):
        return fnp.unique(
            a, True, True, True, equal_nan=equal_nan, size=size, fill_value=9.0
        )  # fmt: skip

    found = jit(function)(x) if how is jit else function(x)
    np.testing.assert_array_equal(found[0], wanted(values, 9.0))
    np.testing.assert_array_equal(found[1], wanted(first, first[0]))
    np.testing.assert_array_equal(found[2], inverse.reshape(x.shape))
    np.testing.assert_array_equal(found[3], wanted(counts, 0))
    least = how(lambda a: fnp.unique(a, size=size, equal_nan=equal_nan))(x)
    np.testing.assert_array_equal(least, wanted(values, values[0]))


@pytest.mark.parametrize("size", [0, 2, 5])
@pytest.mark.parametrize("how", [lambda f: f, jit, lambda f: lambda x: vmap(f)(x[None])[0]])
def test_parts_in_places_of_a_given_number(size, how):
    x = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
    taken = np.append(x[x > 0], [7.0] * 5)[:size]
    found = how(lambda a: fnp.extract(a > 0, a, size=size, fill_value=7.0))(x)
    np.testing.assert_array_equal(found, taken)
    columns = np.append(x[:, x[0] > 0], np.zeros((2, 5)), axis=1)[:, :size]
    found = how(lambda a: fnp.compress(a[0] > 0, a, axis=1, size=size))(x)
    np.testing.assert_array_equal(found, columns)


def test_derivatives_follow_different_elements():
    x = np.array([3.0, 1.0, 3.0])
    weights = np.array([1.0, 10.0, 100.0])
    gradient = grad(lambda a: np.sum(weights * fnp.unique(a, size=3, fill_value=0.0)))(x)
    np.testing.assert_array_equal(gradient, [10.0, 1.0, 0.0])


def test_rows_are_not_told_apart_in_a_given_number():
    with pytest.raises(ft.errors.UnsupportedNumPyError, match="leave the axis out, or the size"):
        fnp.unique(np.ones((2, 2)), axis=0, size=2)


def test_one_namespace_for_plain_and_traced_arrays(monkeypatch):
    compat = types.ModuleType("array_api_compat")
    exec("def array_namespace(*arrays, **options): return [*arrays]", vars(compat))
    monkeypatch.setitem(sys.modules, "array_api_compat", compat)
    late = lazy("functrans.numpy.standard:answer_for_compat")
    monkeypatch.setitem(protocols.late, "array_api_compat", late)

    def function(x):
        assert compat.array_namespace(np.ones(2), x) is fnp
        assert compat.array_namespace(2, 3) == [2, 3]
        return x

    assert grad(function)(1.0) == 1.0
    assert compat.array_namespace(np.ones(2)) != fnp
