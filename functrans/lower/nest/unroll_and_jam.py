"""Unroll and jam: several iterations of a loop as one, statement by statement.

The iterations are independent: the first statement is executed for all of them before the second,
so that loads of adjacent elements are adjacent in the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, For, If, Let, Reduce, Statement, Store, local
from functrans.loop.walk import Body, bounds


class NotUniform(Exception):
    """The iterations would execute different statements."""


class Jam:
    """Executes statements for several iterations."""

    def __init__(
        self,
        lanes: Sequence[Mapping[Scalar, Scalar]],  # for each iteration, the substitute for an index
        simplify: Simplifier,
    ) -> None:
        self.lanes = [dict(lane) for lane in lanes]
        self.simplify = simplify

    def statements(self, body: Sequence[Statement]) -> Body:
        """The statements of all iterations.

        Raises `NotUniform` if the iterations execute different statements, or loops with different
        trip counts.
        """
        return tuple(each for statement in body for each in self._statement(statement))

    def values(self, expressions: Sequence[Scalar]) -> list[list[Scalar]]:
        """Expressions in each of the iterations."""
        return [self.simplify.substitute(expressions, lane) for lane in self.lanes]

    def _statement(self, statement: Statement) -> Sequence[Statement]:
        match statement:
            case Let():
                values = self.values(statement.values)
                return [Let(self._declared(statement.targets), _flat(values))]
            case Assign():
                values = self.values(statement.values)
                return [Assign(self._known(statement.targets), _flat(values))]
            case Store():
                return [
                    replace(statement, indices=tuple(indices), value=value)
                    for *indices, value in self.values((*statement.indices, statement.value))
                ]
            case For():
                start, stop = self._alike((statement.start, statement.stop))
                body = self.statements(statement.body)
                return [replace(statement, start=start, stop=stop, body=body)]
            case If():
                (condition,) = self._alike((statement.condition,))
                body, otherwise = map(self.statements, (statement.body, statement.otherwise))
                return [If(condition, body, otherwise)]
            case Reduce():
                return [self._reduce(statement)]
        raise NotUniform

    def _reduce(self, statement: Reduce) -> Reduce:
        alike = self._alike(bounds(statement))
        loops = tuple(
            (index, alike[2 * number], alike[2 * number + 1])
            for number, (index, *_) in enumerate(statement.loops)
        )
        body = self.statements(statement.body)
        values = _flat(self.values(statement.values))
        targets = self._declared(statement.targets)
        ops = statement.ops * len(self.lanes)
        return replace(statement, targets=targets, ops=ops, values=values, loops=loops, body=body)

    def _declared(self, targets: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """The locals of each iteration, for those of one."""
        for lane in self.lanes:
            lane.update({one: local(one.dtype, one.attribute[0]) for one in targets})
        return self._known(targets)

    def _known(self, targets: Sequence[Scalar]) -> tuple[Scalar, ...]:
        if any(one not in lane for lane in self.lanes for one in targets):
            raise NotUniform  # an iteration passes a value to the next
        return tuple(lane[one] for lane in self.lanes for one in targets)

    def _alike(self, expressions: Sequence[Scalar]) -> list[Scalar]:
        first, *others = self.values(expressions)
        if any(other != first for other in others):
            raise NotUniform
        return first


def _flat(values: Sequence[Sequence[Scalar]]) -> tuple[Scalar, ...]:
    return tuple(value for own in values for value in own)
