"""Real Fourier transforms: half the work if only the real or imaginary part is used.

Derivatives of transforms of real numbers are of this kind. Consecutive transforms along several
axes are treated as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.ops.compiled.pairs import Pair
from functrans.ops.fft.split import split_fft_p
from functrans.optimise.rewrite import replaced
from functrans.records import NamedTuple
from functrans.trace.stage import Environment

_real_part = lazy("functrans.ops.fft.compiled.parts:real_part")


class _Chain(NamedTuple):
    """Consecutive transforms along different axes, each of the results of the previous one."""

    eqns: tuple[Eqn, ...]

    @property
    def operands(self) -> tuple[Atom, ...]:
        return self.eqns[0].inputs

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(eqn.params["axis"] for eqn in self.eqns)

    @property
    def scale(self) -> float:
        scale = 1.0
        for eqn in self.eqns:
            scale *= eqn.params["scale"]
        return scale


def halve_transforms(graph: Graph, target: Target) -> Graph:
    """Halve Fourier transforms if only the real or only the imaginary part is used.

    Expects complex numbers as pairs of real ones, and sums in their final form.
    Leaves no full-length transform of even length of which only one part is used.
    """
    chains = {
        eqn: _chain(eqn, graph.makers, graph.uses)
        for eqn in graph.eqns
        if eqn.primitive is split_fft_p and _is_halved(eqn, graph.uses)
    }
    return replaced(graph, {eqn: partial(_halved, eqn, chains[eqn], graph.uses) for eqn in chains})


def _halved(
    eqn: Eqn, chain: _Chain, uses: Mapping[Atom, int], values: Environment
) -> tuple[Any, ...]:
    """The part that is used, in place of both results, since the other one is not read."""
    re, im = (values.read(atom) for atom in chain.operands)
    is_real = uses[eqn.outputs[0]] > 0
    # the imaginary part of x is the real part of -1j * x
    x = Pair(re, im) if is_real else Pair(im, -re)
    return (_real_part(x, chain.axes, chain.scale),) * 2


def _is_halved(eqn: Eqn, uses: Mapping[Atom, int]) -> bool:
    """Whether one part alone is used, and the length is even, so that half of it suffices."""
    points = eqn.inputs[0].aval.shape[eqn.params["axis"]]
    return points % 2 == 0 and sum(uses[var] > 0 for var in eqn.outputs) == 1


def _chain(eqn: Eqn, producers: Mapping[Atom, Eqn], uses: Mapping[Atom, int]) -> _Chain:
    found = [eqn]
    while True:
        makers = [producers.get(x) for x in found[0].inputs]
        before, axes = makers[0], {each.params["axis"] for each in found}
        if (
            before is None
            or before.primitive is not split_fft_p
            or before.outputs != found[0].inputs
            or before.params["axis"] in axes
            or any(uses[var] > 1 for var in before.outputs)
        ):
            return _Chain(tuple(found))
        found.insert(0, before)
