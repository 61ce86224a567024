"""SciPy functions that make plain arrays of traced values: the message names function and fix."""

import json

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.special
import scipy.stats
from scipy.sparse.linalg import spsolve
from scipy.stats import multivariate_normal, norm, poisson, t

from functrans import config, grad, jit
from functrans.errors import TracerConversionError


@pytest.fixture(autouse=True)
def nothing_is_patched(monkeypatch):
    """Otherwise these functions ask what to do, and do it."""
    monkeypatch.setattr(config, "patch_numpy", False)


SENTENCES = {
    "directly": (scipy.linalg.solve_circulant, "call functrans.scipy.linalg.solve_circulant"),
    "decorated": (scipy.linalg.cholesky, "call functrans.scipy.linalg.cholesky"),
    "deep inside": (scipy.linalg.sqrtm, "call functrans.scipy.linalg.sqrtm"),
    "by the array API": (scipy.special.softmax, "call functrans.scipy.special.softmax"),
    "refused": (
        scipy.linalg.qz,
        "solve the pencil by eigh(a, b) if it is Hermitian and definite",
    ),
}


def message(function, transform, x):
    with pytest.raises(TracerConversionError) as caught:
        transform(lambda a: function(a).sum())(x)
    return str(caught.value)


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("transform", [grad, jit])
def test_the_function_and_its_replacement_are_named(name, transform):
    function, instead = SENTENCES[name]
    one = (lambda a: function(a, a)) if name in ("directly", "refused") else function
    found = message(one, transform, [[4.0]])
    public = f"{'.'.join(function.__module__.split('.')[:2])}.{function.__name__}"
    assert f"\n{public} converts its arguments to plain arrays: {instead}." in found


def test_methods_are_named_by_their_objects():
    found = message(scipy.stats.levy.logpdf, grad, [2.0])
    assert "\nscipy.stats.levy.logpdf converts its arguments to plain arrays: " in found


METHODS = {
    "scipy.stats.norm.logpdf": lambda a: norm(0.0, 2.0).logpdf(a),
    "scipy.stats.norm.cdf": lambda a: norm(a, 2.0).cdf(0.5),
    "scipy.stats.poisson.logpmf": lambda a: poisson.logpmf(2, a),
    "scipy.stats.multivariate_normal.logpdf": lambda a: multivariate_normal([0.0]).logpdf(a),
    "scipy.stats.t.fit": lambda a: t.fit(a)[0],
    "scipy.sparse.linalg.spsolve": lambda a: spsolve(scipy.sparse.csc_array([[2.0]]), a),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_distributions_have_their_replacements(name):
    found = message(METHODS[name], grad, [2.0])
    assert f"\n{name} converts its arguments to plain arrays: call functrans.{name}." in found


def test_what_ours_leaves_to_scipy_is_no_replacement():
    found = message(lambda a: scipy.stats.anderson(a).statistic, grad, [2.0])
    assert "\nscipy.stats.anderson converts its arguments to plain arrays: it has no form" in found


def test_what_ours_refuses_is_no_replacement():
    found = message(lambda a: scipy.optimize.fmin(np.sum, a), grad, [2.0])
    assert "\nscipy.optimize.fmin converts its arguments to plain arrays: use minimize." in found


def test_other_conversions_say_nothing_of_it():
    found = message(lambda a: float(a[0]) + a, grad, [2.0])
    assert "to plain arrays" not in found


ADVICE = (
    "A Tracer stands for an array while the function is traced. If the function that raised this "
    "takes plain\narrays only, call it by functrans.callback, with a derivative by "
    "functrans.custom_jvp, or write its formula\nwith NumPy's functions."
)


@pytest.mark.parametrize(
    "words",
    [
        "Argument 'x' has incorrect type (expected numpy.ndarray, got Tracer)",
        "f(): incompatible function arguments. Invoked with: Tracer(f64[1], traced by grad)",
        "of type <class 'functrans.trace.tracer.Tracer'> is not a valid JAX type.",
    ],
    ids=["Cython", "pybind11", "JAX"],
)
def test_compiled_functions_that_check_their_arguments_get_a_note(words):
    def compiled(a):
        raise TypeError(words)

    with pytest.raises(TypeError) as caught:
        jit(grad(compiled))([2.0])
    assert str(caught.value) == words
    assert caught.value.__notes__ == [ADVICE]


def test_libraries_that_check_their_arguments_get_a_note():
    with pytest.raises(TypeError) as caught:
        jit(lambda a: json.dumps({"a": a}))(2.0)
    assert caught.value.__notes__ == [ADVICE]


def test_other_type_errors_get_none():
    with pytest.raises(TypeError) as caught:
        grad(lambda a: bytes.fromhex(a))([2.0])
    assert not hasattr(caught.value, "__notes__")
