"""The `emit` slot of primitives: code generation as statements, from memory to memory.

A `pull` rule defines one element of a result, and the planner decides where it is computed. For
some operations this is inefficient: a scan, a running sum, a matrix product. Their `emit` rule
receives an `Emission`, requests the operands from it, and adds the statements that compute the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive, Same
from functrans.loop.scalar import Scalar
from functrans.ops.compiled.places import Index
from functrans.records import NamedTuple, dataclass

if TYPE_CHECKING:
    # a module of the compiler, imported on first use
    from functrans.loop.simplify import Simplifier
    from functrans.loop.statements import Buffer, Statement
    from functrans.loop.target import Target

T = TypeVar("T")

Position = tuple[Scalar, ...]


class Element(NamedTuple):
    """An element of a result: its index, and the expression that computes it."""

    position: Position
    value: Scalar


@dataclass(frozen=True)
class Inner:
    """An inner graph, as statements on buffers for its inputs and outputs."""

    statements: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    work: int  # all operations
    uncounted: int  # those of library routines, and of loops of unknown length


class Emission(Protocol):
    """The context of an `emit` rule: the equation, and the buffers of its operands and results.

    Computations take place in the order of the calls.
    """

    eqn: Eqn
    target: Target
    simplify: Simplifier

    def operand(self, number: int) -> Buffer:
        """The buffer of an operand, which is computed now unless it was computed before."""
        ...

    def element(self, number: int, position: Position) -> Scalar:
        """An element of an operand, as an expression: the operand need not be in memory."""
        ...

    def result(self, number: int = 0) -> Buffer:
        """The buffer of a result, all of whose elements the rule must write."""
        ...

    def copied(self, operand: int) -> Buffer:
        """The buffer of the only result, initialised with the elements of an operand."""
        ...

    def scratch(self, name: str, dtype: Any, shape: Sequence[int]) -> Buffer:
        """Memory for values that several calls share."""
        ...

    def loops(self, extents: Sequence[int]) -> Position:
        """Indices of loops that can be fused with those of other values of the same extents."""
        ...

    def compute(self, target: Buffer, loops: Position, axes: Sequence[int],
                elements: Sequence[Element]) -> None:  # fmt: skip
        """Compute elements in loops that may be fused with those of other values.

        ``loops`` go along the ``axes`` of the target; for each combination of indices along the
        others there is one of the ``elements``.
        """
        ...

    def call(
        self, statements: Sequence[Statement], *, uncounted: int = 0, stack: Sequence[Buffer] = (),
        writes: Sequence[Buffer] | None = None, pulled: bool = False, in_phases: bool = False,
        largest_constant: int = 0, team: int = 0,
    ) -> None:  # fmt: skip
        """Execute statements as a nest of their own.

        The operations of library routines and of loops of unknown length are ``uncounted``,
        roughly. Buffers on the ``stack`` keep no values from one iteration of the nest to the next.
        The statements write the results whose buffers were requested, unless ``writes`` names
        others. The only result may instead be ``pulled``, as a part of a larger kernel. With
        ``in_phases``, threads share every parallel loop in the statements, also those nested in
        sequential loops; no local lives from one such loop to the next. Numbers up to
        ``largest_constant`` describe tiles, and remain constants of the kernel. On a grid, a
        ``team`` of so many threads executes one iteration of a band of parallel loops together and
        shares the loops of as many lanes; loops around the band are run by the program. Inside a
        loop with a team, that team executes everything.
        """
        ...

    def contract(
        self, loops: Mapping[int, Scalar], sides: tuple[Position, ...], counter: Scalar,
        factors: tuple[Scalar, ...], symmetric: bool = False, shared_rows: int = 0,
        terms_together: int = 0,
    ) -> None:  # fmt: skip
        """Compute the only result as a matrix product, or a stack of them.

        ``loops`` go along axes of the result, and ``sides`` are those of the stack, of the rows and
        of the columns, in this order. The product of two ``factors`` is summed over a ``counter``;
        the first factor does not depend on the columns, the second not on the rows. Half of a
        ``symmetric`` product is computed. ``shared_rows`` is the number of rows of a block if an
        enclosing loop may share these rows: the second factor is then read in place, from memory.
        ``terms_together`` is the number of terms of all matrices, which are parts of one sum, if
        the last has fewer than the others; otherwise 0.
        """
        ...

    def assemble(self, parts: Sequence[tuple[Index, int]], *, adds: bool) -> None:
        """Write operands, given by number, to subarrays of the only result, or add them to these.

        Later parts overwrite earlier ones. Outside of all parts the result is zero.
        """
        ...

    def lower(self, graph: Graph) -> Inner:
        """The statements of an inner graph."""
        ...

    def subprogram(self, graph: Graph) -> None:
        """Compute the results by an inner graph that is compiled once for all of its calls."""
        ...

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make``, computed once for all equations with an equal key."""
        ...


def always(eqn: Eqn, target: Target) -> bool:
    """The condition that holds for every equation and target."""
    return True


def _never(eqn: Eqn, target: Target) -> bool:
    return False


def _none(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    return 0


def elements(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    """One operation for each element of the operands and of the results."""
    return sum(x.aval.size for x in (*eqn.inputs, *eqn.outputs))


class Emit(NamedTuple):
    """The compiled form of a primitive, from memory to memory."""

    rule: Callable[[Emission], None]  # the `emit` rule; takes an `Emission`
    # ``applies(eqn, target)``: whether the rule compiles an equation; otherwise its elements are
    # pulled, or NumPy is called
    applies: Callable[[Eqn, Target], bool] = always
    # ``operations(eqn, of_graph)``: about how many scalar operations on data an equation takes, not
    # counting those of a library; ``of_graph`` counts the operations of an inner graph
    operations: Callable[[Eqn, Callable[[Graph], int]], int] = _none
    # ``by_elements(eqn, target)``: whether the rule requests single elements of the operands, each
    # about once, so that operands need not be stored in memory
    by_elements: Callable[[Eqn, Target], bool] = _never
    # ``if_kept(eqn, target)``: whether the rule compiles an equation to which it does not apply
    # otherwise, if its result is stored in memory anyway
    if_kept: Callable[[Eqn, Target], bool] = _never


def by_loops(rule: Callable[[Emission], None]) -> Emit:
    """The compiled form of a primitive whose elements are loops of different lengths."""
    return Emit(rule, operations=elements, by_elements=always)


def form_for(primitive: Primitive, target: Target) -> Emit | None:
    """The memory-to-memory form of a primitive for a target; None without one."""
    by_cores, on_grid = primitive.emit, primitive.emit_on_grid
    return on_grid if target.lanes_are_threads and on_grid is not Same else by_cores


def emitted(eqn: Eqn, target: Target, is_kept: bool = False) -> Emit | None:
    """The `emit` rule by which an equation is compiled; None if it is compiled by elements."""
    emit = form_for(eqn.primitive, target)
    if emit is None or emit.applies(eqn, target) or (is_kept and emit.if_kept(eqn, target)):
        return emit
    return None


def in_memory(eqn: Eqn, target: Target) -> bool:
    """Whether an equation reads its operands from memory, as a whole."""
    emit = emitted(eqn, target)
    return emit is not None and not emit.by_elements(eqn, target)


def asks_for_elements(eqn: Eqn, target: Target) -> bool:
    """Whether an equation's `emit` rule reads elements of operands, which need no memory."""
    emit = emitted(eqn, target)
    return emit is not None and emit.by_elements(eqn, target)
