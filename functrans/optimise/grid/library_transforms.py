"""Library calls for long Fourier transforms, if the target has a library.

The library uses the memory layout of complex arrays, so nothing is copied; the normalisation is
fused with later operations.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.elementwise.complex_numbers import interleave_p, join_p
from functrans.ops.fft.fourier import fft_p, irfft_p, rfft_p, scale_of
from functrans.ops.fft.grid.library import Sort, library_fft_p
from functrans.ops.fft.split import factors, is_made
from functrans.optimise.rewrite import replaced
from functrans.records import NamedTuple
from functrans.trace.stage import Environment


class LibraryTransforms(NamedTuple):
    """Thresholds for Fourier transforms by a library. Not measured."""

    library: int = 2048
    """The fewest points that a library transforms, if there is one: more than fit into a block of
    threads, so that kernels would traverse memory twice, too, without fusion in between.
    """
    most_calls: int = 64
    """The most calls for one array whose lines are not evenly spaced."""
    largest_prime: int = 13
    """With larger prime factors, a library computes transforms: butterflies need many registers."""


SORTS: dict[Primitive, Sort] = {fft_p: "c2c", rfft_p: "r2c", irfft_p: "c2r"}


def with_library_transforms(graph: Graph, target: Target) -> Graph:
    """Select library calls for Fourier transforms outside of loops, if long or of prime length.

    Expects complex numbers, whose memory layout is that of the library.
    Leaves transforms with kernels of our own, and library calls for the others.
    """
    taken = [eqn for eqn in graph.eqns if _is_taken(eqn, target)]
    return replaced(graph, {eqn: partial(_by_library, eqn) for eqn in taken})


def _points(eqn: Eqn) -> int:
    aval, params = eqn.inputs[0].aval, eqn.params
    return params.get("points", aval.shape[params["axis"]])


def _is_taken(eqn: Eqn, target: Target) -> bool:
    if not target.libraries or eqn.primitive not in SORTS or 0 in eqn.inputs[0].aval.shape:
        return False
    points, shape, axis = _points(eqn), eqn.inputs[0].aval.shape, eqn.params["axis"]
    # lines that are not evenly spaced need a call each
    calls = min(prod(shape[:axis]), prod(shape[axis + 1 :]))
    limits = target[LibraryTransforms]
    is_long = points >= limits.library and calls <= limits.most_calls
    primes = factors(points)
    return is_long or not is_made(points) or max(primes, default=1) > limits.largest_prime


def _by_library(eqn: Eqn, values: Environment) -> list[Any]:
    x = values.read(eqn.inputs[0])
    sort, points, params = SORTS[eqn.primitive], _points(eqn), eqn.params
    inverse = params.get("inverse", sort == "c2r")
    given = x if sort == "r2c" else interleave_p(x)
    found = library_fft_p(given, sort=sort, axis=params["axis"], points=points, inverse=inverse)
    scale = scale_of(points, inverse, params["norm"])
    scaled = found if scale == 1 else found * found.dtype.type(scale)
    return [scaled if sort == "c2r" else join_p(scaled)]
