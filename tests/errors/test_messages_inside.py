"""The exact text of errors raised inside a user's function or rule.

``{here}`` in a message stands for the position in this file of the line that failed.
"""

from __future__ import annotations

import re
from math import erf, sin

import numpy as np
import pytest
from numpy import array, asarray

import functrans as ft
from functrans import (
    grad,
    jit,
    linear_transpose,
    vmap,
)
from functrans.errors import (
    DtypeError,
    LeakedTracerError,
    MutationError,
    NotDifferentiableError,
    ShapeError,
    TracerBoolError,
    TracerConversionError,
    TracerIndexError,
    UnsupportedAttributeError,
    UnsupportedNumPyError,
)
from tests.errors.words import X, located, message_of

OUTSIDE = np.zeros(3)

# -- inside of the user's function -----------------------------------------------------------------

CONVERSION = (
    ": {reason}.\nUse NumPy's functions by their full names (np.sin or math.sin, not sin; "
    "np.array, not array) or np.stack([x, y]). To store it in an array `a`, begin with "
    "a = np.array(a)."
)
CONSTANT = " If a constant is meant, write functrans.stop_gradient(x)."
LOST = CONVERSION.replace("{reason}", "its derivative would be lost") + CONSTANT
FLOAT = "a plain float (float, a function of math, or storing it in an ndarray)"
ARRAY = "a plain np.ndarray (np.asarray, or storing it in an array)"


def conversion(aval, target, instead=None):
    words = LOST if instead is None else f": its derivative would be lost.\n{instead}{CONSTANT}"
    return f"a value traced by grad ({aval}) cannot become {target}{{here}}{words}"


LIST = "An array can be indexed and iterated like a list. To get a list, return the array."
STORES = "`y` is a plain array, which cannot hold traced values: begin with y = np.array(y)."


def calls_float(x):
    return float(x) * x  # here


def calls_math(x, sin=sin):
    return sin(x)  # here


def calls_erf(x, erf=erf):
    return erf(2 * x)  # here


def calls_tolist(x):
    return sum(x.tolist())  # here


def calls_a_method(x):
    return OUTSIDE.dot(x)  # here


def calls_asarray(x, asarray=asarray):
    return asarray(x).sum()  # here


def makes_an_array(x, array=array):
    return array([x, x]).sum()  # here


def stores_a_number(x):
    y = OUTSIDE
    y[0] = x  # here
    return y.sum()


def stores_an_array(x):
    y = OUTSIDE
    y[:] = x  # here
    return y.sum()


def adds_to_an_ndarray(x):
    y = OUTSIDE
    y += x  # here
    return y.sum()


def assigns_to_its_argument(x):
    x[0] = 0.0  # here
    return x.sum()


def assigns_to_a_view_of_its_argument(x):
    y = x[1:]
    y[0] = 2.0  # here
    return x.sum()


def adds_to_its_argument(x):
    x += 1.0  # here
    return x.sum()


def deletes_an_element(x):
    del x[0]  # here


def multiplies_by_objects(x):
    return np.sum(x * np.array([None, 2, 3]))  # here


def adds_shapes(x):
    return np.sum(x + np.ones(2))  # here


def calls_busday_count(x):
    return np.busday_count(x, x)  # here


def asks_for_memory(x):
    return x.ctypes  # here


def misspells(x):
    return x.meen()  # here


def pickles(x):
    return x.__reduce__()  # here


IN_GRAD = [
    (calls_float, 1.0, TracerConversionError,
     conversion("f64*[]", FLOAT, "Instead of `float(x)`, write np.float64(x).")),
    (calls_math, 1.0, TracerConversionError,
     conversion("f64*[]", FLOAT, "Instead of `sin(x)`, write np.sin(x).")),
    (calls_asarray, X, TracerConversionError,
     conversion("f64[3]", ARRAY, "Instead of `asarray(x)`, write np.asarray(x).")),
    (makes_an_array, 1.0, TracerConversionError,
     conversion("f64*[]", ARRAY, "Instead of `array([x, x])`, write np.array([x, x]).")),
    (stores_a_number, 1.0, TracerConversionError, conversion("f64*[]", FLOAT, STORES)),
    (stores_an_array, X, TracerConversionError, conversion("f64[3]", ARRAY, STORES)),
    (calls_erf, 1.0, TracerConversionError, conversion(
        "f64*[]", FLOAT,
        "Instead of `erf(2 * x)`, write functrans.scipy.special.erf(2 * x).")),
    (calls_tolist, X, TracerConversionError, conversion("f64[3]", "a list (.tolist())", LIST)),
    (calls_a_method, X, TracerConversionError, conversion(
        "f64[3]", ARRAY, "Instead of `OUTSIDE.dot(x)`, write np.dot(OUTSIDE, x).")),
    (adds_to_an_ndarray, X, TracerConversionError,
     "np.add is to store a traced result in an ndarray{here}, which would lose its derivative.\n"
     "Write `a = a + x` instead of `a += x` or out=a, or make the array traced before: "
     "a = functrans.numpy.array(a)."),
    (assigns_to_its_argument, X, MutationError,
     "assignment to an element{here}: the array is argument 0 ('x') of assigns_to_its_argument, "
     "which the caller still holds.\nWork on a copy (x = x.copy()), or write x = x.at[i].set(v)."),
    (assigns_to_a_view_of_its_argument, X, MutationError,
     "assignment to an element{here}: the array is argument 0 ('x') of "
     "assigns_to_a_view_of_its_argument, which the caller still holds.\n"
     "Work on a copy (x = x.copy()), or write x = x.at[i].set(v)."),
    (adds_to_its_argument, X, MutationError,
     "add in place{here}: the array is argument 0 ('x') of adds_to_its_argument, which the caller "
     "still holds.\nWork on a copy (x = x.copy()), or write x = x.at[i].set(v)."),
    (deletes_an_element, X, MutationError,
     "an array cannot lose elements: use np.delete(x, i)"),
    (multiplies_by_objects, X, DtypeError,
     "what a traced value meets{here} is ndarray object[3], whose dtype is not supported: turn it "
     "into numbers outside of the traced function"),
    (adds_shapes, X, ShapeError,
     "arrays of shapes (3,) and (2,) do not broadcast: counted from the last axis, sizes must be "
     "equal or 1\n  in add{here}"),
    (calls_busday_count, X, UnsupportedNumPyError,
     "np.busday_count is not supported on traced values{here}; instead: compute with dates "
     "outside of the traced function, and pass numbers"),
    (asks_for_memory, X, UnsupportedAttributeError,
     "ndarray.ctypes is not supported on traced values{here}; instead: a traced value has no "
     "memory: return the value, and do it outside of the traced function"),
    (misspells, X, AttributeError,
     "an array has no attribute 'meen'; did you mean mean?"),
    (pickles, X, TracerConversionError,
     "a value traced by grad (f64[3]) cannot be pickled{here}: it stands for an array only while "
     "the function is traced"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "x", "kind", "message"), IN_GRAD, ids=[f.__name__ for f, *_ in IN_GRAD]
)
def test_inside_of_a_function(function, x, kind, message):
    assert message_of(kind, lambda: grad(function)(x)) == located(message, function)


def branches(x):
    return x if x > 0 else -x  # here


def loops(x, n):
    for _ in range(n):  # here
        x = x * 2.0
    return x


def looks_up_a_function(i):
    return [np.sin, np.cos][i](X)  # here


def looks_up(x):
    return [1.0, 2.0, 3.0][x]  # here


def makes_zeros(n):
    return np.zeros(n)  # here


def indexes_a_plain_array(i):
    return X[i]  # here


BOOL = (
    "Python cannot branch on this value{here}: it is traced by vmap, where bool[] stands for every "
    "element along the mapped axis.\nWrite np.where(condition, a, b), or "
    "functrans.lax.cond(condition, f, g, *xs) to compute only one branch, or "
    "functrans.lax.while_loop for a loop."
)
INDEX = "Python needs one integer here, for {purpose}{here}, but it is traced by {cause}.\n"
STATIC = "make the argument static: jit(f, static_argnums=...)."
LOOP = "Use functrans.lax.fori_loop for a loop of this length, or " + STATIC
LOOK_UP = "Instead of `[1.0, 2.0, 3.0][x]`, write functrans.numpy.asarray([1.0, 2.0, 3.0])[x]."
SWITCH = "For one of several functions, write functrans.lax.switch(i, [np.sin, np.cos], x)."
SHAPE = "The shapes and axes of arrays must be known: " + STATIC
BY_JIT = "jit, where i64*[] stands for any value"
BY_VMAP = "vmap, where i64[] stands for every element along the mapped axis"


@pytest.mark.parametrize(
    "transform",
    [
        vmap,
        lambda f: jit(vmap(f)),
        lambda f: vmap(grad(f)),
        lambda f: grad(lambda x: vmap(f)(x)[0]),
    ],
)
def test_branching_under_vmap(transform):
    assert message_of(TracerBoolError, lambda: transform(branches)(X)) == located(BOOL, branches)


@pytest.mark.parametrize(
    ("function", "call", "purpose", "cause", "instead"),
    [
        (loops, lambda: jit(loops)(1.0, 3), "range()", BY_JIT, LOOP),
        (looks_up, lambda: jit(looks_up)(1), "an index", BY_JIT, LOOK_UP),
        (looks_up_a_function, lambda: jit(looks_up_a_function)(1), "an index", BY_JIT, SWITCH),
        (makes_zeros, lambda: jit(makes_zeros)(1), "a shape or an axis", BY_JIT, SHAPE),
        (looks_up, lambda: vmap(looks_up)(np.arange(3)), "an index", BY_VMAP, LOOK_UP),
    ],
)
def test_integers_that_are_not_known(function, call, purpose, cause, instead):
    words = (INDEX + instead).replace("{purpose}", purpose)
    expected = located(words, function).replace("{cause}", cause)
    assert message_of(TracerIndexError, call) == expected


def test_a_plain_array_indexed_by_an_unknown_integer():
    found = message_of(TracerConversionError, lambda: vmap(indexes_a_plain_array)(np.arange(2)))
    expected = (
        f"a value traced by vmap (i64[]) cannot become {ARRAY}{{here}}: it is traced by {BY_VMAP}."
        "\n"
        "Instead of `X[i]`, write functrans.numpy.asarray(X)[i]."
    )
    assert found == located(expected, indexes_a_plain_array)
    assert jit(indexes_a_plain_array)(1) == X[1]  # an input of the program
    assert grad(lambda x: indexes_a_plain_array(np.argmax(x)) * x[0])(X)[0] == 3.0


def test_what_has_no_derivative_converts():
    @grad
    def f(x):
        held = ft.stop_gradient(x)
        factors = float(held), float(np.floor(x)), int(x > 0), held.item(), np.asarray(held)
        return x * np.prod([float(factor) for factor in factors])

    assert f(3.5) == 3.5 * 3 * 3.5 * 3.5
    with pytest.raises(TracerConversionError):
        grad(lambda x: x * float(ft.stop_gradient(x) * x))(3.5)
    with pytest.raises(TracerConversionError, match="stands for any value"):
        jit(lambda x: x * float(ft.stop_gradient(x)))(3.5)


def test_hasattr_answers():
    @grad
    def f(x):
        assert not hasattr(x, "ctypes")
        assert not hasattr(x, "no_such_thing")
        assert getattr(x, "data", None) is None
        return x

    assert f(1.0) == 1.0


def makes(x):
    y = x * 2.0  # here
    KEPT.append(y)
    return y


KEPT = []

LEAKED = (
    "a value traced by grad (f64*[]) is used{use} after the function that it was traced in has "
    "returned; it was made{here}.\n"
    "Return it from the function instead of keeping it in a global, an attribute or a list."
)


@pytest.mark.parametrize(
    "use",
    [
        lambda y: y + 1.0,
        lambda y: np.sin(y),
        lambda y: np.sum(y),
        lambda y: y.sum(),
        lambda y: grad(lambda x: x * y)(1.0),
        lambda y: jit(lambda x: x * y)(1.0),
        lambda y: vmap(lambda x: x * y)(X),
    ],
)
def test_a_leaked_value_says_where_it_was_made(use):
    KEPT.clear()
    grad(makes)(1.0)
    found = message_of(LeakedTracerError, lambda: use(KEPT[0]))
    place = re.search(r" at test_messages_inside.py:\d+ \(.*?<lambda>\), `.*?`(?= after)", found)
    assert found == located(LEAKED.replace("{use}", place[0]), makes)


def test_a_leaked_argument_says_which():
    vmap(lambda x: KEPT.append(x) or x)(X)
    found = message_of(LeakedTracerError, lambda: KEPT[-1] * 2.0)
    assert found.startswith("a value traced by vmap (f64[]) is used at test_messages_inside.py:")
    assert "after the function that it was traced in has returned; it is argument 0 ('x')" in found


def test_an_array_of_an_enclosing_function():
    def outer(x):
        y = x * 2.0

        def inner(z):
            y[0] = z
            return z

        return grad(inner)(1.0) + y.sum()

    found = message_of(MutationError, lambda: grad(outer)(X))
    assert re.fullmatch(
        r"assignment to an element at test_messages_inside.py:\d+ \(.*inner\), `y\[0\] = z`: "
        r"the array belongs to an enclosing function.\n"
        r"Return the new value from the inner function instead.",
        found,
    )


def test_an_argument_that_is_not_differentiated_is_read_only():
    def f(x, y):
        y[0] = 2.0
        return x.sum()

    y = np.zeros(3)
    with pytest.raises(ValueError, match="read-only") as caught:
        grad(f)(X, y)
    assert caught.value.__notes__ == [
        "Arguments that are not differentiated are read-only while a function is transformed: the "
        "caller still holds them. Work on a copy: x = x.copy()."
    ]
    y[0] = 1.0  # the caller's own array is not


def test_a_function_that_is_not_linear():
    def f(x):
        return x + 1.0  # here

    expected = "f is not linear in its arguments: add is applied to them{here}"
    found = message_of(NotDifferentiableError, lambda: linear_transpose(f, X))
    assert found == located(expected, f)
