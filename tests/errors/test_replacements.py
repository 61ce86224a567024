"""The replacements that errors suggest for conversions of traced values work."""

import cmath
import math
import statistics
from math import atan2, dist, hypot, lgamma, sin  # noqa: F401

import numpy as np
import pytest
import scipy.stats
from numpy import arange, array, full, interp, linspace, maximum, repeat, roll, take  # noqa: F401
from numpy.linalg import norm  # noqa: F401

import functrans
import functrans.scipy.special
from functrans import grad, jit, vmap
from functrans.errors import FunctransError
from functrans.trace.replacement import OF_MATH, OF_STATISTICS

TABLE = np.arange(10.0) ** 2
NUMBERS = [1.0, 4.0, 9.0]
RANDOM = np.random.default_rng(0)
ACTIONS = [np.sin, np.cos]


BY_NAME = {"sin": sin, "both": [atan2, sin]}


class Model:
    table = None
    sine = sin

    def __init__(self):
        self.table = TABLE


MODEL = Model()
STATIC = "make the argument static: jit(f, static_argnums=...)."
LARGEST = "compute with the largest size and a mask, np.where(np.arange(size) < n, x, 0.0)."
SHAPES = "The shapes and axes of arrays must be known: " + STATIC
DRAW = (
    "Draw standard numbers, and scale and shift them (loc + scale * np.random.normal(size=n)), or "
    "use functrans.random."
)

# An expression of x (a float) and i (an integer), and what to write: an expression, or words.
INSTEAD = {
    "TABLE[i]": "functrans.numpy.asarray(TABLE)[i]",
    "TABLE[i, ...]": "functrans.numpy.asarray(TABLE)[i, ...]",
    "TABLE[[i, i]]": "functrans.numpy.asarray(TABLE)[[i, i]]",
    "TABLE[i + np.arange(2)]": "functrans.numpy.asarray(TABLE)[i + np.arange(2)]",
    "MODEL.table[i]": "functrans.numpy.asarray(MODEL.table)[i]",
    "TABLE.reshape(5, 2)[i, 0]": "functrans.numpy.asarray(TABLE.reshape(5, 2))[i, 0]",
    "NUMBERS[i]": "functrans.numpy.asarray(NUMBERS)[i]",
    "(1.0, 2.0, 3.0)[i]": "functrans.numpy.asarray((1.0, 2.0, 3.0))[i]",
    "TABLE.item(i)": "functrans.numpy.asarray(TABLE)[i]",
    "TABLE.take(i)": "np.take(TABLE, i)",
    "TABLE.searchsorted(x)": "np.searchsorted(TABLE, x)",
    "take(TABLE, i)": "np.take(TABLE, i)",
    "roll(TABLE, i)": "np.roll(TABLE, i)",
    "full(3, x)": "np.full(3, x)",
    "array([x, 2 * x])": "np.array([x, 2 * x])",
    "sin(x)": "np.sin(x)",
    "MODEL.sine(x)": "np.sin(x)",
    "BY_NAME['sin'](x)": "np.sin(x)",
    "BY_NAME['both'][1](x)": "np.sin(x)",
    "atan2(x, 2)": "np.arctan2(x, 2)",
    "lgamma(x)": "functrans.scipy.special.gammaln(x)",
    "math.factorial(i)": "functrans.scipy.special.factorial(i)",
    "math.gcd(i, 4)": "np.gcd(i, 4)",
    "float(x)": "np.float64(x)",
    "int(x)": "np.int64(x)",
    "ACTIONS[i](x)": "For one of several functions, write functrans.lax.switch(i, ACTIONS, x).",
    "TABLE[i:i + 2]": "Instead of `TABLE[i:i + 2]`, write "
    "functrans.lax.dynamic_slice_in_dim(TABLE, i, n) for n elements, if that number is known, or "
    + STATIC,
    "range(i)": "Use functrans.lax.fori_loop for a loop of this length, or " + STATIC,
    "np.zeros(i)": SHAPES,
    "np.arange(i)": SHAPES,
    "np.eye(i)": SHAPES,
    "np.linspace(0, 1, i)": SHAPES,
    "TABLE.reshape(i, -1)": SHAPES,
    "TABLE.sum(axis=i - 2)": SHAPES,
    "np.sum(TABLE, axis=i - 2)": SHAPES,
    "np.random.rand(i)": SHAPES,
    "x.reshape(i - 1, -1)": SHAPES,
    "(x * TABLE).reshape(i, -1)": SHAPES,
    "np.expand_dims(x * TABLE, i)": SHAPES,
    "np.flip(x * TABLE, i - 2)": SHAPES,
    "np.moveaxis(x * TABLE, 0, i - 2)": SHAPES,
    "np.sin(x * TABLE).sum(axis=i - 2)": SHAPES,
    "[x] * i": "The length of a list must be known: " + STATIC,
    "(x * TABLE).tolist()": "An array can be indexed and iterated like a list. To get a list, "
    "return the array.",
    "maximum.reduce([x, x])":
        "Instead of `maximum.reduce([x, x])`, write maximum.reduce(np.array([x, x])).",
    "maximum.accumulate([x for _ in range(2)], axis=0)":
        "Instead of `maximum.accumulate([x for _ in range(2)], axis=0)`, write "
        "maximum.accumulate(np.array([x for _ in range(2)]), axis=0).",
    "np.arange(0.0, x)": "How many numbers there are must be known: write np.arange(n) * step, or "
    "np.linspace(start, stop, n).",
    "np.random.normal(x)": DRAW,
    "RANDOM.normal(x)": DRAW,
    "np.random.default_rng(0).normal(x)": DRAW,
}  # fmt: skip

# These work as they are.
BY_INPUTS = {
    "TABLE[i]", "TABLE[i, ...]", "TABLE[i + np.arange(2)]", "MODEL.table[i]",
    "TABLE.reshape(5, 2)[i, 0]", "TABLE.take(i)", "take(TABLE, i)", "roll(TABLE, i)",
    "TABLE[[i, i]]", "TABLE.searchsorted(x)",
}  # fmt: skip
"""Under `jit`, the array is an input of the program."""

IMPORTED = ("array", "atan2", "dist", "full", "hypot", "lgamma", "roll", "sin", "take")
"""Names of this module: they are replaced in its code, but not where they are parameters."""

AS_THEY_ARE = [
    "take(TABLE, i)", "roll(TABLE, i)", "full(3, x)", "array([x, 2 * x])", "sin(x)", "atan2(x, 2)",
    "lgamma(x)", "hypot(x, x, x)", "dist([x], [x])",
    "np.roll(TABLE, i)", "np.take(TABLE, i)", "np.full(3, x)", "np.linspace(0, x, 5)",
    "linspace(0, x, 5)", "np.interp(x, TABLE, NUMBERS + TABLE[3:].tolist())",
    "interp(x, TABLE, TABLE)", "np.array([x, 2 * x])", "np.float64(x) * 2", "TABLE.clip(0, x)",
    "np.arange(10.0)[i]", "np.arange(10.0).take(i)", "np.arange(10.0)[np.arange(2) + i]",
    "repeat(x, 3)", "norm(np.array([x, x]))", "np.where(TABLE > x, TABLE, x)",
    "math.sin(x) * TABLE.astype(np.float32)", "math.atan2(2, x)", "math.lgamma(x + 1)",
    "math.log(x, 2)", "math.log(2, x)", "math.sqrt(i)",
    "TABLE * x", "abs(x) + round(x, 1) + pow(x, 2)", "sum([x, x])", "divmod(x, 2.0)[1]",
]  # fmt: skip


def function_of(expression, tmp_path, parameters=()):
    path = tmp_path / "user_code.py"
    others = "".join(f", {name}={name}" for name in parameters)
    path.write_text(f"def f(x, i{others}):\n    return {expression}\n")
    scope = dict(globals())
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["f"]


def said(call):
    with pytest.raises(FunctransError) as caught:
        call()
    head, _, last = str(caught.value).partition("\n")
    return head, last.removesuffix(" If a constant is meant, write functrans.stop_gradient(x).")


@pytest.mark.parametrize("expression", INSTEAD)
def test_what_to_write_instead(expression, tmp_path):
    function, new = function_of(expression, tmp_path, IMPORTED), INSTEAD[expression]
    is_code = new.startswith(("functrans.", "np."))
    calls = [
        (lambda: jit(function)(1.5, 2), STATIC),
        (lambda: vmap(function)(np.full(2, 1.5), np.full(2, 2)), LARGEST),
    ]
    if expression in BY_INPUTS:
        del calls[0]
        np.testing.assert_allclose(jit(function)(1.5, 2), function(1.5, 2), rtol=1e-14)
    for call, known in calls:
        head, last = said(call)
        assert f" at user_code.py:2 (f), `return {expression}`" in head
        written = expression.removesuffix("(x)") if expression.startswith("ACTIONS") else expression
        words = new.replace(STATIC, known)
        assert last == (f"Instead of `{written}`, write {new}." if is_code else words)
    if is_code:
        found = jit(function_of(new, tmp_path))(1.5, 2)
        np.testing.assert_allclose(found, function(1.5, 2), rtol=1e-14)


@pytest.mark.parametrize("expression", AS_THEY_ARE)
def test_what_works_as_it_is(expression, tmp_path):
    function = function_of(expression, tmp_path)
    expected = function(1.5, 2)
    np.testing.assert_allclose(jit(function)(1.5, 2), expected, rtol=1e-14)
    found = vmap(function)(np.full(2, 1.5), np.full(2, 2))
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-14)
    grad(lambda x: np.sum(function(x, 2)) * x)(1.5)


@pytest.mark.parametrize(
    "expression", ["TABLE[i]", "NUMBERS[i]", "TABLE.take(i)", "roll(TABLE, i)[3]"]
)
def test_integers_are_known_under_grad(expression, tmp_path):
    function = function_of(expression, tmp_path)
    slope = grad(lambda x: x * function(x, np.argmax([0.0, 1.0, x])))(1.5)
    assert slope == function(1.5, 2)


@pytest.mark.parametrize("expression", ["hypot(x, x, x)", "dist([x], [x])"])
def test_nothing_is_said_that_would_not_do_the_same(expression, tmp_path):
    _, last = said(lambda: jit(function_of(expression, tmp_path, IMPORTED))(1.5, 2))
    assert last.startswith("Use NumPy's functions by their full names")


@pytest.mark.parametrize("name", OF_MATH)
def test_what_does_the_same_as_a_function_of_math(name):
    numpys = eval(OF_MATH[name], {"np": np, "functrans": functrans})
    ours = getattr(math, name, None) or getattr(cmath, name)
    integers = name in ("gcd", "lcm", "comb", "perm", "factorial")
    for arguments in ((0.5,), (4,), (0.5, 2.0), (4, 2), ([0.5, 2.0],), (1.5,), (0.5, 2)):
        if integers and not all(isinstance(x, int) for x in arguments):
            continue
        if isinstance(numpys, np.ufunc) and numpys.nin != len(arguments):
            continue
        try:
            expected = ours(*arguments)
        except (TypeError, ValueError):
            continue
        np.testing.assert_allclose(numpys(*arguments), expected, rtol=1e-13)
        break
    else:
        raise AssertionError(f"no arguments for {name}")


@pytest.mark.parametrize("name", OF_STATISTICS)
def test_what_does_the_same_as_a_function_of_statistics(name, tmp_path):
    call = function_of(f"statistics.{name}([x, 2.0, 4.0])", tmp_path)
    written, new = said(lambda: grad(call)(1.5, 2))[1].split(", write ")
    assert written == f"Instead of `statistics.{name}([x, 2.0, 4.0])`"
    found = eval(new.removesuffix("."), {"np": np, "scipy": scipy, "x": 1.5})
    np.testing.assert_allclose(found, getattr(statistics, name)([1.5, 2.0, 4.0]), rtol=1e-14)


@pytest.mark.parametrize(
    ("expression", "new"),
    {
        "max(x, 0.0)": "np.max([x, 0.0])",
        "min([x, i])": "np.min([x, i])",
        "sorted([x, i])": "np.sort([x, i])",
        "any(v > 0 for v in (x, i))": "np.any([v > 0 for v in (x, i)])",
        "all([x > 0, i > 0])": "np.all([x > 0, i > 0])",
    }.items(),
)
def test_what_to_write_instead_of_a_builtin_that_compares(expression, new, tmp_path):
    call = vmap(function_of(expression, tmp_path))
    assert said(lambda: call(np.ones(2), np.arange(2)))[1] == (
        f"Instead of `{expression}`, write {new}."
    )
    assert len(vmap(function_of(new, tmp_path))(np.ones(2), np.arange(2))) == 2


@pytest.mark.parametrize("expression", ["x if x > 0 else i", "max([x, i], key=abs)", "not x"])
def test_general_advice_for_other_branches(expression, tmp_path):
    call = vmap(function_of(expression, tmp_path))
    assert "np.where(condition, a, b)" in said(lambda: call(np.ones(2), np.arange(2)))[1]
