"""Intermediate representation of loops: statements over memory, made of scalar expressions.

A `Kernel` is a list of statements over `Buffer` parameters and integer sizes. To the operations of
`functrans.loop.scalar` and `functrans.loop.nodes` it adds four leaves: `load` (an element of a
buffer), `size` (an integer known at the call), `index` (bound by a loop) and `local` (a mutable
number).
`fold` nodes do not occur: the schedule has made each of them a `Reduce` statement.

Everything is immutable. `check` says what is well-formed; `text` prints a kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from functrans.loop.fragments import WARP
from functrans.loop.nodes import INDEX, as_index
from functrans.loop.scalar import Scalar, convert

_fresh = itertools.count()


@dataclass(frozen=True, eq=False)
class Buffer:
    """A C-contiguous array in memory; two buffers never overlap.

    Parameters
    ----------
    name : str
        Only for printing.
    dtype : numpy dtype
    shape : tuple of Scalar
        int64: constants or sizes.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Scalar, ...]

    def __repr__(self) -> str:
        return self.name

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of a buffer of a program, in which all extents are constants."""
        return tuple([int(extent.attribute) for extent in self.shape])

    @property
    def count(self) -> int:
        """The number of its elements."""
        return prod(self.extents)

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


def buffer(name: str, dtype: Any, shape: Iterable[Scalar | int]) -> Buffer:
    """A buffer, its extents given as numbers or Scalars."""
    return Buffer(name, np.dtype(dtype), tuple(map(as_index, shape)))


def load(source: Buffer, indices: Iterable[Scalar | int]) -> Scalar:
    """The element of a buffer at the given indices."""
    return Scalar("load", tuple(map(as_index, indices)), source.dtype, source)


def size(slot: int) -> Scalar:
    """An integer argument of the kernel."""
    return Scalar("size", (), INDEX, slot)


def local(dtype: Any, label: str = "t") -> Scalar:
    """A new mutable number. A `Let` declares it; `Assign` changes it."""
    return Scalar("local", (), np.dtype(dtype), (label, next(_fresh)))


@dataclass(frozen=True, eq=False)
class Store:
    """``target[indices] = value``, or with an ``op``, ``target[indices] op= value``.

    Parameters
    ----------
    target : Buffer
    indices : tuple of Scalar
    value : Scalar
    op : str or None
    atomic : bool
        Whether no other thread comes between reading and writing, so that independent iterations
        may meet in one element, if all do the same to it: in an order that nobody knows. Of those
        without an ``op``, any may be the last.
    late : bool
        Whether the thread goes on before it is done: the element is there once the thread has come
        to an `Await` that waits for it, and until then nobody may touch it.
    """

    target: Buffer
    indices: tuple[Scalar, ...]
    value: Scalar
    op: str | None = None
    atomic: bool = False
    late: bool = False


@dataclass(frozen=True, eq=False)
class Let:
    """Declare locals with their first values, which are all computed before any is set."""

    targets: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Assign:
    """Give locals new values, which are all computed before any is set."""

    targets: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class For:
    """``for index in range(start, stop)``.

    Parameters
    ----------
    index : Scalar
    start, stop : Scalar
    body : tuple of statements
    lanes : int
        How many iterations are done at once, as vectors (1: a plain loop). The iterations must be
        independent.
    parallel : bool
        Whether the iterations may go on at the same time, in any order: of loops in the `band` of
        a kernel.
    repeatable : bool
        Whether doing an iteration twice is harmless, so that the last vector may overlap the one
        before; there are then at least ``lanes`` iterations.
    whole : bool
        Whether the number of iterations is known to be a multiple of the lanes.
    rounds : int
        How many times lanes are filled with iterations, the last time perhaps not all of them, if
        that is known; else 0.
    """

    index: Scalar
    start: Scalar
    stop: Scalar
    body: tuple[Statement, ...]
    lanes: int = 1
    parallel: bool = False
    repeatable: bool = False
    whole: bool = False
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Reduce:
    """Declare locals that combine values over a nest of loops.

    Parameters
    ----------
    targets : tuple of Scalar
        Locals.
    ops : tuple of str
        How each is combined: one of `functrans.loop.nodes.FOLDS`.
    values : tuple of Scalar
    loops : tuple of (index, start, stop)
        Outermost first.
    body : tuple of statements
        Done in the innermost loop before the values are computed.
    lanes : int
        How many partial results each target has: the innermost index, from its start, is dealt to
        them in turn, and they are combined pairwise at the end: by halves, but those of the threads
        of a team neighbours first. This fixes the result's bits.
    whole : bool
        Whether the innermost extent is known to be a multiple of the lanes.
    rounds : int
        How many times lanes are filled with terms of the innermost loop, the last time perhaps not
        all of them, if that is known; else 0.
    """

    targets: tuple[Scalar, ...]
    ops: tuple[str, ...]
    values: tuple[Scalar, ...]
    loops: tuple[tuple[Scalar, Scalar, Scalar], ...]
    body: tuple[Statement, ...] = ()
    lanes: int = 1
    whole: bool = False
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class If:
    """Do the statements if the condition holds."""

    condition: Scalar
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class While:
    """Repeat: do the statements of ``prepare``, stop unless the condition holds, do the body.

    Parameters
    ----------
    prepare : tuple of statements
    condition : Scalar
    body : tuple of statements
    most : int or None
        For how many steps the condition holds at most, if that is known.
    """

    prepare: tuple[Statement, ...]
    condition: Scalar
    body: tuple[Statement, ...]
    most: int | None = None


@dataclass(frozen=True, eq=False)
class Address:
    """Where an element of a buffer is, as an argument of a `Call`."""

    target: Buffer
    indices: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """Along which axes of its operands a call may be blocked: how to do it for some of its rows.

    Parameters
    ----------
    count : int
        Which argument is the number of rows.
    axes : dict of int to int
        Of the arguments that are addresses of rows, along which axis these lie.
    """

    count: int
    axes: Mapping[int, int]


@dataclass(frozen=True, eq=False)
class Call:
    """Call an external function by its symbol; every argument is passed by its address.

    That is the convention of Fortran, hence of BLAS and LAPACK. A `Scalar` argument is put into
    memory first; a ``bytes`` argument is a constant.
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
    """The threads of a team wait for each other, and see what the others have written."""


@dataclass(frozen=True, eq=False)
class Await:
    """The thread waits for its late stores: those since the last such statement are a group.

    Parameters
    ----------
    behind : int
        How many groups, the last ones, need not be there yet.
    """

    behind: int


@dataclass(frozen=True, eq=False)
class Panel:
    """An operand of a `MatrixMultiply`: its rows (or columns), and the terms along them.

    Parameters
    ----------
    corner : Address
        Of the first term of the first row.
    rows : int
        How many there are.
    apart : int
        By how many elements rows are apart.
    terms_apart : int
        By how many elements terms are apart. One of the two is 1.
    """

    corner: Address
    rows: int
    apart: int
    terms_apart: int


@dataclass(frozen=True, eq=False)
class MatrixMultiply:
    """``sums += left @ right.T``: a few terms of a product, by the threads of a warp together.

    That is what tensor cores do. All threads of the warp come to it, with the same operands, which
    lie in the team's scratch. Each has some of the sums in registers (`functrans.loop.fragments`),
    in a row that is private to threads. Operands are multiplied exactly, and added up in float32,
    in an order that nobody knows. Those of float32 are tf32: their last 13 bits are zero, or they
    are rounded here.

    Parameters
    ----------
    sums : Address
        Of the first one of the thread.
    left, right : Panel
        Of 16 rows, or a multiple, each; as many terms of both as are 32 bytes.
    rounded : bool
        Whether operands of float32 are rounded to tf32 first, as `fragments.as_tf32` does.
    """

    sums: Address
    left: Panel
    right: Panel
    rounded: bool = False

    @property
    def count(self) -> int:
        """The sums of a thread."""
        return self.left.rows * self.right.rows // WARP

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the operands."""
        return self.left.corner.target.dtype


Statement = (
    Store | Let | Assign | For | Reduce | If | While | Call | Barrier | Await | MatrixMultiply
)


def band(body: Sequence[Statement]) -> tuple[For, ...]:
    """The parallel loops that statements begin with, each all that there is in the one before."""
    loops: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        loops.append(body[0])
        body = body[0].body
    return tuple(loops)


def serial(statement: Statement) -> Statement:
    """A statement whose iterations come one after the other, those of a whole band."""
    if not isinstance(statement, For) or not statement.parallel:
        return statement
    return replace(statement, body=tuple(map(serial, statement.body)), parallel=False)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function over buffers and sizes.

    If its one statement is a parallel `For` from 0 on, the caller says which part of its range to
    do.

    Parameters
    ----------
    buffers : tuple of Buffer
    sizes : int
        How many.
    body : tuple of statements
    scratch : tuple of Buffer
        Buffers of constant shape that live on the stack, one for each thread.
    team : int
        In a grid, how many threads do an iteration of the band together; 0 where there is no grid.
        One has the scratch to itself. Of several, all do the statements alike, but that the first
        alone does the stores, and that loops and sums of that many lanes are dealt to them; the
        scratch is theirs together.
    dealt : tuple of Buffer
        Of a team's scratch, the rows of which each thread touches no other elements than it has
        written itself.
    narrow : bool
        In a grid, whether the number of a thread, among all, is known to fit into 31 bits.
    private : tuple of Buffer
        Those of a team's scratch that each thread has a part of to itself, which stays until the
        iteration of the band is over: the first index is the thread's number, that of the
        iteration that a loop has dealt to it. They are registers if the other indices are
        constants.
    """

    buffers: tuple[Buffer, ...]
    sizes: int
    body: tuple[Statement, ...]
    scratch: tuple[Buffer, ...] = ()
    team: int = 0
    dealt: tuple[Buffer, ...] = ()
    narrow: bool = False
    private: tuple[Buffer, ...] = ()

    @property
    def band(self) -> tuple[For, ...]:
        """The loops whose iterations, each with all of the others, may go on at the same time."""
        return band(self.body)

    @property
    def parallel(self) -> For | None:
        """The outermost loop of the band, whose range threads share.

        They count from 0: a loop that starts elsewhere is one thread's.
        """
        first = next(iter(self.band), None)
        starts_at_zero = (
            first is not None and first.start.op == "const" and not first.start.attribute
        )
        return first if starts_at_zero else None
