"""Reference interpreter of the loop language, one scalar operation after another.

Printers are tested against it. Statements are executed in order, and bands of parallel loops in any
order that the caller gives. Uninitialised memory is tracked, and reading it is a `Fault`. Sums have
the number of partial results that the statement says, combined pairwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.loop import fragments
from functrans.loop.domain import Fault
from functrans.loop.failures import OUT_OF_BOUNDS
from functrans.loop.functions import expanded
from functrans.loop.nodes import identity
from functrans.loop.reshaping import as_in_kernel
from functrans.loop.scalar import OPERATIONS, Scalar, meaning, postorder
from functrans.loop.statements import (
    Address,
    Assign,
    Await,
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Kernel,
    Let,
    MatrixMultiply,
    Panel,
    Reduce,
    Statement,
    Store,
    While,
)

Array = np.ndarray[Any, Any]

Operation = Callable[[list[Any]], Any]
"""What is made of the values of operands."""

Order = list[tuple[Scalar, Operation | None]]

Routines = Callable[[str, Sequence[Array]], None]
"""Calls a library routine: its symbol, and its arguments as arrays that begin where they are."""


class Memory:
    """An array, and which of its elements have been written."""

    def __init__(self, array: Array, written: bool) -> None:
        self.array = array
        self.written = np.full(array.shape, written)

    def reshaped(self, shape: tuple[int, ...]) -> Memory:
        """The same memory in another shape."""
        other = Memory(self.array.reshape(shape), written=False)
        other.written = self.written.reshape(shape)
        return other


def evaluate(
    kernel: Kernel,
    memory: Sequence[Memory],
    sizes: Sequence[int],
    routines: Routines | None = None,
    order: Callable[[int], Iterable[int]] = range,
) -> int:
    """Run a kernel on arrays; gives its status: 0, or how it has failed.

    Parameters
    ----------
    kernel : Kernel
    memory : sequence of Memory
        What its buffers are.
    sizes : sequence of int
    routines : callable
        Needed if the kernel calls any.
    order : callable
        The order of so many iterations of the kernel's band: any loop's with any others'.

    Raises
    ------
    Fault
        If an element is read that was not written, or is not in its buffer.
    """
    run = Interpreter(kernel, memory, sizes, routines)
    with np.errstate(all="ignore"):
        band = kernel.band
        if not band:
            run.clear_scratch()
            run.statements(kernel.body)
            return run.status
        chunks = list(run.chunks(band))
        for number in order(len(chunks)):
            outside, inside = chunks[number]
            # another thread may do it, which has its own rows and locals
            run.clear_scratch()
            run.known = dict(outside)
            run.iterations(band[-1], inside)
    return run.status


class Interpreter:
    def __init__(
        self,
        kernel: Kernel,
        memory: Sequence[Memory],
        sizes: Sequence[int],
        routines: Routines | None,
    ) -> None:
        self.kernel = kernel
        self.sizes = sizes
        self.routines = routines
        self.status = 0
        self.known: dict[Scalar, Any] = {}
        """The values of indices and locals."""
        self.memory: dict[Buffer, Memory] = {
            one: self._in_kernel(one, given)
            for one, given in zip(kernel.buffers, memory, strict=True)
        }

    def _in_kernel(self, one: Buffer, given: Memory) -> Memory:
        """The memory that a buffer of the kernel stands for, in its shape."""
        inner = [int(self.value(extent)) for extent in one.shape[1:]]
        shape = as_in_kernel(given.array.shape, inner, bool(one.shape))
        if shape is None:
            raise Fault(f"{one} stands for an array of the shape {given.array.shape}")
        return given if shape == given.array.shape else given.reshaped(shape)

    def clear_scratch(self) -> None:
        for row in self.kernel.scratch:
            shape = [int(self.value(extent)) for extent in row.shape]
            self.memory[row] = Memory(np.zeros(shape, row.dtype), written=False)

    # -- statements ---------------------------------------------------------------------------

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Store():
                value = self.value(statement.value)
                self._store(statement, value)
            case Let() | Assign():
                values = [self.value(value) for value in statement.values]
                self.known.update(zip(statement.targets, values, strict=True))
            case For():
                self.iterations(
                    statement,
                    range(int(self.value(statement.start)), int(self.value(statement.stop))),
                )
            case Reduce():
                self._reduce(statement)
            case If():
                holds = self.value(statement.condition)
                self.statements(statement.body if holds else statement.otherwise)
            case While():
                while True:
                    self.statements(statement.prepare)
                    if not self.value(statement.condition) or self.status:
                        break
                    self.statements(statement.body)
            case Call():
                self._call(statement)
            case MatrixMultiply():
                self._multiply(statement)
            case Await():
                self.wait(statement)
            case Barrier():
                """One after another is what a barrier is about."""

    def chunks(self, band: Sequence[For]) -> Iterator[tuple[dict[Scalar, Any], range]]:
        """The iterations of a band of loops; of the innermost one, as many as it has lanes."""
        loop, *inner = band
        start, stop = int(self.value(loop.start)), int(self.value(loop.stop))
        if not inner:
            for first in range(start, stop, loop.lanes):
                yield dict(self.known), range(first, min(first + loop.lanes, stop))
            return
        for number in range(start, stop):
            self.known[loop.index] = np.int64(number)
            yield from self.chunks(inner)

    def iterations(self, loop: For, numbers: Iterable[int]) -> None:
        """Some of the iterations of a loop."""
        for number in numbers:
            self.known[loop.index] = np.int64(number)
            self.statements(loop.body)

    def _store(self, statement: Store, value: Any) -> None:
        at = self._position(statement.target, [self.value(i) for i in statement.indices])
        if statement.op is not None:
            value = combined(statement.op, self._written(statement.target, at), value)
        self._put(statement.target, at, value)

    def wait(self, statement: Await) -> None:
        """Of one thread, late stores are done at once."""

    def _put(self, one: Buffer, at: tuple[int, ...], value: Any) -> None:
        memory = self.memory[one]
        memory.array[at] = value
        memory.written[at] = True

    def _reduce(self, statement: Reduce) -> None:
        partials = [[part] * statement.lanes for part in self.identities(statement)]
        for offset in self.offsets(statement):
            self.statements(statement.body)
            lane = offset % statement.lanes
            for own, op, value in zip(partials, statement.ops, statement.values, strict=True):
                own[lane] = combined(op, own[lane], self.value(value))
        for target, op, own in zip(statement.targets, statement.ops, partials, strict=True):
            self.known[target] = combined_by_halves(op, own)

    def identities(self, statement: Reduce) -> list[Any]:
        """What the sums of a reduction begin with."""
        return [
            np.asarray(identity(op, target.dtype), target.dtype)[()]
            for op, target in zip(statement.ops, statement.targets, strict=True)
        ]

    def offsets(self, statement: Reduce, first: int = 0, step: int = 1) -> Iterator[int]:
        """The terms of a reduction, by their places in the innermost loop: every so many."""
        *outer, (index, start, stop) = statement.loops
        ranges = [range(int(self.value(a)), int(self.value(b))) for _, a, b in outer]
        for position in product(*ranges):
            self.known.update((i, np.int64(n)) for (i, *_), n in zip(outer, position, strict=True))
            begin = int(self.value(start))
            for number in range(begin + first, int(self.value(stop)), step):
                self.known[index] = np.int64(number)
                yield number - begin

    def _multiply(self, statement: MatrixMultiply) -> None:
        """The sums of the thread that the first index of these says."""
        first = self._corner(statement.sums)
        quotient, rest = divmod(first[0] % fragments.WARP, 4)
        left, right = statement.left, statement.right
        rounded = statement.rounded
        rows = self._rows(left, fragments.own_rows(quotient, left.rows), rounded)
        columns = self._rows(right, fragments.own_columns(rest, right.rows), rounded)
        for number, own in enumerate(fragments.own_sums(left.rows, right.rows)):
            row, column = own
            at = (*first[:-1], first[-1] + number)
            total = self._load(statement.sums.target, at) + rows[row] @ columns[column]
            self._put(statement.sums.target, at, total)

    def _rows(self, panel: Panel, numbers: Sequence[int], rounded: bool) -> Array:
        """Some rows of an operand."""
        one = panel.corner.target
        shape = self.memory[one].array.shape
        first = int(np.ravel_multi_index(self._corner(panel.corner), shape))
        count = fragments.terms(one.dtype)
        rows = [
            [first + row * panel.apart + term * panel.terms_apart for term in range(count)]
            for row in numbers
        ]
        if max(map(max, rows)) >= self.memory[one].array.size:
            raise Fault(f"an operand reaches outside of {one}")
        found = [
            [self._load(one, tuple(map(int, np.unravel_index(at, shape)))) for at in row]
            for row in rows
        ]
        if one.dtype == np.float32:
            bits = np.asarray(found).view(np.uint32)
            if rounded:
                half = 1 << fragments.TF32_UNUSED >> 1
                bits = np.where(np.isnan(found), bits, (bits + half) & (2**32 - 2 * half))
                found = bits.astype(np.uint32).view(np.float32)
            if (bits & ((1 << fragments.TF32_UNUSED) - 1)).any():
                raise Fault(f"tensor cores do not look at the last bits of {one}, which are set")
        return np.asarray(found).astype(np.float64)

    def _corner(self, address: Address) -> tuple[int, ...]:
        return self._position(address.target, [self.value(i) for i in address.indices])

    def _call(self, statement: Call) -> None:
        assert self.routines is not None, "the kernel calls library routines"
        arguments: list[Array] = []
        for argument in statement.arguments:
            if isinstance(argument, Address):
                arguments.append(self._address(argument))
            elif isinstance(argument, bytes):
                arguments.append(np.frombuffer(argument, np.uint8))
            else:
                arguments.append(np.asarray(self.value(argument), argument.dtype).reshape(1))
        self.routines(statement.symbol, arguments)
        for one in statement.writes:
            # how much of it, is for `functrans.loop.verify`
            self.memory[one].written[...] = True

    def _address(self, argument: Address) -> Array:
        """The memory from an element on, which may be the end: not all of it need be used."""
        array = self.memory[argument.target].array
        first = 0
        for position, extent in zip(argument.indices, array.shape, strict=True):
            first = first * extent + int(self.value(position))
        if not 0 <= first <= array.size:
            raise Fault(f"an address outside of {argument.target}")
        return array.reshape(-1)[first:]

    # -- expressions --------------------------------------------------------------------------

    def value(self, expression: Scalar) -> Any:
        """The number that an expression is now."""
        order = _order(expression)
        if isinstance(order, Scalar):
            return self._chosen(order)
        done: dict[Scalar, Any] = {}
        for node, operation in order:
            if operation is None:
                done[node] = self._evaluate(node, done)
            else:
                done[node] = operation([done[arg] for arg in node.args])
        return done[node]

    def _chosen(self, root: Scalar) -> Any:
        """The number that an expression is, of whose choices one side each is computed."""
        done: dict[Scalar, Any] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            needed = self._needed(node, done)
            missing = [arg for arg in needed if arg not in done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            done[node] = self._evaluate(node, done)
        return done[root]

    def _needed(self, node: Scalar, done: Mapping[Scalar, Any]) -> Sequence[Scalar]:
        """The operands that a node needs now: of a choice, the condition, and then one side."""
        if node.op not in ("guard", "unlikely"):
            return node.args
        condition, yes, no = node.args
        return (condition,) if condition not in done else (yes if done[condition] else no,)

    def _evaluate(self, node: Scalar, done: Mapping[Scalar, Any]) -> Any:
        match node.op:
            case "index" | "local":
                if node not in self.known:
                    raise Fault(f"the {node.op} {node.attribute[0]} is used where there is none")
                return self.known[node]
            case "size":
                return np.int64(self.sizes[node.attribute])
            case "zero":
                return node.dtype.type(0)
            case "guard" | "unlikely":
                condition, yes, no = node.args
                return done[yes if done[condition] else no]
            case "load":
                at = self._position(node.attribute, [done[i] for i in node.args])
                return self._load(node.attribute, at)
            case "checked":
                position, extent = (done[arg] for arg in node.args)
                if 0 <= position < extent:
                    return position
                self.status = OUT_OF_BOUNDS
                return np.int64(0)
            case "required":
                condition, value = (done[arg] for arg in node.args)
                if not condition:
                    self.status = node.attribute
                return value
        return np.asarray(meaning(node, [done[arg] for arg in node.args]), node.dtype)[()]

    def _position(self, one: Buffer, indices: Sequence[Any]) -> tuple[int, ...]:
        shape = self.memory[one].array.shape
        at = tuple(int(i) for i in indices)
        if len(at) != len(shape) or not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
            raise Fault(f"{one}[{', '.join(map(str, at))}] is outside of {list(shape)}")
        return at

    def _load(self, one: Buffer, at: tuple[int, ...]) -> Any:
        return self._written(one, at)

    def _written(self, one: Buffer, at: tuple[int, ...]) -> Any:
        """An element, which somebody must have written."""
        memory = self.memory[one]
        if not memory.written[at]:
            raise Fault(f"{one}[{', '.join(map(str, at))}] is read before it is written")
        return memory.array[at]


_OF_THE_MOMENT = {
    "index", "local", "size", "zero", "guard", "unlikely", "load", "checked", "required",
}  # fmt: skip
"""What has another meaning in a kernel that runs than in an expression by itself."""


@cached(4096)
def _order(expression: Scalar) -> Scalar | Order:
    """The nodes of an expression, operands first; what has choices in it stays as it is."""
    (root,) = expanded([expression], {})
    nodes = postorder([root])
    if any(node.op in ("guard", "unlikely") for node in nodes):
        return root
    return [(node, _operation(node)) for node in nodes]


def _operation(node: Scalar) -> Operation | None:
    """What a node makes of its operands; None if that depends on more."""
    if node.op in _OF_THE_MOMENT:
        return None
    dtype, kind = node.dtype, node.dtype.type
    if node.op == "const":
        value = meaning(node, [])[()]
        return lambda args: value
    function = OPERATIONS[node.op].meaning if node.op in OPERATIONS else None

    def operation(args: list[Any]) -> Any:
        result = function(*args) if function is not None else meaning(node, args)
        return result if type(result) is kind else np.asarray(result, dtype)[()]

    return operation


def combined_by_halves(op: str, parts: Sequence[Any]) -> Any:
    """The parts of a sum, which are a power of two: each of the first half with one of the last."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combined(op, parts[i], parts[half + i]) for i in range(half)]
    return parts[0]


def combined_in_pairs(op: str, parts: Sequence[Any]) -> Any:
    """The parts of a sum, which are a power of two: neighbours first."""
    while len(parts) > 1:
        parts = [combined(op, *parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def combined(op: str, x: Any, y: Any) -> Any:
    """Two numbers combined by one of `functrans.loop.nodes.FOLDS`, or by a store's operation."""
    like = Scalar(op, (), np.asarray(x).dtype)
    return np.asarray(meaning(like, [x, y]), like.dtype)[()]
