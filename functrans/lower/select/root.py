"""Roots: materialised values, each with an iteration space and the expressions of its elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from functrans.caches import cached_property
from functrans.loop.affine import Coefficients
from functrans.loop.functions import node_count
from functrans.loop.linear_places import stride_of
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, Statement
from functrans.loop.target import Target
from functrans.lower.select.unrolling import Unrolling
from functrans.ops.compiled.elements import Index
from functrans.records import dataclass


class Root:
    """A value with an iteration space of its own: `Elements`, `Emitted` or `TeamKernel`."""

    target: Buffer
    # whether the value is an output, or is read by a call: then it is in memory in any case
    output: bool
    also_written: tuple[Buffer, ...]  # buffers that are written besides the target
    scratch: tuple[Buffer, ...]  # rows on the stack
    work: int  # roughly the number of scalar operations of its expressions
    loads: Mapping[Buffer, Sequence[Scalar]]  # the loads from each buffer that is read
    loops: tuple[Scalar, ...]
    part: bool  # whether it is one part of a join, which has the same target as the others
    nodes: Sequence[Scalar]  # every node of the expressions, once
    node_count: int  # the number of nodes, including those inside functions
    folds: Sequence[Scalar]

    def vectorises_folds(self, target: Target) -> bool:
        """Whether vectors are along the folds, and not along the innermost loop."""
        return False

    def has_strided_folds(self, target: Target) -> bool:
        """Whether folds are strided while the innermost loop is contiguous: sums of columns."""
        return False


@dataclass(frozen=True, eq=False)
class Emitted(Root):
    """Values that statements compute from memory to memory: a rule's loops, or a library call."""

    target: Buffer
    statements: tuple[Statement, ...]
    operands: tuple[Buffer, ...]  # the buffers that they read
    uncounted: int = 0  # the operations of library routines and of loops of unknown length
    also_written: tuple[Buffer, ...] = ()  # the buffers that they write besides the target
    scratch: tuple[Buffer, ...] = ()  # the scratch that they need
    # whether each parallel loop in them is a kernel, even inside sequential loops
    in_phases: bool = False
    # numbers up to this are sizes of tiles, and not of the program's arrays
    largest_constant: int = 0
    output: bool = False

    # there are no expressions
    work = 0
    loops = ()
    nodes = ()
    node_count = 0
    folds = ()
    part = False

    @cached_property
    def loads(self) -> Mapping[Buffer, Sequence[Scalar]]:
        return dict.fromkeys(self.operands, ())


@dataclass(frozen=True, eq=False)
class TeamKernel(Emitted):
    """Values that a team of threads computes in a kernel of its own.

    Loops around its band are executed by the program.
    """

    team: int = 0  # the number of threads
    private: tuple[Buffer, ...] = ()  # the rows of the scratch that are private to each thread

    @property
    def in_turns(self) -> tuple[tuple[Scalar, ...], tuple[Statement, ...]]:
        """The indices of the program's loops around a band, and the statements inside them."""
        turns: list[Scalar] = []
        body = self.statements
        while len(body) == 1 and isinstance(loop := body[0], For) and loop.lanes == 1:
            if loop.parallel:
                return tuple(turns), body
            turns.append(loop.index)
            body = loop.body
        return (), self.statements


@dataclass(frozen=True, eq=False)
class Elements(Root):
    """A value that is pulled, element by element."""

    target: Buffer
    loops: tuple[Scalar, ...]  # one index for each axis that is not unrolled
    axes: tuple[int, ...]  # the axes of these loops
    # one for each combination of indices along the unrolled axes
    elements: tuple[tuple[Index, Scalar], ...]
    output: bool = False
    part: bool = False  # whether it is one part of a join, which has the same target as the others
    # whether other parts are far from it in memory, so that it shares no loop with them
    distant: bool = False
    # a call that computes the elements, unless they are fused with something else
    instead: Emitted | None = None

    also_written = ()
    scratch = ()

    @cached_property
    def nodes(self) -> Sequence[Scalar]:
        return postorder(expression for _, expression in self.elements)

    @cached_property
    def node_count(self) -> int:
        return node_count(self.nodes)

    @cached_property
    def loads(self) -> Mapping[Buffer, Sequence[Scalar]]:
        found: dict[Buffer, list[Scalar]] = {}
        for node in self.nodes:
            if node.op == "load":
                found.setdefault(node.attribute, []).append(node)
        return found

    @cached_property
    def folds(self) -> Sequence[Scalar]:
        return [node for node in self.nodes if node.op == "fold"]

    def vectorises_folds(self, target: Target) -> bool:
        """Whether vectors are along the folds, and not along the innermost loop."""
        if not self.folds:
            return False
        if not self.loops or extent_of(self.loops[-1]) < target[Unrolling].one_vector:
            return True
        across, along = self._strided_loads(target.lanes_are_threads)
        return self._has_ragged_folds or (along < across and self._folds_fill_vectors(target))

    def _folds_fill_vectors(self, target: Target) -> bool:
        """Whether the innermost loops of folds over several axes are longer than half a vector."""
        inner = [fold.attribute[1][-1].attribute[2] for fold in self.folds]
        return any(n is None or 2 * n > target[Unrolling].one_vector for n in inner)

    def has_strided_folds(self, target: Target) -> bool:
        """Whether folds are strided while the innermost loop is contiguous: sums of columns."""
        across, along = self._strided_loads(target.lanes_are_threads)
        return across < along and not self.vectorises_folds(target)

    @cached_property
    def _has_ragged_folds(self) -> bool:
        """Whether folds differ in length, so that vectors cannot be along the innermost loop."""
        own = Coefficients(self.loops[-1])
        return any(own.of(extent) != 0 for fold in self.folds for extent in fold.args[1:])

    def _strided_loads(self, by_size: bool) -> tuple[int, int]:
        """The number of strided loads in folds, along the innermost loop and along the folds.

        A stride over few enough elements does not count, since those in between are loaded, too. If
        lanes are threads, each load counts as often as it reads different elements, since those of
        a small operand are in the cache.
        """
        return self._strides[by_size]

    @cached_property
    def _strides(self) -> tuple[tuple[int, int], tuple[int, int]]:
        if not self.folds or not self.loops:
            return (0, 0), (0, 0)
        own = Coefficients(self.loops[-1])
        loads, elements = [0, 0], [0, 0]
        for fold in self.folds:
            inner = Coefficients(fold.attribute[1][-1])
            for node in postorder(fold.args[:1]):
                if node.op == "load":
                    for i, factors in enumerate((own, inner)):
                        stride = stride_of(node, factors)
                        if stride not in (0, 1):
                            loads[i] += self._cost_of_stride(stride)
                            elements[i] += _count(node)
        return (loads[0], loads[1]), (elements[0], elements[1])

    def _cost_of_stride(self, stride: int | None) -> int:
        if stride is None:
            return LINE
        return min(abs(stride), LINE) if abs(stride) > len(self.elements) else 0

    @cached_property
    def work(self) -> int:
        steps = 0
        for fold in self.folds:
            steps += fold_steps(fold) * max(node_count(postorder(fold.args[:1])) // 2, 1)
        return (self.node_count + steps) * prod(map(extent_of, self.loops))


@dataclass(frozen=True, eq=False)
class Contraction(Elements):
    """A product of two matrices, or stacks of them: a sum over terms of a factor of each operand.

    It has loops, which other roots can join, but no expressions: the kernels of products compute it
    (`functrans.lower.product`).
    """

    # the loops of the stack, of rows and of columns: ``loops`` in their order
    sides: tuple[tuple[Scalar, ...], ...] = ()
    counter: Scalar | None = None  # the index that is summed over
    # an element of the left operand, which does not depend on the column, and one of the right
    # operand, which does not depend on the row
    factors: tuple[Scalar, ...] = ()
    symmetric: bool = False  # whether each matrix of the result is symmetric
    # If not 0, the rows of a block, which divides their number: threads share the rows by a loop
    # around the product. The right operand is then in memory, its columns adjacent, and is not
    # packed.
    shared_rows: int = 0
    # the number of terms of all matrices of the stack, which are the parts of a long sum, if the
    # last of them has fewer terms than the others; otherwise 0
    terms_together: int = 0

    @cached_property
    def nodes(self) -> Sequence[Scalar]:
        return postorder(self.factors)

    @cached_property
    def work(self) -> int:
        assert self.counter is not None
        return 2 * prod(map(extent_of, (*self.loops, self.counter)))

    @property
    def node_count(self) -> int:  # type: ignore[override]
        return 1


LINE = 8
"""With at least this stride, each element that is read costs a line of the cache."""


def makers_of(roots: Sequence[Root]) -> dict[Buffer, int]:
    """The root that computes each value, or the first of its parts."""
    makers: dict[Buffer, int] = {}
    for number, root in enumerate(roots):
        for target in (root.target, *root.also_written):
            makers.setdefault(target, number)
    return makers


def kept_for_calls(roots: Sequence[Root]) -> list[Root]:
    """The roots; those whose values calls read are marked to be in memory."""
    makers, found = makers_of(roots), [*roots]
    read = (root.operands for root in roots if isinstance(root, Emitted))
    for operand in {*chain.from_iterable(read)}:
        number = makers.get(operand)
        if number is not None and not found[number].output:
            found[number] = in_memory(found[number])
    return found


def in_memory(root: Root) -> Root:
    """The root, marked to be in memory."""
    assert isinstance(root, (Elements, Emitted))
    return replace(root, output=True)


def _count(element: Scalar) -> int:
    """The number of different elements that a load reads, by the loops in its indices."""
    return prod(node.attribute[2] or 1 for node in postorder(element.args) if node.op == "index")


def fold_steps(fold: Scalar) -> int:
    """The number of elements that a fold combines, or an upper bound."""
    return prod(i.attribute[2] or 1 for i in fold.attribute[1])


def extent_of(loop: Scalar) -> int:
    """The extent of a loop index."""
    return loop.attribute[2]


Readers = Mapping[Buffer, Sequence[Root]]


def readers_of(roots: Iterable[Root]) -> Readers:
    """The roots that read each buffer."""
    readers: dict[Buffer, list[Root]] = {}
    for root in roots:
        for source in root.loads:
            readers.setdefault(source, []).append(root)
    return readers
