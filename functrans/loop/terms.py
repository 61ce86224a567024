"""Sums of index expressions: factors times terms, and a constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, wrapped

Range = tuple[int, int]
"""The least and the greatest possible value of an index."""

Terms = tuple[dict[Scalar, int], int]
"""A linear combination: the factor of each term, and the constant."""

_LARGEST = 2**62
"""A bound on factors: larger ones might overflow."""

Bounds = Callable[[Scalar], Range | None]


def from_terms(terms: Mapping[Scalar, int], constant: int) -> Scalar:
    """The linear combination as an expression, in a unique form."""
    total: Scalar | None = None
    for term, unwrapped in terms.items():
        factor = wrapped(unwrapped, INDEX)
        if factor == 0:
            continue
        if total is not None and factor < 0:
            scaled = term if factor == -1 else Scalar("mul", (term, const(-factor, INDEX)), INDEX)
            total = Scalar("sub", (total, scaled), INDEX)
            continue
        scaled = term if factor == 1 else Scalar("mul", (term, const(factor, INDEX)), INDEX)
        total = scaled if total is None else Scalar("add", (total, scaled), INDEX)
    rest = const(constant, INDEX)
    if total is None:
        return rest
    return total if rest.attribute == 0 else Scalar("add", (total, rest), INDEX)


def without_remainders(
    x: Scalar, divisor: int, terms_of: Callable[[Scalar], Terms], bounds: Bounds
) -> Scalar:
    """An index with the same remainder modulo the divisor, without terms that do not change it.

    ``i - (i + 1) mod 3`` has the same remainder modulo 3 as ``-1`` and as 2. The index is not
    changed if it might be negative, or if anything might wrap.
    """
    terms, constant = terms_of(x)
    redundant = {term for term in terms if _is_remainder(term, divisor, bounds)}
    own = bounds(x)
    if not redundant or own is None or own[0] < 0:
        return x
    sums: dict[Scalar, int] = {}
    for term, factor in terms.items():
        inner, more = terms_of(term.args[0]) if term in redundant else ({term: 1}, 0)
        for part, times in inner.items():
            sums[part] = sums.get(part, 0) + factor * times
        constant += factor * more
    found = {part: factor for part, factor in sums.items() if factor}
    if any(abs(factor) > _LARGEST for factor in found.values()):
        return x
    apart = bounds(from_terms(found, 0))
    if apart is None:
        return x
    # not negative, so that truncation and rounding down are the same
    least = apart[0] + constant % divisor
    lifted = from_terms(found, constant % divisor - divisor * min(least // divisor, 0))
    return x if bounds(lifted) is None else lifted


def without_divisions(terms: Terms, simplify: Any) -> Terms:
    """The combination with matching quotients and remainders replaced by what was divided.

    ``n (x // n) + x mod n`` is ``x``, and ``n (x // n mod m) + x mod n`` is ``x mod n m``. Both
    also hold for truncating division, and for wrapping arithmetic.
    """
    while (joined := _joined(*terms, simplify)) is not None:
        terms = joined
    return terms


def _joined(found: Mapping[Scalar, int], constant: int, simplify: Any) -> Terms | None:
    """The combination after one step, which removes a quotient and a remainder."""
    remainders = [term for term in found if _is_by_constant(term)]
    for rest in remainders:
        x, by = rest.args[0], int(rest.args[1].attribute)
        quotient = simplify(Scalar("idiv", rest.args, INDEX))
        parts, more = simplify.terms(quotient)
        factor = found[rest]
        if all(found.get(part) == factor * by * n for part, n in parts.items()):
            inner, own = simplify.terms(x)
            left = _without(found, rest, *parts)
            return _with(left, inner, factor), constant + factor * (own - by * more)
        for other in remainders:
            whole = by * int(other.args[1].attribute)
            if other.args[0] is quotient and found[other] == factor * by and whole <= _LARGEST:
                both = Scalar("irem", (x, const(whole, INDEX)), INDEX)
                return _with(_without(found, rest, other), {both: 1}, factor), constant
    return None


def _without(sums: Mapping[Scalar, int], *terms: Scalar) -> dict[Scalar, int]:
    return {term: factor for term, factor in sums.items() if term not in terms}


def _with(sums: dict[Scalar, int], more: Mapping[Scalar, int], factor: int) -> dict[Scalar, int]:
    for term, times in more.items():
        sums[term] = sums.get(term, 0) + factor * times
    return {term: times for term, times in sums.items() if times}


def _is_by_constant(term: Scalar) -> bool:
    return term.op == "irem" and term.args[1].op == "const" and term.args[1].attribute > 0


def _is_remainder(term: Scalar, divisor: int, bounds: Bounds) -> bool:
    """Whether a term is a nonnegative number's remainder modulo a multiple of the divisor."""
    if term.op != "irem" or term.args[1].op != "const":
        return False
    by, within = int(term.args[1].attribute), bounds(term.args[0])
    return by > 0 and by % divisor == 0 and within is not None and within[0] >= 0
