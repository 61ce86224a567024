"""Taylor mode: derivatives of a function along a curve, up to any order, in one forward pass.

Griewank and Walther, "Evaluating Derivatives", chapter 13. A value is a power series in one
parameter, and operations act on series. Operations need no Taylor rules of their own: for a result
``y`` of ``x``, the jvp rule expresses ``y'`` by operations on ``x``, ``y`` and ``x'``; and
coefficient k of ``y`` is coefficient k - 1 of ``y'``, divided by k. So the jvp rule itself is
applied to series, and each of its coefficients needs only lower coefficients of ``y``. Series are
lazy: coefficients are computed on demand. Equal operations on equal series are shared: the sine and
the cosine of a series, which need each other, are only two series. Products are Cauchy products,
and quotients use a recurrence, so that the total time is quadratic in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functrans.ir.check import typechecked
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, rewriting
from functrans.ir.primitive import Piecewise
from functrans.ir.types import is_inexact
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.calls.custom import resolved
from functrans.ops.control.layout import spread
from functrans.records import NamedTuple
from functrans.trace.stage import apply, at_source_of, rewrite
from functrans.transform.forward import tangent_graph, tangents_of_results
from functrans.transform.support import deferred

APPLIED_ONCE = frozenset({"checkpoint", "jit", "step"})
"""Primitives that apply an inner graph, which is interpreted as if it were inlined."""

IN_STEPS = frozenset({"cond", "counted_scan", "scan", "while_loop"})
"""Loops and branches, whose jvp rules accept series as well."""


class Series:
    """A power series with lazily computed coefficients.

    Zero coefficients are None; the coefficient of order 0, the value, is never None.
    """

    def __init__(
        self,
        # computes the coefficient of an order, from lower orders of this and of other series
        coefficient: Callable[[int], Any],
        moves: bool = True,  # whether any coefficient but the first may be nonzero
    ) -> None:
        self._coefficient = coefficient
        self._found: list[Any] = []
        self.moves = moves
        self.slope: Series | None = None

    def __getitem__(self, order: int) -> Any:
        if order and not self.moves:
            return None
        while len(self._found) <= order:
            self._found.append(self._coefficient(len(self._found)))
        return self._found[order]

    def has(self, order: int) -> bool:
        """Whether all coefficients up to this order are computed."""
        return not self.moves or len(self._found) > order


def constant(value: Any) -> Series:
    """The series of a constant."""
    return Series(lambda order: value, moves=False)


def given(value: Any, coefficients: Sequence[Any]) -> Series:
    """The series of a value with given coefficients; the others are zero."""
    known = [value, *coefficients]
    return Series(lambda order: known[order] if order < len(known) else None)


def derivative(series: Series) -> Series:
    """The series of the derivative."""

    def coefficient(order: int) -> Any:
        following = series[order + 1]
        if following is None:
            return zeros_like(series[0]) if order == 0 else None
        return following if order == 0 else following * (order + 1)

    if series.slope is None:
        series.slope = Series(coefficient)
    return series.slope


class Taylor(NamedTuple):
    """A graph of outputs, and of the coefficients of those that are not constant."""

    # maps the inputs, and the coefficients of the moving ones (by input, from the first order to
    # the last), to the outputs, and the coefficients of the moving ones
    graph: Graph
    nonzero: tuple[bool, ...]  # which outputs move


@rewriting(512)
@typechecked
def taylor_graph(
    graph: Graph,
    moving: tuple[bool, ...],
    instantiate: tuple[bool, ...] | None = None,
    *,
    order: int,
    degree: int | None = None,
) -> Taylor:
    """The Taylor coefficients of the outputs, up to an order, from those of the inputs.

    ``instantiate``: which outputs have coefficients of zeros if they do not move. ``degree``: that
    of the series of the inputs, if it is less than the order.
    """
    given_order = order if degree is None else degree
    nonzero: list[bool] = []

    def run(*inputs: Any) -> list[Any]:
        values, coefficients = inputs[: len(moving)], list(inputs[len(moving) :])
        series = []
        for x, flag in zip(values, moving, strict=True):
            own, coefficients = (
                (coefficients[:given_order], coefficients[given_order:])
                if flag
                else ((), coefficients)
            )
            series.append(given(x, own) if flag else constant(x))
        outs = _Interpreter(order).outputs(graph, series, eager=True)
        flags = [
            is_inexact(atom.aval.dtype) and (out.moves or bool(instantiate and instantiate[i]))
            for i, (atom, out) in enumerate(zip(graph.outputs, outs, strict=True))
        ]
        nonzero.extend(flags)
        found = [
            zeros_like(atom.aval) if out[k] is None else out[k]
            for atom, out, flag in zip(graph.outputs, outs, flags, strict=True)
            if flag
            for k in range(1, order + 1)
        ]
        return [*(out[0] for out in outs), *found]

    moved = [a.update() for a, flag in zip(graph.in_avals, moving, strict=True) if flag]
    avals = [*graph.in_avals, *(aval for aval in moved for _ in range(given_order))]
    return Taylor(rewrite(run, avals), tuple(nonzero))


class _Interpreter:
    """Interprets graphs on series."""

    def __init__(self, order: int) -> None:
        self.order = order
        self._applied: dict[Any, Sequence[Series]] = {}
        self._literals: dict[Any, Series] = {}
        self._kept: list[Series] = []
        """All operands, kept alive since their ids are in the keys of memoised results."""

    def outputs(
        self, graph: Graph, inputs: Sequence[Series], *, eager: bool = False
    ) -> list[Series]:
        """The outputs of a graph; if ``eager``, all coefficients are computed in order."""
        graph = resolved(graph)
        env: dict[Atom, Series] = dict(zip(graph.inputs, inputs, strict=True))

        def read(atom: Atom) -> Series:
            return self._literal(atom) if isinstance(atom, Literal) else env[atom]

        for eqn in graph.eqns:
            results = self._results(eqn, [read(atom) for atom in eqn.inputs])
            env.update(zip(eqn.outputs, results, strict=True))
            for series in results if eager else ():
                series[self.order]
        return [read(atom) for atom in graph.outputs]

    def _literal(self, literal: Literal) -> Series:
        if literal.key not in self._literals:
            self._literals[literal.key] = constant(literal.value)
        return self._literals[literal.key]

    def _results(self, eqn: Eqn, operands: Sequence[Series]) -> Sequence[Series]:
        if eqn.primitive.name in APPLIED_ONCE:
            return self.outputs(eqn.params["graph"], operands)
        key = (eqn.primitive, tuple(map(id, operands)), eqn.primitive.keyed(eqn.params))
        if key not in self._applied:
            self._kept += operands
            self._applied[key] = self._apply(eqn, operands)
        return self._applied[key]

    def _apply(self, eqn: Eqn, operands: Sequence[Series]) -> Sequence[Series]:
        primitive = eqn.primitive
        moving = [i for i, x in enumerate(operands) if x.moves and _is_inexact(eqn.inputs[i])]
        values = deferred(lambda: apply(eqn, [x[0] for x in operands]))
        if not moving or isinstance(primitive.jvp, Piecewise):
            return self._series(eqn, values, None)
        if primitive.name in IN_STEPS:
            return _Steps(eqn, operands, moving, self.order).results
        groups = [set(group) for group in primitive.linear_groups(len(operands))]
        if any(group.issuperset(moving) for group in groups):
            rule = partial(_of_linear, eqn, operands, moving, values)
        elif len(moving) == 2 and groups == [{i} for i in moving]:
            rule = partial(_of_product, eqn, operands, moving)
        elif primitive.quotient in moving and _divides(primitive.quotient, moving, groups):
            return self._quotient(eqn, operands, moving, values)
        else:
            return self._by_slope(eqn, operands, moving, values)
        return self._series(eqn, values, lambda number, k: rule(k)[number])

    def _series(
        self, eqn: Eqn, values: Callable[[], Sequence[Any]], rule: Callable[[int, int], Any] | None
    ) -> list[Series]:
        """The results of an equation, from their values and a rule for ``(result, order)``."""

        def coefficient(number: int, order: int) -> Any:
            if order == 0:
                return values()[number]
            assert rule is not None
            with at_source_of(eqn, "tangent"):
                return rule(number, order)

        return [
            Series(partial(coefficient, i), rule is not None and _is_inexact(var))
            for i, var in enumerate(eqn.outputs)
        ]

    def _quotient(
        self,
        eqn: Eqn,
        operands: Sequence[Series],
        moving: Sequence[int],
        values: Callable[[], Sequence[Any]],
    ) -> Sequence[Series]:
        """For ``B y = a``, coefficient k of y is that of a, minus B's times y's, over B's value."""
        divisor = eqn.primitive.quotient
        primals = [x[0] for x in operands]

        def rule(number: int, order: int) -> Any:
            tangents = [x[order] if i in moving else None for i, x in enumerate(operands)]
            total = _pushed(eqn, primals, tangents, values())
            for j in range(1, order):
                before = y[order - j]
                if before is not None:
                    of_divisor = [x[j] if i == divisor else None for i, x in enumerate(operands)]
                    total = _sum(total, _pushed(eqn, primals, of_divisor, [before]))
            return total

        (y,) = self._series(eqn, values, rule)
        return [y]

    def _by_slope(
        self,
        eqn: Eqn,
        operands: Sequence[Series],
        moving: Sequence[int],
        values: Callable[[], Sequence[Any]],
    ) -> Sequence[Series]:
        """The series of a result, whose derivative the jvp rule gives."""

        def make() -> Sequence[Series | None]:
            single = Graph(inputs, [Eqn(eqn.primitive, atoms, outs, eqn.params, eqn.source)], outs)
            flags = tuple(i in moving for i in variables)
            tangent = tangent_graph(single, flags)
            every = [*(operands[i] for i in variables), *results]
            needed = [every[i] for i in tangent.needed]
            slopes = [derivative(operands[i]) for i in moving]
            found = self.outputs(tangent.graph, [*needed, *slopes])
            return spread(found, tangent.nonzero)

        def rule(number: int, order: int) -> Any:
            slope = derivatives()[number]
            below = None if slope is None else slope[order - 1]
            return below if below is None or order == 1 else below / order

        variables = [i for i, atom in enumerate(eqn.inputs) if isinstance(atom, Var)]
        inputs = [Var(eqn.inputs[i].aval) for i in variables]
        taken = dict(zip(variables, inputs, strict=True))
        atoms = [taken.get(i, atom) for i, atom in enumerate(eqn.inputs)]
        outs = [Var(var.aval) for var in eqn.outputs]
        derivatives = deferred(make)
        results = self._series(eqn, values, rule)
        return results


class _Steps:
    """A loop or a branch: its jvp rule, with a tuple of coefficients for each tangent."""

    def __init__(
        self, eqn: Eqn, operands: Sequence[Series], moving: Sequence[int], order: int
    ) -> None:
        self._eqn, self._operands, self._moving = eqn, operands, moving
        self._most = order
        self._order = -1
        self._outs: Sequence[Any] = ()
        self._moved: Sequence[Any] = ()
        self.results = [
            Series(partial(self._coefficient, i), _is_inexact(var))
            for i, var in enumerate(eqn.outputs)
        ]

    def _coefficient(self, number: int, order: int) -> Any:
        if order > self._order:
            whole = all(x.has(self._most) for x in self._operands)
            self._compute(self._most if whole else order)
        if order == 0:
            return self._outs[number]
        moved = self._moved[number]
        return None if moved is None else moved[order - 1]

    def _compute(self, order: int) -> None:
        """Compute the coefficients up to an order."""
        eqn, self._order = self._eqn, order
        primals = [x[0] for x in self._operands]
        if order == 0:
            self._outs = apply(eqn, primals)
            return
        coefficients = [
            tuple(_filled(x[k], x[0]) for k in range(1, order + 1)) if i in self._moving else None
            for i, x in enumerate(self._operands)
        ]
        tangents = [c if c is None or order > 1 else c[0] for c in coefficients]
        transform = partial(taylor_graph, order=order)
        jvp: Any = eqn.primitive.jvp
        with at_source_of(eqn, "tangent"):
            self._outs, moved = jvp(
                primals, tangents, transform=transform, order=order, **eqn.params
            )
        self._moved = [m if m is None or order > 1 else (m,) for m in moved]


def _is_inexact(atom: Atom) -> bool:
    return is_inexact(atom.aval.dtype)


def _divides(divisor: int | None, moving: Sequence[int], groups: Sequence[set[int]]) -> bool:
    """Whether all moving operands except the divisor belong to the dividend."""
    return any(group.issuperset(set(moving) - {divisor}) for group in groups)


def _filled(x: Any, like: Any) -> Any:
    return zeros_like(like) if x is None else x


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _pushed(eqn: Eqn, primals: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    """The tangent of the only result."""
    if all(t is None for t in tangents):
        return None
    (tangent,) = tangents_of_results(eqn, primals, tangents, outs)
    return tangent


def _of_linear(
    eqn: Eqn,
    operands: Sequence[Series],
    moving: Sequence[int],
    values: Callable[[], Sequence[Any]],
    order: int,
) -> Sequence[Any]:
    """A coefficient of a linear primitive's results, from the same one of its operands."""
    tangents = [x[order] if i in moving else None for i, x in enumerate(operands)]
    if all(t is None for t in tangents):
        return [None] * len(eqn.outputs)
    return tangents_of_results(eqn, [x[0] for x in operands], tangents, values())


def _of_product(
    eqn: Eqn, operands: Sequence[Series], moving: Sequence[int], order: int
) -> Sequence[Any]:
    """A coefficient of a product: the sum of all products of total order k (Cauchy)."""
    total: Any = None
    for j in range(order + 1):
        parts = [x[0] for x in operands]
        first, second = operands[moving[0]][j], operands[moving[1]][order - j]
        if first is not None and second is not None:
            parts[moving[0]], parts[moving[1]] = first, second
            total = _sum(total, eqn.primitive(*parts, **eqn.params))
    return [total]
