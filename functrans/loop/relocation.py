"""Buffer substitution: statements on other memory, such as subarrays or locals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Address,
    Buffer,
    Call,
    For,
    If,
    Let,
    Statement,
    Store,
    While,
    load,
    local,
)
from functrans.loop.substitution import Position
from functrans.loop.walk import children, rebuilt
from functrans.loop.walk import expressions as direct


class Relocation:
    """Inlines the statements of an inner graph, on the buffers of the enclosing graph."""

    def __init__(self, simplify: Simplifier) -> None:
        self.simplify = simplify
        self.moved: dict[Buffer, tuple[Buffer, Position]] = {}
        """Buffers that are subarrays of others: element ``i`` is the other's at ``prefix + i``."""
        self.placed: dict[Buffer, Callable[[Position], tuple[Buffer, Position]]] = {}
        """Buffers with another layout: functions from positions to elements."""
        self.held: dict[Buffer, dict[Position, Scalar]] = {}
        """Buffers whose elements are locals."""
        self.made: dict[Buffer, dict[Position, Scalar]] = {}
        """Written buffers that become locals: each store declares a local, which is entered
        here."""

    def expressions(self, expressions: Sequence[Scalar]) -> list[Scalar]:
        """The expressions, with loads from the new memory."""
        replaced: dict[Scalar, Scalar] = {}
        for node in postorder(expressions):
            if node.op != "load":
                continue
            source = node.attribute
            if source in self.held:
                replaced[node] = self.held[source][node.args]
            elif source in self.made:
                replaced[node] = self.made[source][node.args]
            elif source in self.moved or source in self.placed:
                inner = tuple(self.simplify.substitute(node.args, replaced))
                replaced[node] = load(*self._place(source, inner))
        return self.simplify.substitute(expressions, replaced)

    def _one(self, expression: Scalar) -> Scalar:
        return self.expressions([expression])[0]

    def _element(self, target: Buffer, position: Position) -> tuple[Buffer, Position]:
        return self._place(target, tuple(self.expressions(position)))

    def _place(self, target: Buffer, position: Position) -> tuple[Buffer, Position]:
        """The new position of an element."""
        if target in self.placed:
            new, position = self.placed[target](position)
            return new, tuple(map(self.simplify, position))
        new, prefix = self.moved.get(target, (target, ()))
        return new, (*prefix, *position)

    def statements(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """The statements on the new memory."""
        return tuple(map(self.statement, statements))

    def statement(self, old: Statement) -> Statement:
        if isinstance(old, Store) and old.target in self.made:
            name = local(old.target.dtype, old.target.name)
            value = self._one(old.value)
            self.made[old.target][old.indices] = name
            return Let((name,), (value,))
        new = rebuilt(
            old,
            body=self.statements,
            values=self.expressions,
            indices=self.expressions,
            element=self._element,
            buffer=lambda one: self.moved.get(one, (one,))[0],
        )
        if isinstance(old, Call) and isinstance(new, Call) and old.rows is not None:
            # the new buffers may have additional leading axes
            axes = {n: self._axis(old.arguments[n], axis) for n, axis in old.rows.axes.items()}
            return replace(new, rows=replace(old.rows, axes=axes))
        return new

    def _axis(self, argument: Address | Scalar | bytes, axis: int) -> int:
        assert isinstance(argument, Address)
        return axis + len(self.moved.get(argument.target, (None, ()))[1])


def constant_positions(statements: Iterable[Statement], buffers: set[Buffer]) -> set[Buffer]:
    """The buffers whose elements are only accessed individually, at constant indices."""
    from_memory: set[Buffer] = set()

    def look(expressions: Iterable[Scalar]) -> None:
        for node in postorder(expressions):
            if node.op == "load" and any(i.op != "const" for i in node.args):
                from_memory.add(node.attribute)

    def visit(statement: Statement) -> None:
        look(direct(statement))
        if isinstance(statement, Store) and any(i.op != "const" for i in statement.indices):
            from_memory.add(statement.target)
        if isinstance(statement, Call):
            from_memory.update(statement.reads, statement.writes)
        for child in children(statement):
            if isinstance(statement, (For, If, While)) and isinstance(child, Store):
                # a local declared inside is not visible outside
                from_memory.add(child.target)
            visit(child)

    for each in statements:
        visit(each)
    return buffers - from_memory
