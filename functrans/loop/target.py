"""Target description: machine parameters and profitability thresholds.

Every stage between a graph and machine code is handed a `Target` and asks nothing else about the
machine, so the plan of a program for a target is a function of the two. The numbers of `CPU` are
for x86-64 with AVX-512; they are counts of iterations, elements or operations, so they hold for
their like. Each record says what its numbers come from: an experiment that is a row in one of two
tables of docs/performance.md, "What was measured on the way" and "What did not pay"; the others
were chosen, and not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    # a CPU has none: nothing of it is loaded for one
    from functrans.loop.grid import Grid


Stage = Literal["vectorise", "tile", "accumulators", "split_reductions", "batch_partition"]
"""The stages that a target may leave out:

- ``vectorise``: iterations, and terms of a sum, are done several at once, in the lanes of vectors;
- ``tile``: loops go over tiles, where an array is read across the order that it lies in;
- ``accumulators``: sums have several accumulators, in as many vectors;
- ``split_reductions``: long reductions go in blocks, which threads share;
- ``batch_partition``: scans go over blocks of a batch, which threads share.
"""

STAGES: tuple[Stage, ...] = get_args(Stage)


class Unrolling(NamedTuple):
    """Axes that are written out element by element, and not loops.

    Measured: `sums` (sums of 64 columns), `largest_interleaved` (transformer block), others (LSTM).
    """

    longest: int = 16
    """An axis of more elements is a loop in any case, as a `fold` over more is."""
    one_vector: int = 8
    """So many elements fill a vector."""
    much_work: int = 48
    """Operations for one element that are rather done as vectors: about an exponential."""
    largest_interleaved: int = 8
    """Vectors go along the axis before the last one if the last is so short, else along it."""
    largest_body: int = 16_000
    """About so many operations at most are written out for the elements along small axes."""
    largest_program: int = 13_000  # and so many for a program's: past that, all axes are loops
    sums: int = 7
    """So many long sums at most are written out in a loop's body; vectors go along more of them."""
    elements: int = 64
    """So many elements of small axes at most are written out in a loop's body."""
    alone: int = 7
    """So few elements of a program's value are written out even if nothing else needs them: code
    without a loop. On a grid each has a team of threads instead."""
    body_bytes: int = 1 << 62
    """So many bytes of elements at most are written out in a loop's body: a thread's registers."""


class Materialisation(NamedTuple):
    """Values that are computed once and kept, and not wherever they are used.

    Measured: `cheap` (the Rosenbrock product, which did not gain from keeping more).
    """

    cheap: int = 12
    """Scalar operations that are rather done twice than kept in memory."""
    largest_expression: int = 600
    """Operations for one element, above which a value is cut in two."""
    repeated: int = 4
    """So many times an element is rather made again than kept, where one expression makes it."""
    deepest: int = 40
    """So many movements of elements at most are done one inside another."""
    narrower: bool = False
    """Whether the narrower float is kept that a wider one is a conversion of, and not the wider
    one: it takes less memory, and products on tensor cores want numbers of 16 bits as they are."""


class Recomputation(NamedTuple):
    """How often values may be computed that are not kept.

    Measured: `bound` (two convolutions of shifted products), `through_memory` (large arrays that
    are computed twice).
    """

    bound: int = 2
    """So many times the operations of the graph are done without complaint."""
    often: int = 2
    """So many times each element of a value may be computed."""
    through_memory: int = 48
    """Operations that take the time in which an element goes to memory and back."""
    little: int = 64
    """This part of the graph's operations is not worth memory."""
    rounds: int = 4
    """So many times at most the expressions of a graph are made anew."""


class Reductions(NamedTuple):
    """Long reductions in blocks, sums of sums, and accumulators side by side.

    Measured: `steps` (the error of float32 sums). `blocks` gives many threads pieces to share; it
    must not follow from their number, on which no bit of a result depends.
    """

    blocks: int = 64
    """Into so many blocks a long reduction is cut."""
    few_iterations: int = 512
    """A root with more iterations than this gives threads enough to share as it is."""
    most_columns: int = 1 << 62
    """So many sums down columns are not cut in any case: inside of a loop on a grid, where a team
    has a thread for each, and more threads share their terms (`functrans.lower.grid.slicing`)."""
    long: int = 1 << 17
    """Steps of all folds of a root together that are worth blocks."""
    plain_body: int = 16
    """A reduction of so few operations has all accumulators, one of three times as many has half
    of them: more work for each term hides the latency of adding by itself."""
    most_steps: int = 32
    """More floats than this are not added to a sum one after the other."""
    steps: int = 16
    """The terms of a partial sum: of enough work that what is done for each partial sum is free."""
    accumulators: int = 4
    """Vectors of sums side by side: an addition takes about so many cycles, and two are begun in
    each."""
    blocks_of_lanes: bool = True
    """Whether a sum that is dealt to lanes is one of partial sums, too: lanes in a vector may stop
    to be added up, threads would have to wait for each other."""
    longest_alone: int = 0
    """A sum of so many steps, which are dealt to lanes, has no blocks in any case."""
    shortest: int = 16
    """A sum of fewer numbers has one accumulator."""


class Fusion(NamedTuple):
    """Which roots share loops, and how large a kernel gets.

    Measured: `largest_nest` (joining unrelated nests), `largest_block` (smaller ones gain nothing),
    `most_buffers` (pairs of 2,000 arrays).
    """

    largest_nest: int = 6000
    """Roots that have nothing in common share a loop up to so many operations."""
    largest_block: int = 16_000
    """Nodes after which code without loops goes on in another kernel: LLVM's register allocator
    takes more than linear time for one long block."""
    most_buffers: int = 256
    """A kernel that is handed so many arrays takes no more roots: each is a parameter, and LLVM
    takes more than linear time for thousands of them."""
    few_stores: int = 1000
    """The same for the elements of joins: many stores to one array take more than linear time."""
    long_row: int = 64
    """A row so long pays for what is done once for it without vectors."""
    unrelated_rows: bool = False
    """Whether loops over rows are joined that read nothing in common: a launch less. If that is
    slow, a grid distributes them again."""
    worth_a_kernel: int = 256
    """A piece of a loop with so many iterations may be shared by threads."""
    small_part: int = 100_000
    """Scalar operations, up to which a part of a join shares a kernel with others."""
    most_parts: int = 16
    """So many parts of joins share a kernel at most."""


class Loops(NamedTuple):
    """Single loops: their vectors, the pieces of their ranges, the rows that they keep.

    None was measured on its own.
    """

    largest_scratch: int = 1 << 16
    """Bytes of rows that a nest may keep on a thread's stack."""
    largest_stack: int = 1 << 18
    """Bytes of rows that a kernel may keep there in all: nests inside of a loop each have some."""
    wide_columns: int = 8
    """Sums down columns go over so many vectors at once, so that whole cache lines are used."""
    cost_of_steps: float = 1.5
    """What the steps of a sum cost besides the operations on each vector."""
    narrow_body: int = 48
    """With more operations than this, registers would not do for so many vectors."""
    largest_copied: int = 1500
    """A loop with more operations inside than this is not cut into pieces."""
    shortest_row: int = 16
    """Shorter rows do not get a loop of their own: they would not fill a vector."""
    most_pieces: int = 5
    """A loop is cut into so many pieces at most."""


class Tiling(NamedTuple):
    """Loops over tiles, where an array is read across the order that it lies in.

    Measured: all together (2048x2048 float32 across its order).
    """

    block: int = 16
    """Iterations whose neighbours share cache lines, where threads need many blocks to share."""
    long_block: int = 32
    """The same for a loop of `long` iterations."""
    long: int = 512
    """A loop of so many iterations has blocks enough."""
    tile: int = 16
    """Iterations of the vector loop: lines a power of two apart have few places in the cache."""
    near: int = 8
    """Elements so few apart share cache lines anyway."""


class Products(NamedTuple):
    """Contractions: which go to BLAS, in which layout, in how many pieces.

    Measured: `long_sum` (parts of the long sum of a logistic Hessian), `largest_in_parts` (parts
    of long sums for large results).
    """

    smallest_side: int = 8
    """A contraction with a side shorter than this is done by loops."""
    smallest_work: int = 8192
    """Multiplications, below which calling BLAS costs more than it saves."""
    worth_splitting: int = 1 << 20
    """Multiplications of one contraction that are worth the waking of threads."""
    long_sum: int = 4
    """A sum so many times as long as the sides of its matrix is cut into parts."""
    largest_in_parts: int = 256
    """The longest side of such a matrix: the parts of a larger one are long to add up."""
    least_part: int = 128
    """A part of such a sum has so many terms at least."""
    most_parts: int = 8
    """Such a sum has so many parts at most."""
    worth_factoring: int = 4096
    """A sum of so many operations is worth being taken apart into factors."""
    least_steps: int = 8
    """A scan of so many steps is worth a transpose before it."""
    longest_rows: int = 4
    """Rows so many times longer than there are of them are summed one after the other."""


class Convolutions(NamedTuple):
    """Convolutions: which are done in registers, which by BLAS, in blocks of which size.

    Measured: `most_sums_in_registers` (a layer of 64 channels), `fewest_columns` (LeNet).
    """

    fewest_columns: int = 4
    """With fewer features, each product is made in loops."""
    most_sums_in_registers: int = 12
    """So many vectors of results, or pairs of them, are summed up at once."""
    filled: float = 0.6
    """Vectors are twice as long if so much of them is filled."""
    fewest_rows: int = 4
    """So many channels are worth being summed up side by side, where results are few."""
    part_of_cache: int = 4
    """This part of the cache is for what a block sees; twice as much is for a block of windows."""
    most_parts: int = 16
    """So many threads at most share the results."""
    most_sums: int = 8
    """So many parts of a long sum are added up at most."""
    largest_sums: int = 1 << 20
    """So many elements at most have these together."""
    long_sum: int = 64
    """Terms that are worth a product of matrices, where there are more of them outside."""


class Transforms(NamedTuple):
    """Fourier transforms: how many points are done at once, and which are a library's.

    Measured: all but `library` and `most_calls` (512x512 points).
    """

    long: int = 4096
    """A row of so many points is transformed in two passes, as a matrix."""
    short: int = 64
    """A row of fewer points has few vectors: several rows are done at once."""
    wide: int = 4
    """So many vectors of columns at most are done at once: lines that are a power of two apart have
    few places in the cache, so whole ones next to each other should be used."""
    largest_tile: int = 1 << 18
    """Bytes that are done at once at most."""
    library: int = 2048
    """Transforms of so many points are a library's, where a target has one: beyond what a block of
    threads has room for, kernels go through memory twice, too, and fuse with nothing in between."""
    most_calls: int = 64
    """So many calls at most are made for one array, whose lines are not evenly spaced."""


class Matrices(NamedTuple):
    """Linear algebra: which matrices are written out, and which are LAPACK's.

    Measured: `largest` (10,000 systems of 6 equations, a Kalman filter).
    """

    largest: int = 8
    """Matrices with more rows are LAPACK's: a stack of smaller ones takes a fifth of its time."""
    largest_inverted: int = 6
    """The same for inverses."""
    most_elements: int = 64
    """The columns of a right-hand side with more elements than this are done in a loop."""
    most_multiplications: int = 64
    """Leading axes are written out, too, if so many multiplications do it all."""
    largest_of_team: int = 128
    """Matrices of so many rows are factored by a team of a grid's threads each, though there is a
    library: its calls of several launches, which wait for the host, take longer than that."""
    largest_rotated: int = 64
    """The same for eigenvalues and singular values: rotations go over a matrix some eight times,
    and those of more rows have no room in shared memory."""
    most_in_registers: int = 256
    """A matrix, and its eigenvectors, of so many bytes at most are a thread's, in its registers: a
    quarter of what it can have."""
    most_in_turn: int = 32
    """So many larger matrices of a stack at most are given to the library instead, one after the
    other: of more, as many teams as there are multiprocessors are at work at once."""
    largest_alone: int = 65_536
    """A single matrix with more elements is decomposed by NumPy, whose LAPACK has threads of its
    own; those of a stack are shared by ours. Measured on two cores: up to 300 x 100 and 200 x 200
    ours takes 0.4 to 1.1 times as long, for 400 x 400 as long to 1.3 times."""


class Control(NamedTuple):
    """Loops and branches of the graph. None was measured on its own."""

    most_locals: int = 64
    """So many elements of a carry at most are held in locals."""
    least_work: int = 512
    """Multiplications of a step that are worth taking out of the loop."""
    most_addends: int = 1
    """A carry adds up so many of what is taken out. What a batch shares keeps samples together."""
    least_sum: int = 1 << 62
    """Elements that are summed in a step, which are worth being summed after the loop."""
    least_batch: int = 32
    """So many samples go through their steps on their own, apart from what they share: a warp."""
    largest_stack: int = 1 << 28
    """Bytes of one array that holds what was made in all steps."""


class Joins(NamedTuple):
    """Arrays that are put together from parts. Measured: all together (200 rows joined)."""

    few: int = 5
    """So many parts are told apart by comparisons, which is done for pieces of a loop at once."""
    small: int = 64
    """So few elements are written out one by one."""
    together: int = 128
    """So many elements of small parts are written one after another by one root."""
    together_in_loop: int = 32
    """The same inside of a loop, each of whose vectors they are written from."""
    few_elements: int = 2
    """Parts of more elements than this are loops, if there are many such parts."""


class Outlining(NamedTuple):
    """Repeated parts of a graph that become one inner graph, which is compiled once.

    Measured: all together (a hidden Markov model, a Kalman filter, both unrolled).
    """

    fewest: int = 4
    """So many repetitions are worth being looked for."""
    least_code: int = 3000
    """Less code than this, in nodes of scalar expressions, is compiled soon enough as it is."""
    least_saved: int = 1000
    """So much of the code must be that of the repetitions."""
    rounds: int = 3
    """So many times what is left is looked through."""
    most: float = 0.8
    """If so much of all code is saved, it is not looked for more."""
    enough_code: int = 500
    """A part of so many nodes takes much longer than calling it."""
    enough_work: int = 4000
    """So does one of so many operations."""
    largest_array: int = 1024
    """Elements of arrays that stay in the processor's nearest cache until they are read."""
    unrolled: int = 64
    """About so many elements at most are written out one by one."""
    code_of_a_call: int = 100
    """What stands for the nodes of what is done from memory to memory."""
    code_of_a_function: int = 16
    """What a function of many operations adds: where there are many, it is called."""
    most_periods: int = 8
    """So many different periods are looked for, one after the other."""


class BatchPartition(NamedTuple):
    """Scans over a batch whose rows do not mix, cut into blocks that threads share.

    Measured: all together (the gradient of an LSTM).
    """

    least_rows: int = 8
    """A block has a multiple of so many rows: vectors stay whole, and products stay products."""
    most_blocks: int = 16
    """There are so many blocks at most."""
    least_work: int = 1_000_000
    """Scalar operations of a loop that are worth being cut into blocks."""


class Kernels(NamedTuple):
    """What a kernel is made for, and what it is handed. Not measured."""

    largest_constant: int = 16
    """Numbers that are no larger stay in a kernel: they decide how code is written. Extents above
    are arguments, so that one kernel serves many sizes."""
    constant_scratch: bool = False
    """Whether scratch has the sizes of this one program: shared memory is laid out when a kernel is
    compiled."""


class Arena(NamedTuple):
    """Where temporaries live. Not measured."""

    word: int = 8
    """Bytes: the least that a buffer takes."""
    small: int = 1024
    """Temporaries of so many bytes at most are not worth the search for the best place."""


@dataclass(frozen=True)
class Target:
    """A machine.

    Parameters
    ----------
    vector_bytes : int
        The size of a vector register.
    cache_line : int
        In bytes.
    cache, cache_ways : int
        The bytes of the cache that a core has to itself, and in how many places a line can be.
    parallel_loops : int
        In so many loops of a nest, from the outermost one on, iterations may go on at the same
        time: one where threads share a range, more where there is a grid.
    stages : tuple of str
        Which of the `Stage` that can be left out there are.
    routines : bool
        Whether loops may call those of BLAS and LAPACK.
    deterministic : bool
        Whether floats that meet in an element are combined in one order, also on a grid.
    tf32 : bool
        Whether a grid may round the operands of float32 products to tf32, for its tensor cores.
    libraries : bool
        Whether products of a program, outside of loops, may be calls of a library beside which
        kernels go on: cuBLAS, of a GPU.
    grid : Grid or None
        The threads of a GPU, to which loops with lanes are dealt; None for a CPU.
    unrolling, materialisation, ... : thresholds
        One record for each stage that has some.
    """

    vector_bytes: int = 64
    cache_line: int = 64
    cache: int = 1 << 20
    cache_ways: int = 8
    parallel_loops: int = 1
    stages: tuple[Stage, ...] = STAGES
    routines: bool = True
    deterministic: bool = False
    tf32: bool = False
    libraries: bool = False
    grid: Grid | None = None
    unrolling: Unrolling = Unrolling()
    materialisation: Materialisation = Materialisation()
    recomputation: Recomputation = Recomputation()
    reductions: Reductions = Reductions()
    fusion: Fusion = Fusion()
    loops: Loops = Loops()
    tiling: Tiling = Tiling()
    products: Products = Products()
    convolutions: Convolutions = Convolutions()
    transforms: Transforms = Transforms()
    matrices: Matrices = Matrices()
    control: Control = Control()
    joins: Joins = Joins()
    outlining: Outlining = Outlining()
    batch_partition: BatchPartition = BatchPartition()
    kernels: Kernels = Kernels()
    arena: Arena = Arena()

    @property
    def alignment(self) -> int:
        """What arrays lie at multiples of, in bytes."""
        return max(self.cache_line, self.vector_bytes)

    @property
    def lanes_are_threads(self) -> bool:
        """Whether the lanes of a loop are threads of a grid, and not elements of a register.

        Neighbouring threads load and store neighbouring elements, and share loops inside of others.
        """
        return self.grid is not None

    @property
    def sums_in_tiles(self) -> bool:
        """Whether products go in tiles, whose kernels also sum up what is made of them."""
        return self.grid is not None and bool(self.grid.tiles)

    def lanes(self, itemsize: int) -> int:
        """How many numbers of so many bytes are done at once."""
        if self.grid is not None:
            return self.grid.warp
        if "vectorise" not in self.stages:
            return 1
        return max(self.vector_bytes // itemsize, 1)


CPU = Target()
"""A CPU with vectors of 64 bytes."""
