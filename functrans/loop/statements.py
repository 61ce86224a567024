"""Intermediate representation of loops: statements over memory, made of scalar expressions.

A `Kernel` is a list of statements over `Buffer` parameters and integer sizes. To the operations of
`functrans.loop.scalar` and `functrans.loop.nodes` it adds four leaves: `load` (an element of a
buffer), `size` (an integer known at the call), `index` (bound by a loop) and `local` (a mutable
number). `fold` nodes do not occur: each of them has become a `Reduce` statement.

Everything is immutable. `verify` checks kernels; `text` prints them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from functrans.loop.fragments import WARP
from functrans.loop.nodes import INDEX, as_index
from functrans.loop.scalar import Scalar, convert
from functrans.records import NamedTuple, dataclass

_fresh = itertools.count()


class Column(NamedTuple):
    """A part of each row of a record, an array whose rows consist of those of several buffers."""

    record: int  # the number of the record
    start: int  # the place of the part in a row, in elements
    pitch: int  # the elements of a row


@dataclass(frozen=True, eq=False)
class Buffer:
    """An array in memory, C-contiguous or a column of a record; two buffers never overlap."""

    name: str  # only for printing
    dtype: np.dtype[Any]
    shape: tuple[Scalar, ...]  # int64: constants or sizes
    column: Column | None = None  # where its rows are, if they do not follow one another

    def __repr__(self) -> str:
        return self.name

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of a program's buffer, whose extents are constants."""
        return tuple([int(extent.attribute) for extent in self.shape])

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.extents)

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


def buffer(name: str, dtype: Any, shape: Iterable[Scalar | int]) -> Buffer:
    """A buffer, given its extents as numbers or Scalars."""
    return Buffer(name, np.dtype(dtype), tuple(map(as_index, shape)))


def load(source: Buffer, indices: Iterable[Scalar | int]) -> Scalar:
    """The element of a buffer at the given indices."""
    return Scalar("load", tuple(map(as_index, indices)), source.dtype, source)


def size(slot: int) -> Scalar:
    """An integer argument of the kernel."""
    return Scalar("size", (), INDEX, slot)


def local(dtype: Any, label: str = "t") -> Scalar:
    """A new mutable number. `Let` declares it; `Assign` changes it."""
    return Scalar("local", (), np.dtype(dtype), (label, next(_fresh)))


@dataclass(frozen=True, eq=False)
class Store:
    """``target[indices] = value``, or with an ``op``, ``target[indices] op= value``."""

    target: Buffer
    indices: tuple[Scalar, ...]
    value: Scalar
    op: str | None = None
    # Whether reading and writing are one atomic operation. Independent iterations may then update
    # the same element, if all of them use the same operation; their order is unspecified. Without
    # an ``op``, any of the stores may be the last.
    atomic: bool = False
    # whether the thread continues before the store is complete: it is complete once the thread has
    # passed an `Await` that waits for it, and until then nobody may access the element
    late: bool = False


@dataclass(frozen=True, eq=False)
class Let:
    """Declare locals with initial values, all of which are computed before any local is set."""

    targets: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Assign:
    """Assign new values to locals; all values are computed before any local is set."""

    targets: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class For:
    """``for index in range(start, stop)``."""

    index: Scalar
    start: Scalar
    stop: Scalar
    body: tuple[Statement, ...]
    # The number of iterations that are executed at once, as vectors (1: a plain loop). The
    # iterations must be independent.
    lanes: int = 1
    # whether the iterations may be executed concurrently, in any order: for loops in the `band` of
    # a kernel
    parallel: bool = False
    # whether iterations may be repeated, so that the last vector may overlap the one before it;
    # there are then at least ``lanes`` iterations
    repeatable: bool = False
    whole: bool = False  # whether the number of iterations is known to be a multiple of the lanes
    # the number of vectors (or rounds of a team) that the iterations fill, the last one perhaps
    # only in part; 0 if it is not known
    rounds: int = 0
    # in a plain loop, the number of iterations by which the vectors that are read inside of it are
    # prefetched; 0 if they are not
    ahead: int = 0


@dataclass(frozen=True, eq=False)
class Reduce:
    """Declare locals that combine values over a nest of loops."""

    targets: tuple[Scalar, ...]  # locals
    ops: tuple[str, ...]  # how each is combined: one of `functrans.loop.nodes.FOLDS`
    values: tuple[Scalar, ...]
    loops: tuple[tuple[Scalar, Scalar, Scalar], ...]  # outermost first
    # executed in the innermost loop, before the values are computed
    body: tuple[Statement, ...] = ()
    # The number of partial results of each target: the iterations of the innermost loop are dealt
    # to them cyclically. At the end they are combined pairwise: vector lanes by halves, threads of
    # a team neighbours first. This determines the bits of the result.
    lanes: int = 1
    # whether elements may be combined twice, so that the last vector may overlap the one before it;
    # the innermost extent is then at least ``lanes``
    repeatable: bool = False
    whole: bool = False  # whether the innermost extent is known to be a multiple of the lanes
    # the number of vectors (or rounds of a team) that the innermost loop fills, the last one
    # perhaps only in part; 0 if it is not known
    rounds: int = 0
    # the number of terms by which the vectors that they are made of are prefetched; 0 if they are
    # not
    ahead: int = 0


@dataclass(frozen=True, eq=False)
class If:
    """Execute ``body`` if the condition holds, else ``otherwise``."""

    condition: Scalar
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class While:
    """Repeat: execute ``prepare``, leave the loop if the condition is false, execute ``body``."""

    prepare: tuple[Statement, ...]
    condition: Scalar
    body: tuple[Statement, ...]
    most: int | None = None  # an upper bound on the number of iterations, if it is known


@dataclass(frozen=True, eq=False)
class Address:
    """The location of an element of a buffer, as an argument of a `Call`."""

    target: Buffer
    indices: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a call that can be blocked, that is, executed for some of its rows at a time."""

    count: int  # the position of the argument that is the number of rows
    # for each address argument that depends on the row, the axis of the rows
    axes: Mapping[int, int]


@dataclass(frozen=True, eq=False)
class Call:
    """Call an external function by its symbol; every argument is passed by reference.

    This is the convention of Fortran, hence of BLAS and LAPACK. A `Scalar` argument is first stored
    in memory; a ``bytes`` argument is a constant.
    """

    symbol: str
    arguments: tuple[Address | Scalar | bytes, ...]
    reads: tuple[Buffer, ...] = ()
    writes: tuple[Buffer, ...] = ()
    rows: Rows | None = None

    def for_rows(self, start: Scalar, count: Scalar) -> Call:
        """The call for ``count`` of its rows, from the row ``start`` on."""
        assert self.rows is not None
        arguments = list(self.arguments)
        arguments[self.rows.count] = convert(count, np.int32)
        for number, axis in self.rows.axes.items():
            address = arguments[number]
            assert isinstance(address, Address)
            before, after = address.indices[:axis], address.indices[axis + 1 :]
            arguments[number] = Address(address.target, (*before, start, *after))
        return replace(self, arguments=tuple(arguments))


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier: the threads of a team wait for each other, and see each other's writes."""


@dataclass(frozen=True, eq=False)
class Await:
    """The thread waits for its late stores; those since the last such statement are a group."""

    behind: int  # the number of most recent groups that need not be complete


@dataclass(frozen=True, eq=False)
class Panel:
    """An operand of a `MatrixMultiply`: its rows (or columns), and the terms along them."""

    corner: Address  # the first term of the first row
    rows: int  # the number of rows
    apart: int  # the distance between rows, in elements
    terms_apart: int  # The distance between terms, in elements. One of the two is 1.


@dataclass(frozen=True, eq=False)
class MatrixMultiply:
    """``sums += left @ right.T``: a few terms of a product, by the threads of a warp together.

    Tensor cores execute it. All threads of the warp reach it, with the same operands, which are in
    the team's scratch. Each holds some of the accumulators in registers
    (`functrans.loop.fragments`), in a row that is private to threads. Operands of up to 32 bits are
    multiplied exactly, and added in float32, in an unspecified order; float64 operands by fused
    multiply-adds of float64. float32 operands are tf32: either their last 13 bits are zero, or they
    are rounded here.
    """

    sums: Address  # the first accumulator of the thread
    left: Panel  # with 16 rows, or a multiple; the terms of a row are 32 bytes
    right: Panel  # the same
    # whether operands of float32 are rounded to tf32 first, as `fragments.as_tf32` does
    rounded: bool = False

    @property
    def count(self) -> int:
        """The accumulators of a thread."""
        return self.left.rows * self.right.rows // WARP

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the operands."""
        return self.left.corner.target.dtype


Statement = (
    Store | Let | Assign | For | Reduce | If | While | Call | Barrier | Await | MatrixMultiply
)


def band(body: Sequence[Statement]) -> tuple[For, ...]:
    """The parallel loops that statements begin with, each the whole body of the one around it."""
    loops: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        loops.append(body[0])
        body = body[0].body
    return tuple(loops)


def in_loops(loops: Sequence[For], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements in loops, the outermost first, in place of their own bodies."""
    for loop in reversed(loops):
        body = (replace(loop, body=body),)
    return body


def where_true(
    condition: Scalar, body: Sequence[Statement], otherwise: Sequence[Statement] = ()
) -> tuple[Statement, ...]:
    """Statements under a condition, or without it if it is known."""
    if condition.op == "const":
        return tuple(body if condition.attribute else otherwise)
    return (If(condition, tuple(body), tuple(otherwise)),)


def serial(statement: Statement) -> Statement:
    """The statement with sequential instead of parallel loops, for its whole band."""
    if not isinstance(statement, For) or not statement.parallel:
        return statement
    return replace(statement, body=tuple(map(serial, statement.body)), parallel=False)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function of buffers and sizes.

    If its only statement is a parallel `For` that starts at 0, the caller decides which part of its
    range to execute.
    """

    buffers: tuple[Buffer, ...]
    sizes: int  # their number
    body: tuple[Statement, ...]
    scratch: tuple[Buffer, ...] = ()  # buffers of constant shape on the stack, one for each thread
    # In a grid, the number of threads that execute an iteration of the band together; 0 without a
    # grid. A single thread has its own scratch. The threads of a larger team all execute the
    # statements, except that only the first one executes stores, and that loops and reductions with
    # as many lanes are dealt to them; they share the scratch.
    team: int = 0
    # the rows of a team's scratch of which each thread only accesses elements that it has written
    # itself: in registers, except for those in ``long``
    dealt: tuple[Buffer, ...] = ()
    # in a grid, whether the indices of all threads are known to fit into 31 bits
    narrow: bool = False
    # The rows of a team's scratch of which each thread has its own part during an iteration of the
    # band: the first index is that of the thread, which is the iteration of a dealt loop. They are
    # registers if the other indices are constants.
    private: tuple[Buffer, ...] = ()
    long: tuple[Buffer, ...] = ()  # those of the dealt rows that are in shared memory
    turns: int = 0  # how many of the sizes, the last ones, are iterations of the program's loops

    @property
    def band(self) -> tuple[For, ...]:
        """The loops whose iterations, in all combinations, may be executed concurrently."""
        return band(self.body)

    @property
    def parallel(self) -> For | None:
        """The outermost loop of the band, whose range threads share; or None.

        Such loops start at 0; a loop that starts elsewhere is executed by one thread.
        """
        first = next(iter(self.band), None)
        starts_at_zero = (
            first is not None and first.start.op == "const" and not first.start.attribute
        )
        return first if starts_at_zero else None
