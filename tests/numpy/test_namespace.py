"""The namespace as a whole: its names, signatures, refusals, and the array API's protocol."""

import inspect

import numpy as np
import pytest
import scipy.special

import functrans as ft
import functrans.numpy as fnp
from functrans import grad, jit, vmap
from functrans.errors import (
    FunctransError,
    TracerConversionError,
    TracerIndexError,
    UnsupportedAttributeError,
    UnsupportedNumPyError,
)
from functrans.numpy.define import _WITHOUT_MEANING, beyond_numpy, implementations
from functrans.numpy.signatures import signature_of
from functrans.trace import protocols
from functrans.trace.stage import stage
from functrans.trace.tracer import Tracer

x = np.array([0.5, -1.5, 2.0])

MODELS = sorted(implementations, key=lambda f: (f.__module__, f.__name__))
DISPATCHED = type(np.sum)

# NumPy functions that take part in its protocol and that we do not answer for
ABSENT = {
    "busday_count", "busday_offset", "datetime_as_string", "is_busday", "save", "savetxt", "savez",
    "savez_compressed", "shares_memory",
}  # fmt: skip
ABSENT |= {"in1d"} & set(dir(np))  # it went with NumPy 2.4
ABSENT_LINALG: set[str] = set()


def abstract(function, *operands):
    """Run a function on tracers without values."""
    avals = [ft.Aval(np.shape(a), np.asarray(a).dtype) for a in operands]
    return stage(lambda *tracers: [function(*tracers)], avals, kind="test")


def message_of(function, *operands):
    with pytest.raises(FunctransError) as caught:
        grad(lambda *args: np.sum(function(*args)))(*operands)
    return str(caught.value)


# -- names and signatures --------------------------------------------------------------------------


def test_no_function_of_the_protocol_is_forgotten():
    missing = {
        name
        for name in dir(np)
        if isinstance(getattr(np, name), DISPATCHED)
        and getattr(np, name) not in protocols.functions
    }
    assert missing == ABSENT & set(dir(np))
    missing = {
        name
        for name in dir(np.linalg)
        if isinstance(getattr(np.linalg, name), DISPATCHED)
        and getattr(np.linalg, name) not in protocols.functions
    }
    assert missing == ABSENT_LINALG


def test_all_ufuncs_of_real_numbers_are_answered():
    missing = {
        value.__name__
        for value in vars(np).values()
        if isinstance(value, np.ufunc) and value.__name__ not in protocols.ufuncs
    }
    assert missing == {"isnat"}


@pytest.mark.parametrize("model", MODELS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_the_namespace_has_numpys_signatures(model):
    homes = {"numpy.linalg": fnp.linalg, "numpy.fft": fnp.fft}
    function = getattr(homes.get(model.__module__, fnp), model.__name__)
    if not beyond_numpy[model]:
        assert inspect.signature(function) == signature_of(model)
    assert function.__name__ == model.__name__
    assert function.__doc__ and function.__doc__ != model.__doc__


@pytest.mark.parametrize("model", MODELS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_an_implementation_takes_numpys_parameters_in_numpys_order(model):
    own = list(inspect.signature(implementations[model]).parameters.values())
    theirs = list(signature_of(model).parameters.values())
    variadic = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    positional = [p.name for p in own if p.kind not in {*variadic, p.KEYWORD_ONLY}]
    assert positional == [p.name for p in theirs][: len(positional)]
    own = [p for p in own if p.kind not in variadic]
    more = {p.name for p in own} - {p.name for p in theirs}
    assert more <= set(beyond_numpy[model])
    kinds = {p.name: p.kind for p in theirs}
    for parameter in own:
        if parameter.name in more:
            assert parameter.kind == parameter.KEYWORD_ONLY, parameter.name
            continue
        if kinds[parameter.name] == parameter.KEYWORD_ONLY:
            assert parameter.kind == parameter.KEYWORD_ONLY, parameter.name


def test_plain_arrays_are_left_to_numpy():
    assert fnp.sum([1, 2]) == 3
    assert isinstance(fnp.unique(np.array([2, 1, 2])), np.ndarray)
    np.testing.assert_array_equal(
        fnp.histogram([1, 2, 2], 2)[0] if False else fnp.sort(x), np.sort(x)
    )


def test_the_namespace_takes_lists_of_traced_values():
    gradient = grad(lambda a: fnp.sum([a[0], 2 * a[1], 3.0]) + fnp.max([[a[2], 0.0]]))(x)
    np.testing.assert_array_equal(gradient, [1, 2, 1])


def test_what_the_namespace_lacks_is_named():
    with pytest.raises(AttributeError) as caught:
        fnp.argsotr  # noqa: B018
    assert str(caught.value) == (
        "module 'functrans.numpy' has no attribute 'argsotr'; the nearest that it has is argsort"
    )
    assert not hasattr(fnp, "frobnicate")
    assert not hasattr(fnp, "_core")
    with pytest.raises(AttributeError, match=r"np\.float_.* was removed .*Use `np\.float64"):
        fnp.float_  # noqa: B018


def test_what_the_namespace_lacks_is_numpys():
    for name in ("random", "save", "busday_count", "intp", "set_printoptions", "testing", "s_"):
        assert getattr(fnp, name) is getattr(np, name)
    assert {name for name in np.__all__ if not name.startswith("_")} <= set(dir(fnp))
    for name in dir(fnp):
        assert not name.startswith("_")
        assert getattr(fnp, name) is not None or name == "newaxis"
    with pytest.raises(UnsupportedNumPyError, match=r"np\.busday_count is not supported"):
        grad(lambda a: fnp.busday_count(a, a))(x)


def test_a_star_import_gives_numpys_names():
    given, numpys = {}, {}
    exec("from functrans.numpy import *", given)
    exec("from numpy import *", numpys)
    assert numpys.keys() <= given.keys()
    for name in ("arrays", "define", "substitutes", "annotations", "Any"):
        assert name not in given
    assert given["sum"](np.ones(3)) == 3


# -- refusals --------------------------------------------------------------------------------------

UNSUPPORTED = [
    (model, name)
    for model in MODELS
    for name, parameter in signature_of(model).parameters.items()
    if not implementations[model].__code__.co_flags & inspect.CO_VARKEYWORDS
    and name not in inspect.signature(implementations[model]).parameters
    and name != "out"
    and name not in _WITHOUT_MEANING
    and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
]


@pytest.mark.parametrize(
    ("model", "keyword"), UNSUPPORTED, ids=[f"{m.__name__}-{k}" for m, k in UNSUPPORTED]
)
def test_a_keyword_that_is_not_supported_is_refused_by_name(model, keyword):
    required = [
        name
        for name, p in signature_of(model).parameters.items()
        if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    ]

    def call(a):
        given = dict.fromkeys(required, a)
        positional = [
            given.pop(name)
            for name in list(given)
            if signature_of(model).parameters[name].kind == inspect.Parameter.POSITIONAL_ONLY
        ]
        protocols.functions[model](*positional, **given, **{keyword: "something"})

    with pytest.raises(UnsupportedNumPyError) as caught:
        grad(call)(x)
    module = "np.linalg" if "linalg" in model.__module__ else "np"
    assert str(caught.value).startswith(
        f"{module}.{model.__name__}(..., {keyword}=...) is not supported on traced values"
    )
    assert str(caught.value).endswith("leave the keyword out")


def test_keywords_without_meaning_are_taken():
    result = grad(lambda a: np.sum(np.copy(a, order="C", subok=True)))(x)
    np.testing.assert_array_equal(result, np.ones(3))


def test_any_layout_may_be_asked_for_as_nothing_can_tell_them_apart():
    def added(a):
        return np.sum(np.zeros(3, order="F") + np.array(a, order="F") + np.copy(a, order="F"))

    np.testing.assert_array_equal(grad(added)(x), [2.0, 2.0, 2.0])
    assert fnp.array(np.ones((2, 3)), order="F").flags.f_contiguous
    assert fnp.asarray(np.ones((2, 3)), order="F").flags.f_contiguous
    with pytest.raises(ValueError, match="order must be one of"):
        grad(lambda a: np.sum(np.array(a, order="F").ravel("K")))(x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: np.exp(a, sig="d->d"), "np.exp(..., sig=...) is not supported"),
        (lambda a: np.hypot.reduceat(a, [0]), "np.hypot.reduceat is not supported"),
        (lambda a: np.arctan2.reduce(a), "np.arctan2.reduce is not supported"),
        (lambda a: np.power.accumulate(a), "np.power.accumulate is not supported"),
        (lambda a: np.busday_count(a, a), "np.busday_count is not supported"),
        (lambda a: np.pad(a, 1, len), "np.pad with mode=<built-in function len> is not supported"),
        (lambda a: np.negative.at(a * 1, [0, 0]), "np.negative.at with an index that may be there"),
        (
            lambda a: np.intersect1d(a, a, return_indices=True),
            "np.intersect1d(..., return_indices=...",
        ),
        (lambda a: np.linalg.qr(np.outer(a, a), "raw")[0], "np.linalg.qr with mode='raw'"),
        (lambda a: a.view(np.int32), "ndarray.view of float64 as int32 is not"),
        (lambda a: a.view(np.recarray), "ndarray.view as a recarray is not"),
        (lambda a: a.view(type=np.recarray), "ndarray.view as a recarray is not"),
    ],
)
def test_what_is_not_supported_is_named(call, words):
    message = message_of(call, x)
    assert words in message
    assert "test_namespace.py" in message


def test_what_to_write_instead_is_named():
    message = message_of(lambda a: np.busday_count(a, a), x)
    assert message.endswith("; instead: compute with dates outside of the traced function, and "
                            "pass numbers")  # fmt: skip


def test_a_view_as_a_plain_array_is_one():
    np.testing.assert_array_equal(grad(lambda a: np.sum(a.view(np.ndarray) ** 2))(x), 2 * x)


def test_hasattr_can_be_asked_of_traced_values():
    seen = []

    def function(a):
        seen.extend([hasattr(a, "ctypes"), hasattr(a, "nonsense"), hasattr(a, "T")])
        return a

    grad(function)(1.0)
    assert seen == [False, False, True]
    with pytest.raises(UnsupportedAttributeError, match=r"ndarray\.tobytes"):
        grad(lambda a: a.tobytes())(1.0)


def test_conversions_that_lose_derivatives_stay_refused():
    by_name = np.array
    for convert in (np.asarray, np.array, lambda a: by_name([a[0], 1.0])):
        with pytest.raises(TracerConversionError):
            grad(lambda a, convert=convert: convert(a).sum())(x)


# -- the protocol of the array API -----------------------------------------------------------------


def standardised(a, axis):
    """As a library writes it that knows arrays by the protocol alone."""
    xp = a.__array_namespace__()
    a = xp.asarray(a, dtype=xp.float64)
    mean = xp.mean(a, axis=axis, keepdims=True)
    return xp.where(a > mean, (a - mean) / xp.std(a, axis=axis, keepdims=True), xp.zeros_like(a))


def test_code_written_for_the_array_api():
    m = np.arange(12.0).reshape(3, 4) ** 1.5
    ft.testing.check_grads(lambda a: standardised(a, 1), (m,), order=1)
    np.testing.assert_allclose(vmap(lambda a: standardised(a, 0))(m), standardised(m, 1))


def test_the_protocol_gives_this_module():
    seen = []
    grad(lambda a: seen.append(a.__array_namespace__(api_version="2024.12")) or a)(1.0)
    assert seen == [fnp]
    assert fnp is ft.numpy


# -- ways to write the same ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.reshape(1, 3),
        lambda a: a.reshape((1, 3)),
        lambda a: a.reshape([1, -1]),
        lambda a: a.reshape((1, 3), order="C"),
        lambda a: np.reshape(a, (1, 3)),
        lambda a: np.reshape(a, shape=(1, 3)),
        lambda a: fnp.reshape(a, (1, np.int64(3))),
        lambda a: a[None],
        lambda a: np.expand_dims(a, axis=0),
    ],
)
def test_forms_of_reshape(call):
    assert abstract(call, x).graph.outputs[0].aval.shape == (1, 3)


def test_derivatives_at_the_edges_of_norms_and_deviations_are_zero():
    zero = np.zeros(3)
    for function in (
        np.linalg.norm,
        np.std,
        np.nanstd,
        np.linalg.vector_norm,
        lambda a: np.linalg.norm(a, 3),
        lambda a: np.linalg.norm(np.outer(a, a), "fro"),
        lambda a: np.linalg.norm(np.outer(a, a), 2),
        lambda a: np.linalg.norm(np.diag(a), "nuc"),
        lambda a: np.linalg.norm(a, 2, axis=0),
    ):
        np.testing.assert_array_equal(grad(function)(zero), zero)
        np.testing.assert_array_equal(ft.jvp(function, (zero,), (x,))[1], 0.0)
    np.testing.assert_allclose(grad(grad(np.sinc))(0.0), -(np.pi**2) / 3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_functions_do_not_overflow():
    large = np.array([1000.0, 999.0, -1000.0])
    assert fnp.logsumexp(large) == pytest.approx(1000 + np.log1p(np.exp(-1)))
    assert fnp.logsumexp(np.array([-np.inf, -np.inf])) == -np.inf
    assert grad(fnp.logsumexp)(large) == pytest.approx(fnp.softmax(large))
    np.testing.assert_allclose(np.exp(fnp.log_softmax(large)), fnp.softmax(large))
    infinite = np.array([np.inf, 1.0])
    np.testing.assert_array_equal(fnp.softmax(infinite), scipy.special.softmax(infinite))
    m = np.arange(6.0).reshape(2, 3)
    for function in (fnp.softmax, fnp.log_softmax, fnp.logsumexp):
        ft.testing.check_grads(lambda a, f=function: f(a, axis=1), (m,), order=2)
    b = np.array([1.0, 0.0, 2.0])
    assert fnp.logsumexp(x, b=b) == pytest.approx(np.log(np.sum(b * np.exp(x))))
    ft.testing.check_grads(lambda a, b: fnp.logsumexp(a, b=b), (x, b))
    # a factor 0 makes even infinity no term, and a sum of no terms has the derivative 0
    factors = grad(lambda b: fnp.logsumexp(np.array([1.0, np.inf, np.nan, 1e9]), b=b))
    np.testing.assert_array_equal(factors(np.array([1.0, 0.0, 0.0, 0.0])), [1, 0, 0, 0])
    nothing = np.full((2, 2), -np.inf)
    for function in (lambda a: fnp.logsumexp(a, axis=1).sum(), np.logaddexp.reduce):
        for call in (grad, lambda f: jit(grad(f))):
            np.testing.assert_array_equal(call(lambda a, f=function: np.sum(f(a)))(nothing), 0)


def test_results_are_traced_where_they_must_be():
    staged = abstract(lambda a: np.einsum("i,i->", a, a) + np.ones(3) @ a, x)
    assert all(not isinstance(c, Tracer) for c in staged.captures)
    assert len(staged.graph.eqns) == 3


# -- operators with lists --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a * [1, 2, 3],
        lambda a: [1.0, 2.0, 3.0] * a,
        lambda a: [1.0, 2.0, 3.0] + a,  # noqa: RUF005  not a list
        lambda a: (1, 2, 3) - a,
        lambda a: a / [1.0, 2.0, 4.0],
        lambda a: a @ [1.0, 2.0, 3.0],
        lambda a: [[1.0, 2.0, 3.0]] @ a,
        lambda a: a > [0, -2, 5],
        lambda a: a == [0.5, 1.0, 2.0],
        lambda a: a ** [2, 3, 1],
    ],
)
def test_a_list_beside_an_array_is_an_array(call):
    staged = abstract(call, x)
    assert staged.graph.outputs[0].aval.dtype == call(x).dtype
    np.testing.assert_allclose(ft.jvp(call, (x,), (x,))[0], call(x))


def test_a_list_of_traced_values_beside_an_array():
    gradient = grad(lambda a: ([a[0], a[1], 1.0] * a).sum())(x)
    np.testing.assert_allclose(gradient, [2 * x[0], 2 * x[1], 1])


def test_a_list_times_one_integer_is_a_longer_list():
    assert grad(lambda a: len([0.0] * np.argmax(a)) * a.sum())(x)[0] == np.argmax(x)
    for call in (lambda n: [0.0] * n, lambda n: n * (0.0, 1.0)):
        with pytest.raises(TracerIndexError, match="make the argument static"):
            jit(call)(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a == None,  # noqa: E711
        lambda a: (a != None) + 0,  # noqa: E711
        lambda a: a == "a",
        lambda a: a[0] != b"a",
        lambda a: a + range(len(a)),
    ],
)
def test_what_is_no_number_beside_an_array(call):
    np.testing.assert_array_equal(jit(call)(x), call(x))


def test_round():
    assert grad(lambda a: round(a, 1) * a)(1.26) == 1.3
    assert grad(lambda a: round(a) * a)(2.5) == 2.0


def test_ufuncs_of_the_namespace_take_lists_of_traced_values():
    def summed(a):
        return np.sum(fnp.maximum([a[0], a[1]], 0.0) * fnp.add([1.0, a[2]], 1.0))

    np.testing.assert_array_equal(grad(summed)(x), [2.0, 0.0, 0.0])
    assert fnp.maximum is np.maximum
    assert list(map(fnp.negative, [1.0, 2.0])) == [-1.0, -2.0]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("order", [-1, -2, -0.5, 0.5, 3])
@pytest.mark.parametrize("numbers", [[], [np.inf, -np.inf], [0.0, np.inf], [0.0, 2.0], [3.0, -4.0]])
def test_norms_of_nothing_and_of_infinities(order, numbers):
    a = np.array(numbers)
    np.testing.assert_allclose(jit(lambda a: np.linalg.norm(a, order))(a), np.linalg.norm(a, order))


def test_a_root_that_is_no_number_leaves_the_first_coefficient():
    roots = np.array([1.0, np.nan, np.inf])
    np.testing.assert_array_equal(jit(np.poly)(roots), np.poly(roots))
