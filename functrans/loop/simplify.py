"""Scalar expressions made smaller: constants folded, index arithmetic in normal form.

What is done to floats is exact in IEEE arithmetic, with one exception: a ``zero`` node, a zero that
stands for "nothing there" (an off-diagonal element of an identity matrix, the outside of a padded
array), annihilates whatever it is multiplied by. Ordinary constants do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np

from functrans.loop.nodes import INDEX, identity
from functrans.loop.scalar import BOOL, OPERATIONS, Scalar, const, postorder

Range = tuple[int, int]
"""The least and the greatest value that an index can have."""

TRUE = const(True, BOOL)
FALSE = const(False, BOOL)


def zero(dtype: Any) -> Scalar:
    """A number that is absent."""
    return Scalar("zero", (), np.dtype(dtype))


class Simplifier:
    """Rewrites expressions; the ranges of the loop indices in them decide comparisons."""

    def __init__(self) -> None:
        self._done: dict[Scalar, Scalar] = {}
        self._bounds: dict[Scalar, Range | None] = {}
        self._terms: dict[Scalar, tuple[dict[Scalar, int], int]] = {}

    def __call__(self, expression: Scalar) -> Scalar:
        """The expression in its simplest known form."""
        done = self._done
        found = done.get(expression)
        if found is not None:
            return found
        for node in postorder([expression], known=done):
            result = self.build(node.op, tuple(done[arg] for arg in node.args), node)
            done[node] = result
            done.setdefault(result, result)
        return done[expression]

    def substitute(
        self, expressions: Sequence[Scalar], values: Mapping[Scalar, Scalar]
    ) -> list[Scalar]:
        """The expressions with some of their leaves replaced, simplified again."""
        if not values:
            return list(expressions)
        done: dict[Scalar, Scalar] = dict(values)
        for node in postorder(expressions, known=values):
            args = tuple(done[arg] for arg in node.args)
            done[node] = node if args == node.args else self.build(node.op, args, node)
        return [done[expression] for expression in expressions]

    def build(self, op: str, args: tuple[Scalar, ...], like: Scalar) -> Scalar:
        """A node with simplified operands, simplified itself."""
        dtype, attribute = like.dtype, like.attribute
        rule = _RULES.get(op)
        if rule is not None:
            result: Scalar | None = rule(self, args, dtype, attribute)
            if result is not None:
                return result
        if (
            op in OPERATIONS
            and op != "fma"
            and args
            and all(arg.op in ("const", "zero") for arg in args)
        ):
            return _evaluate(op, args, dtype)
        if dtype == INDEX and op in ("add", "sub", "mul", "neg"):
            return self._affine(op, args, dtype)
        if args == like.args:
            return like
        return Scalar(op, args, dtype, attribute)

    # -- index arithmetic ---------------------------------------------------------------------

    def bounds(self, node: Scalar) -> Range | None:
        """The least and the greatest value of an int64 expression, if they are known."""
        if node not in self._bounds:
            for inner in postorder([node], known=self._bounds):
                self._bounds[inner] = self._range_of(inner)
        return self._bounds[node]

    def _range_of(self, node: Scalar) -> Range | None:
        if node.op == "const" and node.dtype.kind in "iu":
            return int(node.attribute), int(node.attribute)
        if node.op == "index":
            extent = node.attribute[2]
            return None if extent is None else (0, max(extent - 1, 0))
        if node.op == "checked":
            size = self._bounds[node.args[1]]
            return None if size is None else (0, max(size[1] - 1, 0))
        if node.op == "where":
            sides = [self._bounds[arg] for arg in node.args[1:]]
            if None in sides:
                return None
            return min(s[0] for s in sides if s), max(s[1] for s in sides if s)
        inner = [self._bounds[arg] for arg in node.args]
        if not inner or None in inner or node.dtype != INDEX:
            return None
        (a, b), *others = (pair for pair in inner if pair is not None)
        c, d = others[0] if others else (0, 0)
        match node.op:
            case "add":
                return a + c, b + d
            case "sub":
                return a - d, b - c
            case "neg":
                return -b, -a
            case "mul":
                corners = (a * c, a * d, b * c, b * d)
                return min(corners), max(corners)
            case "min":
                return min(a, c), min(b, d)
            case "max":
                return max(a, c), max(b, d)
            case "idiv" if a >= 0 and c == d > 0:
                return a // c, b // c
            case "irem" if a >= 0 and c == d > 0:
                return (a, b) if b < c else (0, c - 1)
        return None

    def terms(self, node: Scalar) -> tuple[dict[Scalar, int], int]:
        """An int64 expression as a sum of factors times terms, and a constant."""
        found = self._terms.get(node)
        if found is not None:
            return found
        sums: dict[Scalar, int] = {}
        constant = 0
        stack = [(node, 1)]
        while stack:
            part, factor = stack.pop()
            if part.op == "const":
                constant += factor * int(part.attribute)
            elif part.op == "add":
                stack.extend((arg, factor) for arg in reversed(part.args))
            elif part.op == "sub":
                stack.append((part.args[1], -factor))
                stack.append((part.args[0], factor))
            elif part.op == "neg":
                stack.append((part.args[0], -factor))
            elif part.op == "mul" and part.args[1].op == "const":
                stack.append((part.args[0], factor * int(part.args[1].attribute)))
            elif part.op == "mul" and part.args[0].op == "const":
                stack.append((part.args[1], factor * int(part.args[0].attribute)))
            else:
                sums[part] = sums.get(part, 0) + factor
        result = {term: factor for term, factor in sums.items() if factor}, constant
        self._terms[node] = result
        return result

    def _affine(self, op: str, args: tuple[Scalar, ...], dtype: np.dtype[Any]) -> Scalar:
        return from_terms(*self.terms(Scalar(op, args, dtype)))

    def divide(self, x: Scalar, divisor: int) -> tuple[Scalar, Scalar] | None:
        """Quotient and remainder of an index, with less to divide; None if nothing is known."""
        terms, constant = self.terms(x)
        quotient = {t: f // divisor for t, f in terms.items() if f % divisor == 0}
        rest = {t: f for t, f in terms.items() if f % divisor}
        remainder = from_terms(rest, constant % divisor)
        whole, within = self.bounds(x), self.bounds(remainder)
        if whole is None or whole[0] < 0 or within is None or within[0] < 0:
            return None
        if within[1] < divisor:
            return from_terms(quotient, constant // divisor), remainder
        inner = self._divide_by_unit(rest, constant % divisor, divisor)
        if inner is None:
            if not quotient and constant // divisor == 0:
                return None
            by = const(divisor, INDEX)
            inner = (
                Scalar("idiv", (remainder, by), INDEX),
                Scalar("irem", (remainder, by), INDEX),
            )
        sums, more = self.terms(inner[0])
        for term, factor in sums.items():
            quotient[term] = quotient.get(term, 0) + factor
        return from_terms(quotient, constant // divisor + more), inner[1]

    def _divide_by_unit(
        self, terms: Mapping[Scalar, int], constant: int, divisor: int
    ) -> tuple[Scalar, Scalar] | None:
        """Divide ``unit * high + low`` by a multiple of the unit, where low is less than one."""
        common = [gcd(factor, divisor) for factor in terms.values()]
        unit = gcd(divisor, *(each for each in common if each > 1))
        if unit in (1, divisor):
            return None
        low = from_terms({t: f for t, f in terms.items() if f % unit}, constant % unit)
        within = self.bounds(low)
        if within is None or within[0] < 0 or within[1] >= unit:
            return None
        high = from_terms(
            {t: f // unit for t, f in terms.items() if not f % unit}, constant // unit
        )
        by = const(divisor // unit, INDEX)
        quotient, rest = (
            self.build(op, (high, by), Scalar(op, (high, by), INDEX)) for op in ("idiv", "irem")
        )
        scaled = self._affine("mul", (rest, const(unit, INDEX)), INDEX)
        return quotient, self._affine("add", (scaled, low), INDEX)

    def compare(self, op: str, x: Scalar, y: Scalar) -> Scalar | None:
        """A comparison of indices, if the ranges decide it."""
        if x.dtype != INDEX:
            return None
        difference = self.bounds(self._affine("sub", (x, y), INDEX))
        if difference is None:
            return None
        low, high = difference
        if op in ("eq", "ne"):
            if low == high == 0:
                return TRUE if op == "eq" else FALSE
            if low > 0 or high < 0:
                return FALSE if op == "eq" else TRUE
            return None
        limit = -1 if op == "lt" else 0
        return TRUE if high <= limit else FALSE if low > limit else None


def from_terms(terms: Mapping[Scalar, int], constant: int) -> Scalar:
    """The sum of factors times terms and a constant, always written in the same way."""
    total: Scalar | None = None
    for term, factor in terms.items():
        if total is not None and factor < 0:
            scaled = term if factor == -1 else Scalar("mul", (term, const(-factor, INDEX)), INDEX)
            total = Scalar("sub", (total, scaled), INDEX)
            continue
        scaled = term if factor == 1 else Scalar("mul", (term, const(factor, INDEX)), INDEX)
        total = scaled if total is None else Scalar("add", (total, scaled), INDEX)
    if total is None:
        return const(constant, INDEX)
    return total if constant == 0 else Scalar("add", (total, const(constant, INDEX)), INDEX)


def _evaluate(op: str, args: tuple[Scalar, ...], dtype: np.dtype[Any]) -> Scalar:
    values = [np.asarray(0 if arg.op == "zero" else arg.attribute, arg.dtype) for arg in args]
    with np.errstate(all="ignore"):
        return const(np.asarray(OPERATIONS[op].meaning(*values)).astype(dtype).item(), dtype)


def _is(node: Scalar, value: float) -> bool:
    return node.op == "const" and node.dtype.kind != "b" and node.attribute == value


def _mul(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    x, y = args
    if "zero" in (x.op, y.op):
        return zero(dtype)
    if _is(y, 1):
        return x
    if _is(x, 1):
        return y
    if _is(y, -1) and dtype.kind == "f":
        return Scalar("neg", (x,), dtype)
    if _is(x, -1) and dtype.kind == "f":
        return Scalar("neg", (y,), dtype)
    return None


def _add(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    x, y = args
    if x.op == "zero":
        return y
    return x if y.op == "zero" else None


def _sub(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    x, y = args
    if y.op == "zero":
        return x
    if x.op == "zero":
        return Scalar("neg", (y,), dtype)
    return None


def _div(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    x, y = args
    return x if x.op == "zero" or _is(y, 1) else None


def _neg(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    (x,) = args
    if x.op == "zero":
        return x
    return x.args[0] if x.op == "neg" else None


def _fma(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    return args[2] if "zero" in (args[0].op, args[1].op) else None


def _choice(
    _: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
) -> Scalar | None:
    condition, yes, no = args
    if condition.op == "const":
        return yes if condition.attribute else no
    if yes is no:
        return yes
    return None


def _guard(_: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any) -> Scalar | None:
    condition, yes, no = args
    if condition.op == "const":
        chosen = yes if condition.attribute else no
        # what is outside of an array is not there
        return zero(dtype) if _is(chosen, 0) and dtype.kind == "f" else chosen
    return yes if yes is no else None


def _convert(
    _: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
) -> Scalar | None:
    (x,) = args
    if x.dtype == dtype:
        return x
    if x.op == "zero":
        return zero(dtype)
    if x.op != "const":
        return None
    if x.dtype == BOOL and not x.attribute and dtype.kind == "f":
        return zero(dtype)
    with np.errstate(all="ignore"):
        return const(np.asarray(x.attribute, x.dtype).astype(dtype).item(), dtype)


def _logic(op: str) -> Any:
    absorbing = op == "or"

    def rule(
        _: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
    ) -> Scalar | None:
        if dtype != BOOL:
            return None
        x, y = args
        for one, other in ((x, y), (y, x)):
            if one.op == "const":
                return one if bool(one.attribute) == absorbing else other
        return x if x is y else None

    return rule


def _compare(op: str) -> Any:
    def rule(
        simplifier: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
    ) -> Scalar | None:
        return simplifier.compare(op, *args)

    return rule


def _idiv(
    simplifier: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
) -> Scalar | None:
    x, y = args
    if dtype != INDEX or y.op != "const" or y.attribute <= 0:
        return None
    split = simplifier.divide(x, int(y.attribute))
    if split is not None:
        return split[0]
    if x.op == "idiv" and x.args[1].op == "const" and x.args[1].attribute > 0:
        # truncating twice is truncating once
        by = const(int(x.args[1].attribute) * int(y.attribute), INDEX)
        return simplifier.build("idiv", (x.args[0], by), Scalar("idiv", (x.args[0], by), INDEX))
    return None


def _irem(
    simplifier: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
) -> Scalar | None:
    x, y = args
    if dtype != INDEX or y.op != "const" or y.attribute <= 0:
        return None
    split = simplifier.divide(x, int(y.attribute))
    return None if split is None else split[1]


def _extremum(op: str) -> Any:
    def rule(
        simplifier: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
    ) -> Scalar | None:
        x, y = args
        if x is y:
            return x
        less = simplifier.compare("le", x, y)
        if less is None:
            return None
        return x if bool(less.attribute) == (op == "min") else y

    return rule


def _checked(
    simplifier: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], __: Any
) -> Scalar | None:
    position, extent = args
    below = simplifier.compare("lt", position, extent)
    within = simplifier.bounds(position)
    inside = below is TRUE and within is not None and within[0] >= 0
    return position if inside else None


def _fold(
    simplifier: Simplifier, args: tuple[Scalar, ...], dtype: np.dtype[Any], attribute: Any
) -> Scalar | None:
    op, indices = attribute
    value, *extents = args
    if any(_is(extent, 0) for extent in extents):
        return const(identity(op, dtype), dtype)
    if value.op == "zero" and op in ("add", "mul"):
        return value
    single = {i: const(0, INDEX) for i, n in zip(indices, extents, strict=True) if _is(n, 1)}
    if not single:
        return None
    (value,) = simplifier.substitute([value], single)
    left = [(i, n) for i, n in zip(indices, extents, strict=True) if i not in single]
    if not left:
        return value
    kept = tuple(i for i, _ in left)
    return Scalar("fold", (value, *(n for _, n in left)), dtype, (op, kept))


def _apply(
    simplifier: Simplifier, args: tuple[Scalar, ...], _: np.dtype[Any], function: Any
) -> Scalar | None:
    """What is known of an operand can simplify the operations inside."""
    if not any(arg.op in ("const", "zero") for arg in args):
        return None
    return simplifier(function.at(args))


_RULES: dict[str, Any] = {
    "apply": _apply,
    "mul": _mul,
    "add": _add,
    "sub": _sub,
    "div": _div,
    "fma": _fma,
    "neg": _neg,
    "where": _choice,
    "unlikely": _choice,
    "guard": _guard,
    "convert": _convert,
    "and": _logic("and"),
    "or": _logic("or"),
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("lt"),
    "le": _compare("le"),
    "idiv": _idiv,
    "irem": _irem,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "checked": _checked,
    "fold": _fold,
}
