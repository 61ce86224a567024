"""Non-finite values: whether results contain any, and which equation produced the first one.

A compiled program has a flag for non-finite results. If it is set, the program is evaluated again,
equation by equation, and each NaN is traced back from the results to the equation that produced it
from finite operands. A NaN that a mask removes does not reach a result, and is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import cached
from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined
from functrans.ir.observe import Observer, observed
from functrans.ir.types import Aval, is_inexact
from functrans.ops.calls.effect import effect, has_effects, without_effects
from functrans.ops.elementwise.logic import isfinite, isnan
from functrans.ops.elementwise.stop import required_good
from functrans.ops.reductions.reduce import reduce_or
from functrans.records import NamedTuple
from functrans.run.call.failures import by_numpy
from functrans.trace.source import located
from functrans.trace.stage import stage


def flagged(
    graph: Graph,
    kind: str,  # ``"nan"``, or ``"finite"`` for infinities as well
) -> tuple[Graph, bool]:
    """A graph that checks its outputs, and whether it has the flag as an additional output.

    Outputs of elementwise operations are checked in the loops that compute them, where the call
    fails with `NOT_FINITE`. A call with effects must not be repeated: it gets a flag instead.
    """
    made_by = {var: eqn.primitive for eqn in graph.eqns for var in eqn.outputs}
    fails = not any(eqn.primitive is effect or has_effects(eqn) for eqn in graph.eqns)
    eqns: list[Eqn] = []
    outputs: list[Atom] = []
    others: list[Atom] = []
    for atom in graph.outputs:
        outputs.append(atom)
        if not is_inexact(atom.aval.dtype):
            continue
        if fails and isinstance(atom, Var) and atom in made_by and made_by[atom].elementwise:
            good = outputs[-1] = Var(atom.aval)
            eqns.append(Eqn(required_good, [atom], [good], {"kind": kind}))
        else:
            others.append(atom)
    if not others:
        return Graph(graph.inputs, [*graph.eqns, *eqns], outputs), False
    flag = _flag(tuple(Aval(atom.aval.shape, atom.aval.dtype) for atom in others), kind)
    more, results = inlined(flag, others)
    return Graph(graph.inputs, [*graph.eqns, *eqns, *more], [*outputs, *results]), True


@cached(256)
def _flag(avals: tuple[Aval, ...], kind: str) -> Graph:
    """A graph that tells whether one of some results contains a bad value."""

    def is_any_bad(*arrays: Any) -> list[Any]:
        bad = [isnan(x) if kind == "nan" else ~isfinite(x) for x in arrays]
        found = [reduce_or(x, axes=tuple(range(x.ndim))) if x.ndim else x for x in bad]
        return [reduce(lambda x, y: x | y, found, np.False_)]

    return stage(is_any_bad, avals, kind="check_values").graph


def is_bad(x: Any) -> bool:
    return bool(_bad(x).any())


def _bad(x: Any) -> Any:
    """A mask of the bad values of an array."""
    array = _numbers(x)
    if not is_inexact(array.dtype):
        return np.zeros((), bool)
    return np.isnan(array) if config.check_values == "nan" else ~np.isfinite(array)


def _numbers(x: Any) -> Any:
    """An array; for a ragged stack, the concatenation of its rows."""
    array = np.asarray(x)
    if array.dtype != object:
        return array
    rows = [np.ravel(_numbers(row)) for row in array.flat]
    return np.concatenate(rows) if rows else np.zeros(0)


class Origin(NamedTuple):
    """The equation that produced a non-finite value from finite ones; prints as a message."""

    eqn: Eqn
    operands: Sequence[Any]
    result: Any
    steps: tuple[tuple[Eqn, int], ...]
    """The enclosing loops, from the outermost on, with the step of each."""
    overflow: Origin | None
    """The origin of an infinite operand, if there is one."""

    def __str__(self) -> str:
        array = np.asarray(self.result)
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        value = "NaN" if np.isnan(array[index]) else str(array[index])
        place = f", element {list(index)} of {_kind(array)}" if index else ""
        operands = ", ".join(_at(x, index, array) for x in self.operands)
        lines = [
            f"{self.eqn.primitive.name} gives {value}{_written(self.eqn)}",
            f"  of operands {operands}{place}",
            *(f"  in {step}" for step in self._steps()),
        ]
        if self.overflow is not None:
            made = self.overflow
            steps = "".join(f", in {step}" for step in made._steps())
            lines.append(
                f"  the infinity was made by {made.eqn.primitive.name}{_written(made.eqn)}"
            )
            if made.steps != self.steps:
                lines[-1] += steps
        return "\n".join(lines)

    def _steps(self) -> Iterator[str]:
        for loop, step in self.steps:
            yield f"step {step} of the {loop.primitive.name}{located(loop.source)}"


def _written(eqn: Eqn) -> str:
    """The user's source line of an equation, or of its primal equation."""
    is_derivative = eqn.source is not None and eqn.source.derivative
    return f"{' in the derivative of the line' if is_derivative else ''}{located(eqn.source)}"


def _kind(array: Any) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _at(operand: Any, index: tuple[int, ...], result: Any) -> str:
    """An operand's element at a result's position, or the range of an operand of another shape."""
    array = np.asarray(operand)
    if not array.ndim:
        return str(array[()])
    if array.shape == result.shape:
        return str(array[index])
    if not array.size or array.dtype.kind == "c":
        return _kind(array)
    return f"{_kind(array)} from {np.min(array)} to {np.max(array)}"


def origin_of(graph: Graph, inputs: Sequence[Any]) -> Origin | None:
    """The origin of the first bad value among a graph's outputs; None if it was an input."""
    finder = _Finder()
    with np.errstate(all="ignore"), observed(finder):
        by_numpy(without_effects(graph), inputs)
    return finder.found


class _Level:
    """A graph under evaluation."""

    def __init__(self) -> None:
        self.bad: dict[Atom, Origin] = {}
        self.infinite: dict[Atom, Origin] = {}
        self.eqn: Eqn | None = None
        self.operands: Sequence[Any] = ()
        self.step = -1
        self.inside: tuple[Origin | None, Origin | None] = None, None
        """The origins of the first bad, and the first infinite, result of an inner graph."""


class _Finder(Observer):
    """An observer of an evaluation that records the origins of non-finite values."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []
        self.found: Origin | None = None

    def enter(self, graph: Graph, inputs: Sequence[Any]) -> None:
        if self.levels:
            self.levels[-1].step += 1
        self.levels.append(_Level())

    def before(self, eqn: Eqn, operands: Sequence[Any]) -> None:
        level = self.levels[-1]
        level.eqn, level.operands = eqn, operands
        level.step, level.inside = -1, (None, None)

    def after(self, eqn: Eqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
        level = self.levels[-1]
        bad, infinite = level.inside
        for var, result in zip(eqn.outputs, results, strict=True):
            if not is_inexact(var.aval.dtype) or np.isfinite(_numbers(result)).all():
                continue
            overflow = _first(level.infinite, eqn.inputs) or infinite
            level.infinite[var] = overflow or self._made(eqn, operands, result, None)
            if is_bad(result):
                origin = _first(level.bad, eqn.inputs) or bad
                if origin is None and not any(map(is_bad, operands)):
                    origin = self._made(eqn, operands, result, overflow)
                if origin is not None:
                    level.bad[var] = origin

    def _made(
        self, eqn: Eqn, operands: Sequence[Any], result: Any, overflow: Origin | None
    ) -> Origin:
        steps = tuple(
            (level.eqn, _number(level.eqn, level.operands, level.step))
            for level in self.levels[:-1]
            if level.eqn is not None and level.eqn.primitive.name in _LOOPS
        )
        return Origin(eqn, operands, result, steps, overflow)

    def leave(self, graph: Graph, outputs: Sequence[Any]) -> None:
        level = self.levels.pop()
        found = _first(level.bad, graph.outputs), _first(level.infinite, graph.outputs)
        if not self.levels:
            self.found = found[0]
            return
        outer = self.levels[-1]
        outer.inside = outer.inside[0] or found[0], outer.inside[1] or found[1]


_LOOPS = {"scan", "counted_scan", "while_loop"}


def _number(loop: Eqn, operands: Sequence[Any], count: int) -> int:
    """The step number of a loop, from the count of inner graphs that it has evaluated."""
    if loop.primitive.name == "while_loop":
        return count // 2  # the condition is evaluated before each step
    if not loop.params["reverse"]:
        return count
    is_counted = loop.primitive.name == "counted_scan"
    return int(operands[0] if is_counted else loop.params["length"]) - 1 - count


def _first(known: dict[Atom, Origin], atoms: Sequence[Atom]) -> Origin | None:
    return next((known[atom] for atom in atoms if isinstance(atom, Var) and atom in known), None)
