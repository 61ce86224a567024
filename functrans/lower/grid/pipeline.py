"""The compiler's list of stages for a GPU: those of a CPU, and among them those of a grid.

`functrans.lower.pipeline` imports this with the first program for a GPU.
"""

from __future__ import annotations

from dataclasses import replace

from functrans.lazily import lazy_module
from functrans.loop.reductions import Reductions
from functrans.loop.target import Target
from functrans.lower.grid import stages
from functrans.lower.pipeline import CPU_PIPELINE, OF_NESTS, OF_ROOTS, OF_STEPS, Pipeline, Stage

checks = lazy_module("functrans.lower.checks", "each_root_has_a_loop")
printing = lazy_module("functrans.lower.printing", "loops")

_SHARED = {stage.name: stage for stage in CPU_PIPELINE.stages}


def _inside(target: Target) -> Target:
    """The target for a graph inside a loop, which shares the team of that loop."""
    grid = target.gpu._replace(tiles=(), attention_tiles=())
    reductions = target[Reductions]._replace(most_columns=grid.largest_team)
    return replace(target, libraries=False, grid=grid).having(reductions)


GRID_PIPELINE = Pipeline(
    graph=CPU_PIPELINE.graph,
    loops=(
        _SHARED["selection"],
        Stage("attention", stages.attention, *OF_ROOTS),
        Stage("library calls", stages.library_calls, *OF_ROOTS),
        Stage("reduction splitting", stages.reduction_splitting, *OF_ROOTS),
        Stage("fusion", stages.fusion, checks.each_root_has_a_loop, printing.loops),
        Stage("loop generation", stages.loop_generation, *OF_NESTS),
        _SHARED["merging"],
        Stage("rematerialisation", stages.rematerialisation, *OF_NESTS),
    ),
    kernels=(
        _SHARED["work sharing"],
        _SHARED["buffer donation"],
        Stage("loop distribution", stages.loop_distribution, *OF_NESTS),
        Stage("horizontal fusion", stages.horizontal_fusion, *OF_NESTS),
        Stage("thread mapping", stages.thread_mapping, *OF_NESTS),
        _SHARED["kernel construction"],
        Stage("loop coalescing", stages.loop_coalescing, *OF_STEPS),
        Stage("transposition", stages.transposition, *OF_STEPS),
        Stage("column reduction", stages.column_reduction, *OF_STEPS),
        Stage("register rows", stages.register_rows, *OF_STEPS),
        Stage("software pipelining", stages.software_pipelining, *OF_STEPS),
        Stage("strip mining", stages.strip_mining, *OF_STEPS),
        Stage("barrier insertion", stages.barrier_insertion, *OF_STEPS),
    ),
    memory=CPU_PIPELINE.memory,
    inside=_inside,
)


def pipeline() -> Pipeline:
    """The stages for a GPU."""
    return GRID_PIPELINE
