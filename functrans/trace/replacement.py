"""Suggested replacements for the user's expression that converts a traced value to a plain one.

The current instruction of the user's code determines the expression in its source. Names in the
expression are resolved without calling anything: an indexed array, a function of `math`, a NumPy
function under another name than its full one, a method of an array.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import inspect
import linecache
import math
import operator
import sys
from types import BuiltinFunctionType, FrameType, ModuleType
from typing import Any

import numpy as np

from functrans.parsing import parsed
from functrans.trace import bytecode, protocols
from functrans.trace.source import user_frame

_SPECIAL = "functrans.scipy.special."

OF_MATH = {
    **{name: f"np.{name}" for name in (
        "cbrt", "ceil", "copysign", "cos", "cosh", "degrees", "exp", "exp2", "expm1", "fabs",
        "floor", "fmod", "frexp", "gcd", "hypot", "isclose", "isfinite", "isinf", "isnan", "lcm",
        "ldexp", "log", "log10", "log1p", "log2", "modf", "nextafter", "prod", "radians", "sin",
        "sinh", "sqrt", "tan", "tanh", "trunc",
    )},
    "acos": "np.arccos", "acosh": "np.arccosh", "asin": "np.arcsin", "asinh": "np.arcsinh",
    "atan": "np.arctan", "atan2": "np.arctan2", "atanh": "np.arctanh", "pow": "np.power",
    "fsum": "np.sum", "phase": "np.angle", "erf": _SPECIAL + "erf", "erfc": _SPECIAL + "erfc",
    "gamma": _SPECIAL + "gamma", "lgamma": _SPECIAL + "gammaln", "comb": _SPECIAL + "binom",
    "factorial": _SPECIAL + "factorial",
}  # fmt: skip
"""The equivalents on traced values of functions of `math` and `cmath`."""

OF_STATISTICS = {
    "mean": "np.mean", "fmean": "np.mean", "pstdev": "np.std", "pvariance": "np.var",
    "stdev": "np.std", "variance": "np.var",
    "geometric_mean": "scipy.stats.gmean", "harmonic_mean": "scipy.stats.hmean",
}  # fmt: skip
"""The equivalents of functions of `statistics`."""

_LOCATION_AND_SCALE = ("normal", "uniform", "laplace", "logistic", "gumbel", "exponential", "gamma")
"""Distributions whose numbers can be scaled and shifted."""

_STATIC = "make the argument static: jit(f, static_argnums=...)"
_LARGEST = "compute with the largest size and a mask, np.where(np.arange(size) < n, x, 0.0)"
_REPEATS = ("vmap", "scan", "map", "while_loop", "fori_loop")

_UNKNOWN = object()


def for_cause(advice: str, cause: str, computed: bool) -> str:
    """The advice where ``cause`` traces: sizes that differ in each example cannot be static.

    Nor can sizes that are ``computed`` from the elements of arrays.
    """
    return advice.replace(_STATIC, _LARGEST) if computed or cause in _REPEATS else advice


def instead(integer: bool = False) -> str:
    """The suggested replacement of the user's current expression; empty if unknown.

    ``integer``: whether an integer is required, not a number or an array.
    """
    frame = user_frame()
    if frame is None:
        return ""
    expression, stores = _expression(frame)
    if isinstance(expression, ast.Subscript):
        return _of_storing(expression) if stores else _of_index(expression, frame)
    if integer and _is_product(expression):
        return f"The length of a list must be known: {_STATIC}."
    if not isinstance(expression, ast.Call):
        return ""
    return _of_integers(expression, frame) if integer else _of_call(expression, frame)


_REDUCED: dict[Any, str] = {
    max: "np.max",
    min: "np.min",
    sorted: "np.sort",
    any: "np.any",
    all: "np.all",
}
"""The equivalents of builtins that compare elements, or ask whether they are true."""


def of_builtin() -> str:
    """The suggested replacement of a builtin that the user's code calls; empty for other code."""
    frame = user_frame()
    node = None if frame is None else _expression(frame)[0]
    if frame is not None and isinstance(node, ast.Name):
        node = _call_of(frame)
    if frame is None or not isinstance(node, ast.Call) or node.keywords:
        return ""
    function = _value(node.func, frame)
    new = _REDUCED.get(function) if isinstance(function, BuiltinFunctionType) else None
    if new is None or any(isinstance(x, ast.Starred) for x in node.args):
        return ""
    given = node.args[0] if len(node.args) == 1 else ast.List(node.args)
    called = ast.unparse(node)
    if isinstance(given, ast.GeneratorExp):
        called = f"{ast.unparse(node.func)}{ast.unparse(given)}"  # with one pair of parentheses
        given = ast.ListComp(given.elt, given.generators)
    return f"Instead of `{called}`, write {new}({ast.unparse(given)})."


def purpose() -> str:
    """The purpose for which the user's current expression needs an integer."""
    frame = user_frame()
    expression = None if frame is None else _expression(frame)[0]
    if _is_product(expression):
        return "the length of a list"
    if frame is None or not isinstance(expression, ast.Call):
        return "an index"
    function = _value(expression.func, frame)
    if function is range:
        return "range()"
    if function is operator.index or _is_of(function, math):
        return f"{ast.unparse(expression.func)}()"
    return "a shape or an axis" if _wants_shape(expression, function, frame) else "an index"


def _expression(frame: FrameType) -> tuple[ast.expr | None, bool]:
    """The expression that a frame's instruction computes or stores into, and whether it stores."""
    stores = bytecode.operation_at(frame) in bytecode.STORES_ITEM
    return _written_at(frame.f_code.co_filename, *bytecode.positions_at(frame)), stores


def _call_of(frame: FrameType) -> ast.Call | None:
    """The call of the function whose name a frame's instruction stands for.

    Since Python 3.14, ``any`` and ``all`` of a generator are loops in the calling function.
    """
    for each in bytecode.positions_from_there(frame):
        node = _written_at(frame.f_code.co_filename, *each)
        if isinstance(node, ast.Call):
            return node
    return None


def _written_at(
    file: str, first: int | None, last: int | None, start: int | None, end: int | None
) -> ast.expr | None:
    """The expression between two places of a file."""
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(file, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        (statement,) = parsed(b"(" + b"".join(lines) + b")")
    except (SyntaxError, ValueError):  # the file has changed
        return None
    return statement.value if isinstance(statement, ast.Expr) else None


def _is_product(node: ast.expr | None) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _value(node: ast.expr, frame: FrameType) -> Any:
    """The value of a name, of an attribute of a module or an instance, or of a table's entry."""
    if isinstance(node, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in scope:
                return scope[node.id]
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        own = getattr(owner, "__dict__", {})
        if node.attr in own:
            return own[node.attr]
        return inspect.getattr_static(owner, node.attr, _UNKNOWN)
    if isinstance(node, ast.Subscript):
        table, key = _value(node.value, frame), _value(node.slice, frame)
        known = type(key) in (int, str) and type(table) in (dict, list, tuple)
        inside = known and (key in table if type(table) is dict else key in range(len(table)))
        return table[key] if inside else _UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(element, frame) for element in node.elts]
    return _UNKNOWN


def _of_storing(node: ast.Subscript) -> str:
    array = ast.unparse(node.value)
    copy = array if isinstance(node.value, ast.Name) else "a"
    return (
        f"`{array}` is a plain array, which cannot hold traced values: begin with "
        f"{copy} = np.array({array})."
    )


def _of_index(node: ast.Subscript, frame: FrameType) -> str:
    container, index = ast.unparse(node.value), ast.unparse(node.slice)
    value = _value(node.value, frame)
    if isinstance(value, (list, tuple)) and any(map(callable, value)):
        return f"For one of several functions, write functrans.lax.switch({index}, {container}, x)."
    if value is not _UNKNOWN and not isinstance(value, (np.ndarray, list, tuple)):
        return ""
    if isinstance(node.slice, ast.Slice):
        low = ast.unparse(node.slice.lower) if node.slice.lower is not None else "0"
        return (
            f"Instead of `{container}[{index}]`, write "
            f"functrans.lax.dynamic_slice_in_dim({container}, {low}, n) for n elements, if that "
            f"number is known, or {_STATIC}."
        )
    index = (
        index.removeprefix("(").removesuffix(")") if isinstance(node.slice, ast.Tuple) else index
    )
    return (
        f"Instead of `{container}[{index}]`, write functrans.numpy.asarray({container})[{index}]."
    )


def _of_integers(node: ast.Call, frame: FrameType) -> str:
    function = _value(node.func, frame)
    if function is range:
        return f"Use functrans.lax.fori_loop for a loop of this length, or {_STATIC}."
    if function is int or _is_of(function, math):
        return _of_call(node, frame)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and node.args:
        container, index = ast.unparse(node.func.value), ", ".join(map(ast.unparse, node.args))
        return (
            f"Instead of `{ast.unparse(node)}`, write "
            f"functrans.numpy.asarray({container})[{index}]."
        )
    if _wants_shape(node, function, frame):
        return f"The shapes and axes of arrays must be known: {_STATIC}."
    return ""


def _wants_shape(node: ast.Call, function: Any, frame: FrameType) -> bool:
    """Whether a called function takes integers as shapes or axes."""
    return (
        _numpys_name(function) is not None
        or _is_random(node.func, function, frame)
        or _is_method(node, frame)
        or _is_method_of_unknown(node, frame)
    )


def _of_call(node: ast.Call, frame: FrameType) -> str:
    function = _value(node.func, frame)
    given = ", ".join(ast.unparse(x) for x in (*node.args, *node.keywords))
    name = _numpys_name(function)
    if _is_of(function, math) or _is_of(function, cmath):
        new = _of_math(function.__name__, node)
    elif getattr(function, "__module__", None) == "statistics" and not node.keywords:
        new = OF_STATISTICS.get(function.__name__) if len(node.args) == 1 else None
        given += ", ddof=1" if function.__name__ in ("stdev", "variance") else ""
    elif function in (int, float, complex):
        new = f"np.{np.dtype(function).name}"
    elif name == "np.arange" and isinstance(node.func, ast.Attribute):
        return (
            "How many numbers there are must be known: write np.arange(n) * step, or "
            "np.linspace(start, stop, n)."
        )
    elif _is_random(node.func, function, frame):
        if not ast.unparse(node.func).endswith(_LOCATION_AND_SCALE):
            return "Use functrans.random, whose functions take a key and traced parameters."
        return (
            "Draw standard numbers, and scale and shift them (loc + scale * "
            "np.random.normal(size=n)), or use functrans.random."
        )
    elif isinstance(node.func, ast.Attribute) and _is_of_ufunc(node, frame):
        whole, sequence = map(ast.unparse, (node.func, node.args[0]))
        new, given = whole, given.replace(sequence, f"np.array({sequence})", 1)
    elif _is_method(node, frame):
        assert isinstance(node.func, ast.Attribute)
        known = vars(np).get(node.func.attr) in protocols.functions
        new = f"np.{node.func.attr}" if known else None
        given = ", ".join([ast.unparse(node.func.value), *([given] if given else [])])
    else:
        new = name if isinstance(node.func, ast.Name) else None
    return f"Instead of `{ast.unparse(node)}`, write {new}({given})." if new else ""


def _of_math(name: str, node: ast.Call) -> str | None:
    """The equivalent of a function of `math` with this number of arguments."""
    new = OF_MATH.get(name)
    numpys = vars(np).get((new or "").removeprefix("np."))
    other = isinstance(numpys, np.ufunc) and len(node.args) != numpys.nin
    return None if other or node.keywords else new


def _is_of_ufunc(node: ast.Call, frame: FrameType) -> bool:
    """Whether a ufunc's method (``np.maximum.reduce``) is called, with a sequence."""
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(_value(function.value, frame), np.ufunc)
        and bool(node.args)
        and isinstance(node.args[0], (ast.List, ast.Tuple, ast.ListComp, ast.Name))
    )


def _is_method(node: ast.Call, frame: FrameType) -> bool:
    """Whether the called function is a method of an array."""
    function = node.func
    return isinstance(function, ast.Attribute) and isinstance(
        _value(function.value, frame), np.ndarray
    )


def _is_method_of_unknown(node: ast.Call, frame: FrameType) -> bool:
    """Whether a method that arrays have is called, of a traced value or one without a name."""
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr not in protocols.methods:
        return False
    owner = _value(function.value, frame)
    return owner is _UNKNOWN or hasattr(owner, "__array_ufunc__")


def _is_of(function: Any, module: ModuleType) -> bool:
    return isinstance(function, BuiltinFunctionType) and function.__module__ == module.__name__


def _numpys_name(function: Any) -> str | None:
    """The full name by which a NumPy function accepts traced values."""
    name = getattr(function, "__name__", "")
    for prefix, module in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
        is_named = vars(module).get(name) is function
        if is_named and name in protocols.replacements.get(module, {}):
            return f"{prefix}.{name}"
    return None


def _is_random(node: ast.expr, function: Any, frame: FrameType) -> bool:
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return False
    owners = [getattr(function, "__self__", None)]
    if isinstance(node, ast.Attribute):
        owners.append(_value(node.value, frame))
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            if _value(node.value.func.value, frame) is numpy_random:  # a generator made here
                return True
    return any(isinstance(x, (numpy_random.Generator, numpy_random.RandomState)) for x in owners)
