"""Target description of GPUs: where their facts and thresholds are others than those of a CPU."""

from __future__ import annotations

from functrans.loop.grid import Grid
from functrans.loop.target import (
    Arena,
    BatchPartition,
    Control,
    Fusion,
    Kernels,
    Loops,
    Materialisation,
    Products,
    Reductions,
    Target,
    Transforms,
    Unrolling,
)

CUDA = Target(
    vector_bytes=128,
    cache_line=128,
    cache=1 << 17,
    parallel_loops=8,
    stages=("vectorise", "split_reductions", "batch_partition"),
    routines=False,
    grid=Grid(),
    unrolling=Unrolling(alone=1, body_bytes=Grid().registers),
    materialisation=Materialisation(narrower=True),
    reductions=Reductions(
        # a block of threads sums up so much in about the time that another launch takes
        blocks=256,
        few_iterations=64,
        long=1 << 16,
        longest_alone=1 << 17,
        blocks_of_lanes=False,
    ),
    fusion=Fusion(worth_a_kernel=1, unrelated_rows=True),
    # rows that are too large for shared memory get memory of their own
    loops=Loops(largest_scratch=1 << 16, largest_stack=1 << 62, wide_columns=1, most_pieces=1),
    products=Products(smallest_side=64, smallest_work=1 << 21, worth_splitting=1 << 62),
    # what is done at once is in shared memory
    transforms=Transforms(long=2048, wide=1, largest_tile=24 << 10),
    batch_partition=BatchPartition(least_rows=1, most_blocks=1 << 62, least_work=0),
    control=Control(most_addends=64, least_sum=512),
    kernels=Kernels(constant_scratch=True),
    arena=Arena(word=256),
)
"""A GPU of NVIDIA's, of compute capability 8.0 or later."""
