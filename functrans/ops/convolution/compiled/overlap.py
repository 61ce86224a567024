"""Overlap-add of materialised windows, which are not recomputed for each term."""

from __future__ import annotations

from typing import Any

from functrans.loop.statements import load
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.convolution.windows import pull_overlap


def emit(at: Emission) -> None:
    """The sums, as elements in loops that can be fused with those of other values."""
    windows, target = at.operand(0), at.result()
    loops = at.loops(target.extents)

    def read(number: int, position: Any) -> Any:
        return load(windows, [at.simplify(i) for i in position])

    total = pull_overlap(read, loops, at.eqn.inputs[0].aval, **at.eqn.params)
    at.compute(target, loops, range(len(loops)), [Element(loops, at.simplify(total))])
