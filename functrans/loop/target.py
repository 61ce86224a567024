"""Target description: the properties of a machine, and its profitability thresholds.

Every stage between a graph and machine code is handed a `Target` and asks nothing else about the
machine, so the plan of a program for a target is a function of the two.

From which size on a form of code pays is declared where it is asked: a record of thresholds, a
`NamedTuple` beside its stage, whose defaults are those of `CPU`, x86-64 with AVX-512. They are
counts of iterations, elements or operations, so they hold for its like. ``target[Record]`` is the
record for a machine, which may have another one. Each says what its numbers come from: an
experiment that is a row in one of two tables of docs/measurements.md, "What was measured on the
way" and "What did not pay"; the others were chosen, and not measured.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from functrans.caches import cached, cached_property

if TYPE_CHECKING:
    # loaded for GPUs only
    from functrans.loop.grid import Grid

T = TypeVar("T")

Stage = Literal[
    "vectorise",
    "tile",
    "accumulators",
    "split_reductions",
    "batch_partition",
    "loop_distribution",
    "block_products",
]
"""The stages that a target may leave out:

- ``vectorise``: iterations, and terms of a sum, are done several at once, in the lanes of vectors;
- ``tile``: loops go over tiles, where an array is read across the order that it lies in;
- ``accumulators``: sums have several accumulators, in as many vectors;
- ``split_reductions``: long reductions go in blocks, which threads share;
- ``batch_partition``: scans go over blocks of a batch, which threads share;
- ``loop_distribution``: what a long step of a loop does is in kernels of its own;
- ``block_products``: products of matrices are kernels, whose blocks fit registers and caches.
"""

STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True)
class Target:
    """A machine.

    Parameters
    ----------
    vector_bytes : int
        The size of a vector register.
    registers : int
        How many of these there are.
    cache_line : int
        In bytes.
    cache, cache_ways : int
        The bytes of the cache that a core has to itself, and in how many places a line can be.
    parallel_loops : int
        Number of loops of a nest, from the outermost one on, whose iterations may go on at the same
        time: one where threads share a range, more where there is a grid.
    through_memory : int
        Operations that take the time in which an element goes to memory and back. Measured (large
        arrays that are computed twice).
    largest_scratch : int
        Bytes of rows that a nest may keep on a thread's stack.
    largest_stack : int
        The most bytes of rows on the stack of a kernel: nests inside of a loop each have some.
    stages : tuple of str
        The optional stages that are carried out, of `Stage`.
    routines : bool
        Whether loops may call routines of BLAS and LAPACK.
    deterministic : bool
        Whether floats that meet in an element are combined in one order, also on a grid.
    tf32 : bool
        Whether a grid may round the operands of float32 products to tf32, for its tensor cores.
    libraries : bool
        Whether products of a program, outside of loops, may be calls of a library beside which
        kernels go on: cuBLAS, of a GPU.
    in_loop : bool
        Whether it is asked about a graph inside of a loop, which is done many times.
    grid : Grid or None
        The threads of a GPU, to which loops with lanes are dealt; None for a CPU.
    thresholds : tuple
        The records of thresholds that are others than declared, each behind its type.
    """

    vector_bytes: int = 64
    registers: int = 32
    cache_line: int = 64
    cache: int = 1 << 20
    cache_ways: int = 8
    parallel_loops: int = 1
    through_memory: int = 48
    largest_scratch: int = 1 << 16
    largest_stack: int = 1 << 18
    stages: tuple[Stage, ...] = STAGES
    routines: bool = True
    deterministic: bool = False
    tf32: bool = False
    libraries: bool = False
    in_loop: bool = False
    grid: Grid | None = None
    thresholds: tuple[tuple[type[Any], Any], ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __hash__(self) -> int:  # the look-up of each device operation's program hashes it
        return self._hash

    def __getitem__(self, record: type[T]) -> T:
        """The thresholds of a kind, for this machine."""
        for kind, own in self.thresholds:
            if kind is record:
                found: T = own
                return found
        declared: T = _declared(record)  # type: ignore[arg-type]  # types have hashes
        return declared

    def having(self, *records: Any) -> Target:
        """The machine with these thresholds instead of its own ones of the same kinds."""
        own = {**dict(self.thresholds), **{type(each): each for each in records}}
        return replace(self, thresholds=tuple(own.items()))

    @property
    def alignment(self) -> int:
        """The alignment of arrays, in bytes."""
        return max(self.cache_line, self.vector_bytes)

    @property
    def lanes_are_threads(self) -> bool:
        """Whether the lanes of a loop are threads of a grid, and not elements of a vector register.

        Adjacent threads access adjacent elements, and share inner loops.
        """
        return self.grid is not None

    @property
    def sums_in_tiles(self) -> bool:
        """Whether small products are computed in tiles, whose kernels also reduce their results."""
        return self.grid is not None and bool(self.grid.tiles)

    def lanes(self, itemsize: int) -> int:
        """The number of lanes of a vector for an item size, a power of two."""
        if self.grid is not None:
            return self.grid.warp
        if "vectorise" not in self.stages:
            return 1
        # (a number and its place, which are sorted together, have twelve bytes)
        return 1 << (max(self.vector_bytes // itemsize, 1).bit_length() - 1)


@cached(64)
def _declared(record: Any) -> Any:
    return record()


CPU = Target()
"""A CPU with vectors of 64 bytes."""
