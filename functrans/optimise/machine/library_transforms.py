"""Long Fourier transforms become those of a library, where a target has one.

A complex array and the library agree on how numbers lie in memory, so that nothing is moved, and
the number that a transform is divided by is fused with what comes next.
"""

from __future__ import annotations

from math import prod
from typing import Any

from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.elementwise.complex_numbers import interleave_p, join_p
from functrans.ops.fft.fourier import fft_p, irfft_p, rfft_p, scale_of
from functrans.ops.fft.library import Sort, library_fft_p
from functrans.ops.fft.split import is_made
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

SORTS: dict[Primitive, Sort] = {fft_p: "c2c", rfft_p: "r2c", irfft_p: "c2r"}


def with_library_transforms(graph: Graph, target: Target) -> Graph:
    """The graph with transforms by a library outside of loops: long ones, and of any prime."""
    if not any(_is_taken(eqn, target) for eqn in graph.eqns):
        return graph

    def run(*inputs: Any) -> list[Any]:
        values = Environment(zip(graph.inputs, inputs, strict=True))
        for eqn in graph.eqns:
            operands = [values.read(atom) for atom in eqn.inputs]
            if not _is_taken(eqn, target):
                values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
                continue
            with at_source_of(eqn):
                values[eqn.outputs[0]] = _by_library(eqn, operands[0])
        return [values.read(atom) for atom in graph.outputs]

    return rewrite(run, graph.in_avals)


def _points(eqn: Eqn) -> int:
    aval, params = eqn.inputs[0].aval, eqn.params
    points: int = params.get("points", aval.shape[params["axis"]])
    return points


def _is_taken(eqn: Eqn, target: Target) -> bool:
    if not target.libraries or eqn.primitive not in SORTS or 0 in eqn.inputs[0].aval.shape:
        return False
    points, shape, axis = _points(eqn), eqn.inputs[0].aval.shape, eqn.params["axis"]
    # lines that are not evenly spaced are a call each
    calls = min(prod(shape[:axis]), prod(shape[axis + 1 :]))
    limits = target.transforms
    is_long = points >= limits.library and calls <= limits.most_calls
    return is_long or not is_made(points)


def _by_library(eqn: Eqn, x: Any) -> Any:
    sort, points, params = SORTS[eqn.primitive], _points(eqn), eqn.params
    inverse = params.get("inverse", sort == "c2r")
    given = x if sort == "r2c" else interleave_p(x)
    found = library_fft_p(given, sort=sort, axis=params["axis"], points=points, inverse=inverse)
    scale = scale_of(points, inverse, params["norm"])
    scaled = found if scale == 1 else found * found.dtype.type(scale)
    return scaled if sort == "c2r" else join_p(scaled)
