"""The lists of graph passes for a grid of threads: those of a CPU, with passes inserted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.ir.graph import Graph
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.linalg.in_parts import OF_CORES
from functrans.optimise import checks
from functrans.optimise.conditions import has_complex
from functrans.optimise.grid.library_transforms import with_library_transforms
from functrans.optimise.grid.ordered_sums import depends, order_sums
from functrans.optimise.grid.scan_fission import split_scans
from functrans.optimise.machine import complex_parts
from functrans.optimise.passes import FOR_CORES, Pass, Passes


def _parts_of(primitive: Primitive) -> Callable[..., Any] | None:
    # LAPACK's operations stay complex, so that the error message can name them
    return None if primitive.name in OF_CORES else primitive.parts


def without_complex(graph: Graph, target: Target) -> Graph:
    """Replace complex numbers by pairs of real ones, but for operations that only LAPACK computes.

    Expects operations on complex numbers as they were traced, or already calls of a library.
    Leaves no complex values.
    """
    return complex_parts.without_complex(graph, target, _parts_of)


def _sums_are_ordered(graph: Graph, target: Target) -> None:
    if target.deterministic:
        checks.none_is(graph, depends, "adds up floats as threads come")


def _with(passes: tuple[Pass, ...], new: Pass, before: str) -> tuple[Pass, ...]:
    """The passes, with another one inserted before the one of the given name."""
    at = [each.name for each in passes].index(before)
    return (*passes[:at], new, *passes[at:])


FISSION = Pass(split_scans, "before code motion, which moves code out of each of the loops")
ORDERED = Pass(
    order_sums, "after all passes that create, merge or move scatters", _sums_are_ordered
)

PASSES = Passes(
    legalisation=(
        Pass(
            with_library_transforms, "before complex numbers become pairs, which no library accepts"
        ),
        Pass(without_complex, "kernels have no complex numbers", checks.is_real, True, has_complex),
    ),
    machine=_with(_with(FOR_CORES.machine, FISSION, "move_out_of_scans"), ORDERED, "outline"),
)
