"""The compiler's list of stages for a GPU: those of a CPU, and among them those of a grid.

`functrans.lower.pipeline` imports this with the first program for a GPU.
"""

from __future__ import annotations

from dataclasses import replace

from functrans.loop.reductions import Reductions
from functrans.loop.target import Target
from functrans.lower import checks, printing
from functrans.lower.grid import stages
from functrans.lower.pipeline import CPU_PIPELINE, Pipeline, Stage

_SHARED = {stage.name: stage for stage in CPU_PIPELINE.stages}


def _inside(target: Target) -> Target:
    """The target for a graph inside a loop, which shares the team of that loop."""
    grid = target.gpu._replace(tiles=(), attention_tiles=())
    reductions = target[Reductions]._replace(most_columns=grid.largest_team)
    return replace(target, libraries=False, grid=grid).having(reductions)


_ROOTS = (checks.roots_read_what_is_made, printing.roots)
_NESTS = (checks.nests_read_what_is_made, printing.nests)
_STEPS = (checks.steps_fit_kernels, printing.kernels)

GRID_PIPELINE = Pipeline(
    graph=CPU_PIPELINE.graph,
    loops=(
        _SHARED["selection"],
        Stage("attention", stages.attention, *_ROOTS),
        Stage("library calls", stages.library_calls, *_ROOTS),
        Stage("reduction splitting", stages.reduction_splitting, *_ROOTS),
        Stage("fusion", stages.fusion, checks.each_root_has_a_loop, printing.loops),
        Stage("loop generation", stages.loop_generation, *_NESTS),
        _SHARED["merging"],
        Stage("rematerialisation", stages.rematerialisation, *_NESTS),
    ),
    kernels=(
        _SHARED["work sharing"],
        _SHARED["buffer donation"],
        Stage("loop distribution", stages.loop_distribution, *_NESTS),
        Stage("horizontal fusion", stages.horizontal_fusion, *_NESTS),
        Stage("thread mapping", stages.thread_mapping, *_NESTS),
        _SHARED["kernel construction"],
        Stage("loop coalescing", stages.loop_coalescing, *_STEPS),
        Stage("transposition", stages.transposition, *_STEPS),
        Stage("column reduction", stages.column_reduction, *_STEPS),
        Stage("register rows", stages.register_rows, *_STEPS),
        Stage("software pipelining", stages.software_pipelining, *_STEPS),
        Stage("strip mining", stages.strip_mining, *_STEPS),
        Stage("barrier insertion", stages.barrier_insertion, *_STEPS),
    ),
    memory=CPU_PIPELINE.memory,
    inside=_inside,
)


def pipeline() -> Pipeline:
    """The stages for a GPU."""
    return GRID_PIPELINE
