"""Algebraic simplification of scalar expressions: constants folded, int64 sums in normal form.

Simplification of floats is exact in IEEE arithmetic, with one exception: a ``zero`` node, which
stands for a missing value (a derivative with respect to an element that was not read, the padding
of a convolution's image), annihilates whatever it is multiplied by. Ordinary constants do not.

Loop indices and the user's int64 numbers are written in the same language. Wrapping integers are a
ring, so sums of products have a normal form, whatever their terms are. Identities of integers that
do not wrap (comparison by difference, division term by term) are used only if the ranges of all
intermediate results are known to lie within int64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import frexp, gcd
from typing import Any

import numpy as np

from functrans.loop.affine import interval
from functrans.loop.division import by_reciprocal
from functrans.loop.nodes import INDEX, identity
from functrans.loop.scalar import BOOL, OPERATIONS, Scalar, const, postorder, zero
from functrans.loop.terms import Range, Terms, from_terms, without_remainders

_LEAST, _GREATEST = -(2**63), 2**63 - 1

_LONGEST_LOOP = 2**62
"""An upper bound on the trip counts of loops of unknown length, and on the sizes of arrays."""

MOST_TERMS = 64
"""Longer sums are not normalised; no array's index is as long."""

Args = tuple[Scalar, ...]
Dtype = np.dtype[Any]

TRUE = const(True, BOOL)
FALSE = const(False, BOOL)


class Simplifier:
    """Rewrites expressions; the ranges of indices decide comparisons."""

    def __init__(self) -> None:
        self._done: dict[Scalar, Scalar] = {}
        self._bounds: dict[Scalar, Range | None] = {}
        self._terms: dict[Scalar, Terms] = {}

    def __call__(self, expression: Scalar) -> Scalar:
        """The simplified expression."""
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
        """A node with simplified operands, which is simplified, too."""
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
        found = self._unwrapped_range(node)
        within = found is not None and _LEAST <= found[0] and found[1] <= _GREATEST
        return found if within else None

    def _unwrapped_range(self, node: Scalar) -> Range | None:
        if node.op == "const" and node.dtype == INDEX:
            return int(node.attribute), int(node.attribute)
        if node.op == "index":
            extent = node.attribute[2]
            return 0, _LONGEST_LOOP if extent is None else max(extent - 1, 0)
        if node.op == "checked":
            size = self._bounds[node.args[1]]
            return None if size is None else (0, max(size[1] - 1, 0))
        if node.op == "lookup" and node.dtype == INDEX:
            return int(min(node.attribute)), int(max(node.attribute))
        if node.op == "where":
            sides = [self._bounds[arg] for arg in node.args[1:]]
            if None in sides:
                return None
            return min(s[0] for s in sides if s), max(s[1] for s in sides if s)
        inner = [self._bounds[arg] for arg in node.args]
        if node.op in ("min", "max") and inner != [None, None]:  # clamping bounds any number
            inner = [pair or (_LEAST, _GREATEST) for pair in inner]
        if not inner or None in inner or node.dtype != INDEX:
            return None
        first, *others = (pair for pair in inner if pair is not None)
        return interval(node.op, first, others[0] if others else (0, 0))

    def terms(self, node: Scalar) -> Terms:
        """An int64 expression as a linear combination of terms, and a constant.

        It is the value of the expression without wrapping.
        """
        found = self._terms.get(node)
        if found is not None:
            return found
        sums: dict[Scalar, int] = {}
        constant = 0
        stack = [(node, 1)]
        while stack:
            part, factor = stack.pop()
            known = self._terms.get(part)
            if known is not None:
                for term, times in known[0].items():
                    sums[term] = sums.get(term, 0) + factor * times
                constant += factor * known[1]
            elif part.op == "const":
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
        if len(result[0]) > MOST_TERMS:
            result = {node: 1}, 0
        self._terms[node] = result
        return result

    def _affine(self, op: str, args: tuple[Scalar, ...], dtype: np.dtype[Any]) -> Scalar:
        return from_terms(*self.terms(Scalar(op, args, dtype)))

    def divide(self, x: Scalar, divisor: int) -> tuple[Scalar, Scalar] | None:
        """Quotient and remainder of an index by a constant, simplified; None if that fails."""
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
            operands = remainder, const(divisor, INDEX)
            inner = (
                self.build("idiv", operands, Scalar("idiv", operands, INDEX)),
                Scalar("irem", operands, INDEX),
            )
        sums, more = self.terms(inner[0])
        for term, factor in sums.items():
            quotient[term] = quotient.get(term, 0) + factor
        return from_terms(quotient, constant // divisor + more), inner[1]

    def _divide_by_unit(
        self, terms: Mapping[Scalar, int], constant: int, divisor: int
    ) -> tuple[Scalar, Scalar] | None:
        """Divide ``unit * high + low`` by a multiple of ``unit``; ``low`` is less than ``unit``."""
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
        """A comparison; None if the operands are no indices, or their ranges do not decide it."""
        if x.dtype != INDEX or y.dtype != INDEX:
            return None
        difference = self.bounds(self._affine("sub", (x, y), INDEX))
        if difference is None:
            return None
        low, high = difference
        if op in ("eq", "ne"):
            # a wrapped difference is 0 if and only if the true one is
            if low == high == 0:
                return TRUE if op == "eq" else FALSE
            if low > 0 or high < 0:
                return FALSE if op == "eq" else TRUE
            return None
        if low != 0 or high != 0:
            first, second = self.bounds(x), self.bounds(y)
            if first is None or second is None:
                return None
            if first[0] - second[1] < _LEAST or first[1] - second[0] > _GREATEST:
                return None
        limit = -1 if op == "lt" else 0
        return TRUE if high <= limit else FALSE if low > limit else None


def _evaluate(op: str, args: tuple[Scalar, ...], dtype: np.dtype[Any]) -> Scalar:
    values = [np.asarray(0 if arg.op == "zero" else arg.attribute, arg.dtype) for arg in args]
    with np.errstate(all="ignore"):
        return const(np.asarray(OPERATIONS[op].meaning(*values)).astype(dtype).item(), dtype)


def _is(node: Scalar, value: float) -> bool:
    return node.op == "const" and node.dtype.kind != "b" and node.attribute == value


def _mul(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
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


def _add(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    x, y = args
    if y.op == "zero" or (x.op == "zero" and _is(y, 0.0)):
        return x
    return y if x.op == "zero" else None


def _sub(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    x, y = args
    if y.op == "zero":
        return x
    if x.op == "zero":
        return Scalar("neg", (y,), dtype)
    return None


def _div(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    x, y = args
    return x if x.op == "zero" or _is(y, 1) else by_reciprocal(x, y)


def _neg(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    (x,) = args
    if x.op == "zero":
        return x
    return x.args[0] if x.op == "neg" else None


def _fma(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    x, y, z = args
    if "zero" in (x.op, y.op):
        return z
    if x.op == "mul" and _is_scale(x.args[1]) and _is_scale(y):
        # an integer, as a float, times powers of two: no product is rounded
        number, scale = x.args
        if number.op == "convert" and number.args[0].dtype.kind in "iu":
            return Scalar("fma", (number, const(scale.attribute * y.attribute, dtype), z), dtype)
    return None


def _is_scale(node: Scalar) -> bool:
    """Whether a float is a power of two by which integers can be multiplied without rounding."""
    return (
        node.op == "const" and 2.0**-55 <= node.attribute <= 64 and frexp(node.attribute)[0] == 0.5
    )


def _choice(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    condition, yes, no = args
    if condition.op == "const":
        return yes if condition.attribute else no
    if yes is no:
        return yes
    return None


def _convert(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    (x,) = args
    if x.dtype == dtype:
        return x
    if x.op == "zero":
        return zero(dtype)
    if x.op != "const":
        return None
    with np.errstate(all="ignore"):
        return const(np.asarray(x.attribute, x.dtype).astype(dtype).item(), dtype)


def _logic(op: str) -> Any:
    absorbing = op == "or"

    def rule(_: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
        if dtype != BOOL:
            return None
        x, y = args
        for one, other in ((x, y), (y, x)):
            if one.op == "const":
                return one if bool(one.attribute) == absorbing else other
        return x if x is y else None

    return rule


def _compare(op: str) -> Any:
    def rule(simplifier: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
        return simplifier.compare(op, *args)

    return rule


def _idiv(simplifier: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    x, y = args
    if dtype != INDEX or y.op != "const" or y.attribute <= 0:
        return None
    divided = simplifier.divide(x, int(y.attribute))
    if divided is not None:
        return divided[0]
    if x.op == "idiv" and x.args[1].op == "const" and x.args[1].attribute > 0:
        # truncating twice is truncating once
        product = int(x.args[1].attribute) * int(y.attribute)
        if product <= _GREATEST:
            operands = x.args[0], const(product, INDEX)
            return simplifier.build("idiv", operands, Scalar("idiv", operands, INDEX))
    return None


def _irem(simplifier: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    x, y = args
    if dtype != INDEX or y.op != "const" or y.attribute <= 0:
        return None
    x = without_remainders(x, int(y.attribute), simplifier.terms, simplifier.bounds)
    divided = simplifier.divide(x, int(y.attribute))
    if divided is not None:
        return divided[1]
    return None if x is args[0] else Scalar("irem", (x, y), dtype)


def _extremum(op: str) -> Any:
    def rule(simplifier: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
        x, y = args
        if x is y:
            return x
        for low, high in ((x, y), (y, x)):
            if simplifier.compare("le", low, high) is TRUE:
                return low if op == "min" else high
        return None

    return rule


def _checked(simplifier: Simplifier, args: Args, dtype: Dtype, __: Any) -> Scalar | None:
    position, extent = args
    below = simplifier.compare("lt", position, extent)
    within = simplifier.bounds(position)
    inside = below is TRUE and within is not None and within[0] >= 0
    return position if inside else None


def _lookup(_: Simplifier, args: Args, dtype: Dtype, table: Any) -> Scalar | None:
    """An entry of a table at a known position, or the position if each entry equals its own."""
    (position,) = args
    if position.op in ("const", "zero"):
        return const(table[int(position.attribute or 0)], dtype)
    is_counting = dtype == INDEX and table == tuple(range(len(table)))
    return position if is_counting else None


def _fold(simplifier: Simplifier, args: Args, dtype: Dtype, attribute: Any) -> Scalar | None:
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


def _apply(simplifier: Simplifier, args: Args, _: Dtype, function: Any) -> Scalar | None:
    """Simplify the operations of a function, given what is known of its operands."""
    if function.in_lanes is not None:  # of positions, more is known about single operations
        return simplifier(function.at(args)) if all(map(simplifier.bounds, args)) else None
    known = any(arg.op in ("const", "zero") for arg in args)
    return simplifier(function.at(args)) if known else None


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
    "guard": _choice,
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
    "lookup": _lookup,
    "fold": _fold,
}
