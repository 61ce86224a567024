"""Target description of GPUs: the properties and thresholds in which they differ from CPUs."""

from __future__ import annotations

from functrans.loop.grid import Grid
from functrans.loop.reductions import Reductions
from functrans.loop.target import Target
from functrans.lower.kernel.arena import Arena
from functrans.lower.kernel.batch_partition import BatchPartition
from functrans.lower.kernel.symbolic_sizes import Kernels
from functrans.lower.nest.fusion import Fusion
from functrans.lower.nest.index_splitting import Pieces
from functrans.lower.nest.vectors import Vectors
from functrans.lower.select.materialise import Materialisation
from functrans.lower.select.unrolling import Unrolling
from functrans.ops.fft.compiled.ways import Transforms
from functrans.ops.linalg.compiled.blas import Products
from functrans.optimise.machine.gathered_rows import GatheredRows
from functrans.optimise.machine.scan_motion import Motion

CUDA = Target(
    vector_bytes=128,
    cache_line=128,
    cache=1 << 17,
    parallel_loops=8,
    stages=("vectorise", "split_reductions", "batch_partition"),
    routines=False,
    grid=Grid(),
    largest_scratch=1 << 18,
    largest_stack=1 << 62,
).having(
    Unrolling(alone=1, body_bytes=Grid().registers),
    Materialisation(narrower=True),
    GatheredRows(shortest=1 << 62),
    Reductions(
        # for sums of this size, a block of threads takes about as long as another launch
        blocks=256,
        few_iterations=64,
        long=1 << 16,
        longest_alone=1 << 17,
        blocks_of_lanes=False,
    ),
    Fusion(worth_a_kernel=1, unrelated_rows=True),
    Vectors(wide_columns=1, together=1),
    Pieces(most_pieces=1, long_piece=2),
    Products(smallest_side=64, smallest_work=1 << 21, worth_splitting=1 << 62),
    # values that are computed together are in shared memory
    Transforms(long=2048, wide=1, largest_tile=24 << 10, far=1 << 62),
    # what all blocks repeat, they do at once
    BatchPartition(least_rows=1, most_blocks=1 << 62, least_work=0, most_repeated=1 << 62),
    Motion(most_addends=64, least_sum=512, least_rows=512),
    Kernels(constant_scratch=True),
    Arena(word=256),
)
"""A GPU of NVIDIA's, of compute capability 8.0 or later."""
