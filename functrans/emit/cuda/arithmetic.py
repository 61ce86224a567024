"""Arithmetic on typed numbers: the types of results, and LLVM instructions.

The types are those of Numba's arithmetic: integers have 64 bits, and two operands of different
float types have a common type. Integers wrap; no flag that would make overflow undefined is set.
"""

from __future__ import annotations

import ast
from typing import Any

from functrans.emit.cuda import numbers
from functrans.emit.cuda.names import FLOATS, INTEGERS
from functrans.emit.cuda.site import Site
from functrans.records import NamedTuple

CASTS = frozenset((*INTEGERS, *FLOATS))

_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITWISE = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARISONS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


class Value(NamedTuple):
    """A number or an address, and the name of its type."""

    kind: str
    llvm: Any


class NotDefined(TypeError):
    """An operation is not defined for operands of these types."""


def binary(build: Any, op: ast.operator, x: Value, y: Value, cast: str | None = None) -> Value:
    """The result of a binary operation, which may be converted to the type ``cast`` afterwards.

    For integers of that type, only as many bits are computed as are kept.
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
    """The result of a comparison."""
    sign = _COMPARISONS[type(op)]
    if x.kind == y.kind == "bool":
        return Value("bool", build.icmp_unsigned(sign, x.llvm, y.llvm))
    kind = x.kind if x.kind == y.kind in CASTS else _common(x, y)
    left, right = (converted(build, each, kind).llvm for each in (x, y))
    if kind in FLOATS:  # with a NaN operand, every comparison but `!=` is false
        compare = build.fcmp_unordered if sign == "!=" else build.fcmp_ordered
    else:
        compare = build.icmp_signed if kind.startswith("i") else build.icmp_unsigned
    return Value("bool", compare(sign, left, right))


def unary(build: Any, op: ast.unaryop, x: Value) -> Value:
    """The result of a unary operation."""
    kind = _common(x, x)
    x = converted(build, x, kind)
    if isinstance(op, ast.USub):
        if kind in FLOATS:  # -0.0 for 0.0
            return Value(kind, build.fsub(x.llvm.type(-0.0), x.llvm))
        return Value(kind, build.neg(x.llvm))
    if isinstance(op, ast.Invert) and kind not in FLOATS:
        return Value(kind, build.not_(x.llvm))
    raise NotDefined


def absolute(build: Any, x: Value) -> Value:
    """The absolute value of a number."""
    kind = _common(x, x)
    x = converted(build, x, kind)
    if kind in FLOATS:
        return Value(kind, numbers.libdevice("__nv_fabs")(Site(None, build, (kind,), kind), x.llvm))
    if kind == "uint64":
        return x
    negative = build.icmp_signed("<", x.llvm, x.llvm.type(0))
    return Value(kind, build.select(negative, build.neg(x.llvm), x.llvm))


def converted(build: Any, x: Value, kind: str) -> Value:
    """A number, converted to another type; from floats to integers, by a device function."""
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
    """The type of the result of arithmetic on two numbers."""
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
