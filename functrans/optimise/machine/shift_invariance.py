"""Algebraic simplification by shift invariance: gradients of subtracted maxima sum to zero.

A softmax or a logarithm of a sum of exponentials subtracts the largest element of each row, which
does not change its result. Differentiation does not know this, and adds the gradient of the maximum
to the largest elements: a sum over the row whose terms cancel, so that nothing but rounding errors
is left of it. It takes two more passes over the row, one of them to count the largest elements.

Such a sum is recognised by polynomial normal forms. An expression is a sum of monomials, which are
products of integer powers of variables and of sums of monomials over the row; quotients by one
monomial, and factors that are the same for the whole row, are multiplied out. If nothing is left,
the expression is zero for all finite numbers. (If the gradient of a row's results is infinite, its
largest elements get what the others get, infinity or NaN, and not always NaN.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isfinite, prod

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.arrays.structural import broadcast_to_p, reduce_sum, reshape_p
from functrans.ops.elementwise.arithmetic import add, divide, multiply, negative, subtract
from functrans.ops.elementwise.choice import select
from functrans.optimise.machine.sums.factors import DTYPES
from functrans.optimise.rewrite import Rewriter, is_number

Monomial = frozenset[tuple[object, int]]
"""Factors and their powers: variables, and monomials, which stand for their sums over a row."""

Polynomial = Mapping[Monomial, Fraction]

ONE: Monomial = frozenset()
MOST_TERMS = 16
DEEPEST = 40
"""Expressions of more terms, or nested more deeply, are variables of their own."""


def leave_out_shifts(graph: Graph, target: Target) -> Graph:
    """Remove gradients of maxima that are zero, because the result does not depend on a shift.

    Expects gradients of maxima as differentiation writes them.
    Leaves no sum with a gradient of a maximum whose terms cancel in exact arithmetic.
    """
    out = Rewriter(graph)
    for eqn in graph.eqns:
        if eqn.primitive in (add, subtract):
            (result,), (x, y) = eqn.outputs, eqn.inputs
            if x.aval == result.aval and _is_zero(y, graph.makers):
                out.replace(result, out.atom(x))
                continue
            if y.aval == result.aval and _is_zero(x, graph.makers):
                if eqn.primitive is add:
                    out.replace(result, out.atom(y))
                    continue
                eqn = Eqn(negative, (y,), eqn.outputs, {}, eqn.source)
        out.keep(eqn, out.inputs(eqn))
    return prune(out.graph_now())


def _is_zero(term: Atom, producers: Mapping[Atom, Eqn]) -> bool:
    """Whether a term is a choice between zeros and an expression of each row that cancels."""
    chosen = producers.get(term)
    if chosen is None or chosen.primitive is not select or not is_number(chosen.inputs[2], 0.0):
        return False
    if term.aval.dtype not in DTYPES:
        return False
    spread = producers.get(chosen.inputs[1])
    if spread is None or spread.primitive is not broadcast_to_p:
        return False
    (of_rows,), shape = spread.inputs, term.aval.shape
    if len(of_rows.aval.shape) != len(shape):
        return False
    axes = tuple(i for i, n in enumerate(of_rows.aval.shape) if n < shape[i])
    return bool(axes) and not _Rows(shape, axes, producers).polynomial(of_rows)


class _Rows:
    """Normal forms of expressions on the rows of an array, which are some of its axes together."""

    def __init__(
        self, shape: tuple[int, ...], axes: tuple[int, ...], producers: Mapping[Atom, Eqn]
    ) -> None:
        self.shape, self.axes, self.producers = shape, axes, producers
        self.known: dict[Atom, Polynomial] = {}
        self.depth = 0

    def polynomial(self, atom: Atom) -> Polynomial:
        """The normal form of a value: of an element of a row, or of something for each row."""
        if isinstance(atom, Literal):
            value = float(atom.value)
            return _nonzero({ONE: Fraction(value)}) if isfinite(value) else _variable(atom.key)
        if atom not in self.known:
            eqn = self.producers.get(atom)
            rule = _RULES.get(eqn.primitive) if eqn is not None else None
            found = None
            if eqn is not None and rule is not None and self.depth < DEEPEST:
                self.depth += 1
                found = rule(self, eqn)
                self.depth -= 1
            is_short = found is not None and len(found) <= MOST_TERMS
            self.known[atom] = found if found is not None and is_short else _variable(atom)
        return self.known[atom]

    def reshaped(self, eqn: Eqn) -> Polynomial | None:
        """A value that is constant along a row, with and without the row's axes."""
        shapes = [x.aval.shape for x in (*eqn.inputs, *eqn.outputs)]
        shorter, longer = sorted(shapes, key=len)
        if len(longer) != len(self.shape) or any(longer[axis] != 1 for axis in self.axes):
            return None
        rest = tuple(n for axis, n in enumerate(longer) if axis not in self.axes)
        return self.polynomial(eqn.inputs[0]) if shorter == rest else None

    def spread(self, eqn: Eqn) -> Polynomial | None:
        """An array that repeats along some of its axes."""
        (x,) = eqn.inputs
        same = len(x.aval.shape) == len(eqn.outputs[0].aval.shape)
        return self.polynomial(x) if same else None

    def summed(self, eqn: Eqn) -> Polynomial | None:
        """The sum over each row: what is the same for the whole row is a factor of it."""
        (x,) = eqn.inputs
        if x.aval.shape != self.shape or tuple(eqn.params["axes"]) != self.axes:
            return None
        found: dict[Monomial, Fraction] = {}
        for monomial, coefficient in self.polynomial(x).items():
            within = frozenset(factor for factor in monomial if self._varies(factor[0]))
            once = monomial - within
            if within:
                added = _times(once, frozenset({(within, 1)}))
            else:
                added, coefficient = once, coefficient * prod(self.shape[i] for i in self.axes)
            found[added] = found.get(added, Fraction()) + coefficient
        return _nonzero(found)

    def _varies(self, factor: object) -> bool:
        """Whether a factor may differ within a row."""
        if not isinstance(factor, Var) or len(factor.aval.shape) != len(self.shape):
            return False
        return any(factor.aval.shape[axis] > 1 for axis in self.axes)


def _variable(factor: object) -> Polynomial:
    return {frozenset({(factor, 1)}): Fraction(1)}


def _nonzero(terms: Mapping[Monomial, Fraction]) -> Polynomial:
    return {monomial: value for monomial, value in terms.items() if value}


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers: Counter[object] = Counter()
    for factor, power in (*a, *b):
        powers[factor] += power
    return frozenset((factor, power) for factor, power in powers.items() if power)


def _added(x: Polynomial, y: Polynomial, sign: int = 1) -> Polynomial:
    terms = dict(x)
    for monomial, value in y.items():
        terms[monomial] = terms.get(monomial, Fraction()) + sign * value
    return _nonzero(terms)


def _multiplied(x: Polynomial, y: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for a, p in x.items():
        found = _added(found, {_times(a, b): p * q for b, q in y.items()})
    return found


def _divided(x: Polynomial, y: Polynomial) -> Polynomial | None:
    if len(y) != 1:
        return None
    ((monomial, value),) = y.items()
    inverse = frozenset((factor, -power) for factor, power in monomial)
    return _multiplied(x, {inverse: 1 / value})


Rule = Callable[[_Rows, Eqn], Polynomial | None]


def _of(combine: Callable[..., Polynomial | None]) -> Rule:
    return lambda rows, eqn: combine(*map(rows.polynomial, eqn.inputs))


_RULES: dict[Primitive, Rule] = {
    add: _of(_added),
    subtract: _of(lambda x, y: _added(x, y, -1)),
    negative: _of(lambda x: _added({}, x, -1)),
    multiply: _of(_multiplied),
    divide: _of(_divided),
    broadcast_to_p: _Rows.spread,
    reshape_p: _Rows.reshaped,
    reduce_sum: _Rows.summed,
}
