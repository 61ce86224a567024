"""Arithmetic of typed numbers: of which type a result is, and its instructions in LLVM.

The types are those of Numba's arithmetic: integers are of 64 bits, and two numbers of a float type
give another. Integers wrap, and nothing is said to LLVM that would leave it undefined when they do.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from functrans.emit.cuda import numbers
from functrans.emit.cuda.names import FLOATS, INTEGERS
from functrans.emit.cuda.site import Site

CASTS = frozenset((*INTEGERS, *FLOATS))

_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITWISE = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARISONS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


class Value(NamedTuple):
    """A number, or an address, and the name of its type."""

    kind: str
    llvm: Any


class NotDefined(TypeError):
    """An operation does not take operands of such types."""


def binary(build: Any, op: ast.operator, x: Value, y: Value, cast: str | None = None) -> Value:
    """What an operation makes of two numbers, and of which a number of another type is made then.

    Of integers of that type, as many bits are computed as are kept.
    """
    if type(op) in _BITWISE and x.kind == y.kind == "bool":
        return Value("bool", getattr(build, _BITWISE[type(op)])(x.llvm, y.llvm))
    kind = x.kind if x.kind == y.kind == cast in INTEGERS else _common(x, y)
    left, right = (converted(build, each, kind).llvm for each in (x, y))
    if kind in FLOATS and isinstance(op, ast.Div):
        return Value(kind, build.fdiv(left, right))
    if type(op) in _ARITHMETIC:
        name = f"{'f' if kind in FLOATS else ''}{_ARITHMETIC[type(op)]}"
    elif type(op) in _BITWISE and kind not in FLOATS:
        name = _BITWISE[type(op)]
    else:
        raise NotDefined
    return Value(kind, getattr(build, name)(left, right))


def compared(build: Any, op: ast.cmpop, x: Value, y: Value) -> Value:
    """Whether two numbers compare so."""
    sign = _COMPARISONS[type(op)]
    if x.kind == y.kind == "bool":
        return Value("bool", build.icmp_unsigned(sign, x.llvm, y.llvm))
    kind = x.kind if x.kind == y.kind in CASTS else _common(x, y)
    left, right = (converted(build, each, kind).llvm for each in (x, y))
    if kind in FLOATS:  # with NaN, nothing but `!=` holds
        compare = build.fcmp_unordered if sign == "!=" else build.fcmp_ordered
    else:
        compare = build.icmp_signed if kind.startswith("i") else build.icmp_unsigned
    return Value("bool", compare(sign, left, right))


def unary(build: Any, op: ast.unaryop, x: Value) -> Value:
    """What an operation makes of a number."""
    kind = _common(x, x)
    x = converted(build, x, kind)
    if isinstance(op, ast.USub):
        if kind in FLOATS:  # of 0, -0
            return Value(kind, build.fsub(x.llvm.type(-0.0), x.llvm))
        return Value(kind, build.neg(x.llvm))
    if isinstance(op, ast.Invert) and kind not in FLOATS:
        return Value(kind, build.not_(x.llvm))
    raise NotDefined


def absolute(build: Any, x: Value) -> Value:
    """A number without its sign."""
    kind = _common(x, x)
    x = converted(build, x, kind)
    if kind in FLOATS:
        return Value(kind, numbers.libdevice("__nv_fabs")(Site(None, build, (kind,), kind), x.llvm))
    if kind == "uint64":
        return x
    negative = build.icmp_signed("<", x.llvm, x.llvm.type(0))
    return Value(kind, build.select(negative, build.neg(x.llvm), x.llvm))


def converted(build: Any, x: Value, kind: str) -> Value:
    """A number as one of another type; floats become integers by functions that say how."""
    if x.kind == kind:
        return x
    if x.kind not in CASTS | {"bool"} or (x.kind in FLOATS and kind not in FLOATS):
        raise NotDefined
    target = Site(None, build, (), kind).type(kind)
    signed = x.kind.startswith("i")
    if x.kind in FLOATS:
        change = build.fpext if kind == "float64" else build.fptrunc
    elif kind in FLOATS:
        change = build.sitofp if signed else build.uitofp
    elif target.width <= x.llvm.type.width:
        change = build.trunc if target.width < x.llvm.type.width else build.bitcast
    else:
        change = build.sext if signed else build.zext
    return Value(kind, change(x.llvm, target))


def _common(x: Value, y: Value) -> str:
    """The type of what is computed of two numbers."""
    kinds = x.kind, y.kind
    if all(kind in FLOATS for kind in kinds):
        return max(kinds)
    if not all(kind in INTEGERS for kind in kinds):
        raise NotDefined
    if all(kind.startswith("u") for kind in kinds):
        return "uint64"
    if "uint64" in kinds:
        raise NotDefined
    return "int64"
