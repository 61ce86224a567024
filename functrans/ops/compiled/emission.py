"""The `emit` slot of primitives: their compiled form as statements, from memory to memory.

A `pull` rule says how one element of a result is made, and the planner decides when. Some
operations are more than the sum of their elements: a scan, a running sum, a product of matrices.
Their rule is handed an `Emission`, asks it for the operands, and gives it the statements that
compute the results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive, Same
from functrans.loop.scalar import Scalar
from functrans.ops.compiled.places import Index

if TYPE_CHECKING:
    # the compiler's own, which is loaded with its first use
    from functrans.loop.simplify import Simplifier
    from functrans.loop.statements import Buffer, Statement
    from functrans.loop.target import Target

T = TypeVar("T")

Position = tuple[Scalar, ...]


class Element(NamedTuple):
    """An element of a result: its index, and the expression that makes it."""

    position: Position
    value: Scalar


@dataclass(frozen=True)
class Inner:
    """A graph inside of another one, as statements on buffers for its inputs and outputs."""

    statements: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    work: int


class Emission(Protocol):
    """The context of an `emit` rule: the equation, and where things are.

    Everything is done in the order of the calls.
    """

    eqn: Eqn
    target: Target
    simplify: Simplifier

    def operand(self, number: int) -> Buffer:
        """The memory of an operand, which is computed into it now if it was not before."""
        ...

    def element(self, number: int, position: Position) -> Scalar:
        """An element of an operand, as an expression: the operand need not be in memory."""
        ...

    def result(self, number: int = 0) -> Buffer:
        """The memory for a result; what is in it is to be written by the rule."""
        ...

    def copied(self, operand: int) -> Buffer:
        """The memory for the one result, with the elements of an operand in it."""
        ...

    def scratch(self, name: str, dtype: Any, shape: Sequence[int]) -> Buffer:
        """Memory for values that several calls share."""
        ...

    def loops(self, extents: Sequence[int]) -> Position:
        """Indices of loops that fuse with those of other values of such extents."""
        ...

    def compute(self, target: Buffer, loops: Position, axes: Sequence[int],
                elements: Sequence[Element]) -> None:  # fmt: skip
        """Compute elements in loops which may fuse with those of other values.

        ``loops`` go along the ``axes`` of the target; for each combination of indices along the
        others there is one of the ``elements``.
        """
        ...

    def call(
        self,
        statements: Sequence[Statement],
        *,
        work: int,
        stack: Sequence[Buffer] = (),
        writes: Sequence[Buffer] | None = None,
        pulled: bool = False,
        in_phases: bool = False,
        largest_constant: int = 0,
        team: int = 0,
    ) -> None:
        """Do statements, which are a nest of their own.

        ``work`` is roughly as many operations of a loop as take the same time; buffers on the
        ``stack`` keep nothing from one step of the nest to the next. They write the results that
        have been asked for, unless something else is named. The one result may be ``pulled``
        instead, as a part of a larger kernel. If they are done ``in_phases``, threads share all
        parallel loops in them, also those inside of other loops, which come one after the other; no
        number is kept from one such loop to the next. Numbers up to the ``largest_constant`` are
        about tiles, and stay in kernels. On a grid, so many threads of a ``team`` do an iteration
        of a band of parallel loops together, and loops of as many lanes are dealt to these; what
        is around the band goes in turns of the program. Inside of a loop, its own team does all.
        """
        ...

    def contract(
        self,
        loops: Mapping[int, Scalar],
        sides: tuple[Position, ...],
        counter: Scalar,
        factors: tuple[Scalar, ...],
        symmetric: bool = False,
        shared_rows: int = 0,
    ) -> None:
        """Compute the one result as a product of matrices, or of a stack of them.

        ``loops`` go along axes of the result, and the ``sides`` are those of the stack, of the rows
        and of the columns, in this order. The product of two ``factors``, of which the first does
        not depend on the columns and the second not on the rows, is summed over a ``counter``. Of
        one that is ``symmetric``, half is computed. ``shared_rows`` are the rows of a block, if a
        loop around may share these: the second factor is in memory then, and read where it is.
        """
        ...

    def assemble(self, parts: Sequence[tuple[Index, int]], *, adds: bool) -> None:
        """Write operands, by their numbers, to their places in the one result, or add them up.

        Later ones replace earlier ones. Where there is no part, the result is zero.
        """
        ...

    def lower(self, graph: Graph) -> Inner:
        """The statements of an inner graph."""
        ...

    def subprogram(self, graph: Graph) -> None:
        """Compute the results by an inner graph that is compiled once for all its calls."""
        ...

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make``, made once for all equations that ask with an equal key."""
        ...


def always(eqn: Eqn, target: Target) -> bool:
    """That something is so for each equation, on each machine."""
    return True


def _never(eqn: Eqn, target: Target) -> bool:
    return False


def _none(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    return 0


def elements(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    """One operation for each element of the operands and of the results."""
    return sum(x.aval.size for x in (*eqn.inputs, *eqn.outputs))


class Emit(NamedTuple):
    """How a primitive is compiled from memory to memory.

    Parameters
    ----------
    rule : callable
        Takes an `Emission`.
    applies : callable
        ``applies(eqn, target)``: whether an equation is compiled so; otherwise its elements are
        pulled, or NumPy is called.
    operations : callable
        ``operations(eqn, of_graph)``: about how many scalar operations on data it takes, those of a
        library not counted; ``of_graph`` counts those of an inner graph.
    by_elements : callable
        ``by_elements(eqn, target)``: whether operands are computed where the rule asks for their
        elements, each about once, and need no memory.
    if_kept : callable
        ``if_kept(eqn, target)``: whether it is compiled so, and not pulled, if its result is in
        memory in any case.
    """

    rule: Callable[[Emission], None]
    applies: Callable[[Eqn, Target], bool] = always
    operations: Callable[[Eqn, Callable[[Graph], int]], int] = _none
    by_elements: Callable[[Eqn, Target], bool] = _never
    if_kept: Callable[[Eqn, Target], bool] = _never


def by_loops(rule: Callable[[Emission], None]) -> Emit:
    """The compiled form of a primitive whose numbers are each a loop of its own length."""
    return Emit(rule, operations=elements, by_elements=always)


def form_for(primitive: Primitive, target: Target) -> Emit | None:
    """How a primitive may be compiled from memory to memory for a target."""
    by_cores, on_grid = primitive.emit, primitive.emit_on_grid
    form: Emit | None = on_grid if target.lanes_are_threads and on_grid is not Same else by_cores
    return form


def emitted(eqn: Eqn, target: Target, is_kept: bool = False) -> Emit | None:
    """How an equation is compiled from memory to memory, if it is."""
    emit = form_for(eqn.primitive, target)
    if emit is None or emit.applies(eqn, target) or (is_kept and emit.if_kept(eqn, target)):
        return emit
    return None


def in_memory(eqn: Eqn, target: Target) -> bool:
    """Whether an equation reads its operands from memory, as a whole."""
    emit = emitted(eqn, target)
    return emit is not None and not emit.by_elements(eqn, target)


def asks_for_elements(eqn: Eqn, target: Target) -> bool:
    """Whether an equation is emitted of elements of its operands, which need no memory."""
    emit = emitted(eqn, target)
    return emit is not None and emit.by_elements(eqn, target)
