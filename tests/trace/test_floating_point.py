"""NumPy's floating-point warnings in a trace have the text and the line of the plain function."""

import warnings

import numpy as np
import pytest

from functrans import (
    config,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)  # fmt: skip
from functrans.trace import floating_point

X = np.array([0.0, 800.0])


def grows(x):
    y = np.exp(x)
    z = np.log(x)
    return np.sum(y) - np.sum(z)


def same_again(x):
    y = np.exp(x)
    z = np.log(x)
    return np.sum(y) - np.sum(z)


def divides(x):
    return np.sum(x) / 0.0


FUNCTIONS = {"grows": grows, "same_again": same_again, "divides": divides}

TRANSFORMS = {
    "grad": lambda f, x: grad(f)(x),
    "value_and_grad": lambda f, x: value_and_grad(f)(x),
    "hessian": lambda f, x: hessian(f)(x),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "vjp": lambda f, x: vjp(f, x),
    "linearize": lambda f, x: linearize(f, x),
    "vmap": lambda f, x: vmap(f)(x[None]),
    "vmap of value_and_grad": lambda f, x: vmap(value_and_grad(f))(x[None]),
    "grad of vmap": lambda f, x: grad(lambda x: vmap(f)(x)[0])(x[None]),
}


def warned(call, action="always"):
    """What is warned about: words, file and line, each once."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        call()
    return {(str(w.message), w.category, w.filename, w.lineno) for w in found}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_words_and_lines(name, transform):
    function = FUNCTIONS[name]
    expected = {
        (message.replace("scalar divide", "divide"), *rest)
        for message, *rest in warned(lambda: function(X))
    }
    assert expected
    for _ in range(3):  # a graph is interpreted first, and then printed
        found = warned(lambda: TRANSFORMS[transform](function, X))
        assert expected <= found
        assert all(file == __file__ for _, _, file, _ in found)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_errstate(transform):
    def call():
        return TRANSFORMS[transform](grows, X)

    with np.errstate(all="ignore"):
        assert not warned(call)
    with np.errstate(all="raise", under="ignore"), pytest.raises(FloatingPointError) as caught:
        call()
    assert str(caught.value) == "overflow encountered in exp"
    (note,) = (note for note in caught.value.__notes__ if "test_floating_point.py" in note)
    line = grows.__code__.co_firstlineno + 1
    assert note.startswith(("in np.exp of", "  in exp, written at"))
    assert f"test_floating_point.py:{line} (grows)" in note
    seen = []
    with np.errstate(over="call", call=lambda kind, flag: seen.append(kind)):
        found = warned(call)
    assert seen
    assert {message for message, *_ in found} >= {"divide by zero encountered in log"}
    assert np.geterrcall() is None
    assert np.geterr()["over"] == "warn"


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_by_numpys_public_functions_alone(transform, monkeypatch):
    monkeypatch.setattr(floating_point, "_settings", None)
    test_errstate(transform)
    test_words_and_lines("grows", transform)


def test_the_derivative_itself():
    def root(x):
        return np.sum(np.sqrt(x))

    assert not warned(lambda: grad(root)(np.zeros(2)))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        grad(root)(np.zeros(2))
    found = warned(lambda: grad(lambda x: np.exp(x * x))(26.0 + 0 * X[0]) * 1e300 * 1e300)
    assert {message for message, *_ in found} == {"overflow encountered in scalar multiply"}


def test_filters_by_module_and_by_line():
    def call():
        for _ in range(3):
            grad(divides)(X)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        call()
    assert len(found) <= 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        call()
    assert not found
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match=r"^divide by zero encountered in divide$"):
            call()


def test_compiled_code_says_nothing_unless_it_is_checked(monkeypatch):
    assert not warned(lambda: jit(grad(grows))(X))
    expected = warned(lambda: grows(X))
    monkeypatch.setattr(config, "check_floats", True)
    assert expected <= warned(lambda: jit(grows)(X))
