"""Target description: the properties of a machine, and its profitability thresholds.

Every stage between a graph and machine code receives a `Target`, its only information about the
machine. So the plan of a program is a function of the program and the target.

The thresholds of size for a form of code are declared beside the stage that uses them, in a record:
a `NamedTuple` whose defaults are for `CPU`, x86-64 with AVX-512. Thresholds are counts
of iterations, elements or operations, so they hold for similar machines, too. ``target[Record]`` is
the record for a machine, which may differ from the defaults. Each record says which of its numbers
were measured; docs/measurements.md has the experiments by topic, each with what was tried and
rejected. The others were chosen without a measurement.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from functrans.caches import cached, cached_property
from functrans.records import dataclass

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
    "loop_collapsing",
    "block_products",
]
"""The stages that a target may leave out:

- ``vectorise``: several iterations, or terms of a sum, are computed at once, in lanes of vectors;
- ``tile``: loops are tiled if an array is read across its order in memory;
- ``accumulators``: sums have several accumulators, in as many vectors;
- ``split_reductions``: long reductions are split into blocks, which threads share;
- ``batch_partition``: scans over a batch are split into blocks of it, which threads share;
- ``loop_distribution``: the operations of a long loop step are kernels of their own;
- ``loop_collapsing``: nested loops that go through memory like a single one become one;
- ``block_products``: matrix products are kernels, whose blocks fit registers and caches.
"""

STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True)
class Target:
    """A machine."""

    vector_bytes: int = 64  # the size of a vector register
    registers: int = 32  # the number of vector registers
    cache_line: int = 64  # the size of a cache line in bytes
    cache: int = 1 << 20  # the size in bytes of the cache that each core has to itself
    cache_ways: int = 8  # the associativity of this cache
    # the number of loops of a nest, from the outermost one on, whose iterations may be executed in
    # parallel: one if threads share a range, more on a grid
    parallel_loops: int = 1
    # The number of operations that take as long as writing an element to memory and reading it.
    # Measured (large arrays that are computed twice).
    through_memory: int = 48
    largest_scratch: int = 1 << 16  # the most bytes of rows of a nest on a thread's stack
    # the most bytes of rows on the stack of a kernel: nests inside of a loop each have some
    largest_stack: int = 1 << 18
    stages: tuple[Stage, ...] = STAGES  # the optional stages that are carried out, of `Stage`
    routines: bool = True  # whether loops may call routines of BLAS and LAPACK
    # whether floats that are added to the same element are combined in a fixed order, also on a
    # grid
    deterministic: bool = False
    # whether a grid may round the operands of float32 products to tf32, for its tensor cores
    tf32: bool = False
    # whether products of a program, outside of loops, may be calls of a library that runs beside
    # kernels: cuBLAS, on a GPU
    libraries: bool = False
    # whether a program may be cut at large sorts, for NumPy's vectorised ones, which are fast where
    # storing compressed vectors is not microcode; no segment or loop is cut again
    library_sorts: bool = False
    # whether divisions and roots of float64 vectors take several times as long as products: a loop
    # that waits for the divider has other operations instead (`functrans.lower.nest.divider`)
    slow_division: bool = False
    in_loop: bool = False  # whether the graph is inside of a loop, and so executed many times
    # the threads of a GPU, which share the loops with lanes; None for a CPU
    grid: Grid | None = None
    # the records of thresholds that differ from the defaults, each after its type
    thresholds: tuple[tuple[type[Any], Any], ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __hash__(self) -> int:  # the look-up of each device operation's program hashes the target
        return self._hash

    def __getitem__(self, record: type[T]) -> T:
        """The record of thresholds of a type, for this machine."""
        for kind, own in self.thresholds:
            if kind is record:
                return own
        declared: T = _declared(record)  # type: ignore[arg-type]  # types have hashes
        return declared

    def having(self, *records: Any) -> Target:
        """The machine with these records of thresholds instead of its own of the same types."""
        own = {**dict(self.thresholds), **{type(each): each for each in records}}
        return replace(self, thresholds=tuple(own.items()))

    def by_default(self, *records: Any) -> Target:
        """The machine with these records of thresholds, where it has none of its own."""
        found = {**{type(each): each for each in records}, **dict(self.thresholds)}
        return replace(self, thresholds=tuple(found.items()))

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
    def gpu(self) -> Grid:
        """The threads of a GPU, where the target is one."""
        assert self.grid is not None
        return self.grid

    def lanes(self, itemsize: int) -> int:
        """The number of lanes of a vector for an item size, a power of two."""
        if self.grid is not None:
            return self.grid.warp
        if "vectorise" not in self.stages:
            return 1
        # (a sort key with the index of its element has twelve bytes)
        return 1 << (max(self.vector_bytes // itemsize, 1).bit_length() - 1)


@cached(64)
def _declared(record: Any) -> Any:
    return record()


CPU = Target()
"""A CPU with vectors of 64 bytes."""
