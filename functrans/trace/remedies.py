"""What to write in the place of an expression of the user's that cannot take a traced value.

A plain array that is indexed by a tracer, or stores one, does so in C: all that is known is the
instruction which the user's code is at. Where it stands in the source is an expression to go by.
"""

from __future__ import annotations

import ast
import linecache
import sys
from itertools import islice
from opcode import opname
from types import CodeType, FrameType

import numpy as np

from functrans.trace.source import is_installed, is_library

_OTHERWISE = {
    "erf": "scipy.special.erf({})",
    "erfc": "scipy.special.erfc({})",
    "gamma": "scipy.special.gamma({})",
    "lgamma": "scipy.special.gammaln({})",
}
"""Functions of the module `math` that NumPy has not."""


def remedy() -> str:
    """A sentence for the expression that the user's code evaluates, or nothing if none is known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or is_installed(frame.f_code.co_filename):
        return ""
    found = _expression(frame.f_code, frame.f_lasti)
    if isinstance(found, ast.Subscript):
        stores = opname[frame.f_code.co_code[frame.f_lasti]] == "STORE_SUBSCR"
        return _of_storing(found) if stores else _of_indexing(found)
    if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        return _of_calling(found, found.func, frame)
    return ""


def _of_indexing(found: ast.Subscript) -> str:
    array, index = ast.unparse(found.value), ast.unparse(found.slice)
    return (
        f"`{array}` is a plain array, which does not see what it is indexed by: write "
        f"functrans.numpy.asarray({array})[{index}]."
    )


def _of_storing(found: ast.Subscript) -> str:
    array = ast.unparse(found.value)
    copy = array if isinstance(found.value, ast.Name) else "a"
    return (
        f"`{array}` is a plain array, which cannot hold traced values: begin with "
        f"{copy} = np.array({array})."
    )


def _of_calling(call: ast.Call, function: ast.Attribute, frame: FrameType) -> str:
    owner, name = ast.unparse(function.value), function.attr
    arguments = ", ".join(ast.unparse(x) for x in (*call.args, *call.keywords))
    if owner == "math":
        return _of_math(name, arguments, len(call.args))
    known = {**frame.f_globals, **frame.f_locals}.get(owner)
    is_method = hasattr(np.ndarray, name) and hasattr(np, name)
    if is_method and (known is None or isinstance(known, np.ndarray)):
        return (
            f"`{owner}` is a plain array, whose methods do not see what they are given: write "
            f"np.{name}({owner}, {arguments})."
        )
    return ""


def _of_math(name: str, arguments: str, count: int) -> str:
    if name in _OTHERWISE:
        return f"Write {_OTHERWISE[name].format(arguments)}."
    if not isinstance(getattr(np, name, None), np.ufunc) or getattr(np, name).nin != count:
        return ""
    return f"Write np.{name}({arguments})."


def _expression(code: CodeType, instruction: int) -> ast.expr | None:
    """What the user wrote, if the file can be read and Python was told to keep columns."""
    place = next(islice(code.co_positions(), instruction // 2, None), None)
    if place is None or None in place:
        return None
    first, last, start, end = (n or 0 for n in place)
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None
