"""Symbolic sizes: extents become parameters of kernels, so that one kernel serves many sizes.

Expects the statements of a nest. Leaves a kernel, and the buffers and sizes to call it with. Small
numbers remain constants, because they determine the form of code. A size argument is therefore
known to be larger than the largest constant of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import BOOL, Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Column, For, Kernel, Statement, size
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import rebuilt, walk
from functrans.lower.kernel.array_linearisation import linear_places
from functrans.lower.nest.bodies import Nest
from functrans.records import NamedTuple


class Kernels(NamedTuple):
    """Which numbers in kernels are constants, and which are arguments. Not measured."""

    largest_constant: int = 16
    """Numbers up to this remain constants: they determine the form of code. Larger extents are
    arguments, so that one kernel serves many sizes."""
    constant_scratch: bool = False
    """Whether scratch has constant sizes: shared memory is laid out when a kernel is compiled."""


_ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "min", "max", "where"})
_COMPARISONS = frozenset({"eq", "ne", "lt", "le"})
_LOGIC = frozenset({"and", "or", "not"})


def parametrise(
    nest: Nest,
    homes: Mapping[Buffer, Buffer],  # the buffers that are stored in others
    columns: Mapping[Buffer, Column],  # those that are parts of records
    target: Target,
) -> tuple[Kernel, list[Buffer], list[int]]:
    """A kernel whose sizes are arguments; the buffers and the sizes to call it with.

    The last sizes are the iterations of the program's loops.
    """
    kernel, buffers, sizes = _Parametriser(nest, homes, columns, target).run(nest.body)
    if nest.turns:
        places = {turn: size(len(sizes) + number) for number, turn in enumerate(nest.turns)}
        body = substituted(kernel.body, places, Simplifier())
        kernel = replace(kernel, body=body, sizes=len(sizes) + len(places), turns=len(places))
    return replace(kernel, team=nest.team, private=nest.private), buffers, sizes


class _Parametriser:
    def __init__(
        self,
        nest: Nest,
        homes: Mapping[Buffer, Buffer],
        columns: Mapping[Buffer, Column],
        target: Target,
    ) -> None:
        self.largest = max(target[Kernels].largest_constant, nest.largest_constant)
        self.scratch = set(nest.scratch)
        self.constant = self.scratch if target[Kernels].constant_scratch else set()
        self.homes, self.columns = homes, columns
        # kernels in loops of the program are verified together, on buffers that must have the same
        # shape in all of them; and on a grid, buffers have one axis anyway
        shapes_stay = nest.turns or target.lanes_are_threads
        self.places = (
            {} if shapes_stay else linear_places(nest.body, homes, {*nest.scratch, *columns})
        )
        self.slots: dict[int, Scalar] = {}
        self.extents = [n for n in _extents(nest.body) if n > self.largest]
        self.buffers: dict[Buffer, Buffer] = {}
        self.done: dict[tuple[Scalar, bool], Scalar] = {}
        self.like_index: dict[Scalar, bool] = {}

    def run(self, body: Sequence[Statement]) -> tuple[Kernel, list[Buffer], list[int]]:
        statements = self.statements(tuple(body))
        outer = [buffer for buffer in self.buffers if buffer not in self.scratch]
        rows = tuple(new for old, new in self.buffers.items() if old in self.scratch)
        kernel = Kernel(tuple(self.buffers[b] for b in outer), len(self.slots), statements, rows)
        return kernel, outer, list(self.slots)

    def buffer(self, old: Buffer) -> Buffer:
        old = self.homes.get(old, old)
        if old not in self.buffers and old in self.places:
            self.buffers[old] = Buffer(old.name, old.dtype, (ZERO,))
        if old not in self.buffers and old in self.constant:
            self.buffers[old] = old
        if old not in self.buffers:
            # the first extent does not affect the offsets of elements
            shape = tuple(
                extent if axis == 0 and old not in self.scratch else self.bound(extent)
                for axis, extent in enumerate(old.shape)
            )
            if shape and old not in self.scratch and shape[0].op == "const":
                shape = (ZERO, *shape[1:])
            self.buffers[old] = Buffer(old.name, old.dtype, shape, self.columns.get(old))
        return self.buffers[old]

    def bound(self, extent: Scalar) -> Scalar:
        return self.visit(extent, True)

    def statement(self, old: Statement) -> Statement:
        return rebuilt(
            old,
            body=self.statements,
            values=lambda nodes: [self.value(node) for node in nodes],
            indices=self.bounds,
            element=lambda one, at: (self.buffer(one), self.bounds(self.position(one, at))),
            buffer=self.buffer,
        )

    def statements(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map(self.statement, body))

    def position(self, target: Buffer, indices: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """The indices of an element in the kernel's buffer."""
        places = self.places.get(self.homes.get(target, target))
        return indices if places is None else (places[indices],)

    def bounds(self, nodes: Sequence[Scalar]) -> tuple[Scalar, ...]:
        return tuple(map(self.bound, nodes))

    def value(self, node: Scalar) -> Scalar:
        return self.visit(node, False)

    def visit(self, root: Scalar, as_index: bool) -> Scalar:
        """The expression with its sizes replaced; `as_index` if all of it is index arithmetic."""
        stack = [(root, as_index)]
        while stack:
            key = stack[-1]
            if key in self.done:
                stack.pop()
                continue
            node, force = key
            inside = self._inside(node, force)
            args = self.position(node.attribute, node.args) if node.op == "load" else node.args
            if node.op == "add" and inside:
                args = tuple(map(self._from_the_end, args))
            needed = [(arg, inside) for arg in args]
            missing = [item for item in needed if item not in self.done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self.done[key] = self._rebuild(node, [self.done[item] for item in needed], force)
        return self.done[root, as_index]

    def _from_the_end(self, node: Scalar) -> Scalar:
        """A constant as the sum of an extent and a small number, if there is one.

        Elements that are neighbours in an array that is read backwards are then recognised as such.
        """
        number = int(node.attribute) if node.op == "const" else 0
        if abs(number) <= self.largest or number in self.extents:
            return node
        for extent in self.extents:
            if abs(number - extent) <= self.largest:
                return Scalar("add", (const(extent, INDEX), const(number - extent, INDEX)), INDEX)
        return node

    def _inside(self, node: Scalar, force: bool) -> bool:
        """Whether the operands of a node are index arithmetic."""
        if node.op in ("load", "checked"):
            return True
        if node.op in _COMPARISONS:
            return any(arg.dtype == INDEX and (force or self._is_index(arg)) for arg in node.args)
        if node.dtype == BOOL and node.op in _LOGIC:
            return force
        if node.dtype == INDEX and node.op in _ARITHMETIC:
            return force or self._is_index(node)
        if node.op == "convert":
            # a number of steps, as in tables of twiddle factors, which have one kernel then
            return force or node.args[0].op == "const"
        # a constant divisor is worth a kernel of its own
        return False

    def _is_index(self, node: Scalar) -> bool:
        """Whether an int64 expression consists of loop indices."""
        known = self.like_index
        for inner in postorder([node], known=known):
            known[inner] = inner.op == "index" or (
                inner.dtype == INDEX
                and inner.op in _ARITHMETIC
                and any(known[arg] for arg in inner.args)
            )
        return known[node]

    def _rebuild(self, node: Scalar, args: list[Scalar], force: bool) -> Scalar:
        if node.op == "const" and force and node.dtype == INDEX:
            number = int(node.attribute)
            if abs(number) <= self.largest:
                return node
            if number not in self.slots:
                self.slots[number] = size(len(self.slots))
            return self.slots[number]
        if node.op == "load":
            return Scalar("load", tuple(args), node.dtype, self.buffer(node.attribute))
        if tuple(args) == node.args:
            return node
        return Scalar(node.op, tuple(args), node.dtype, node.attribute)


def _extents(body: Sequence[Statement]) -> list[int]:
    """The known numbers of iterations of loops, also of those that are cut into blocks."""
    stops = [each.stop for each in walk(body) if isinstance(each, For)]
    known = (end for stop in stops for end in (stop.args if stop.op == "min" else (stop,)))
    return list(dict.fromkeys(int(end.attribute) for end in known if end.op == "const"))
