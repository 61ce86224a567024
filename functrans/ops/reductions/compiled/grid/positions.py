"""Argmax and argmin of long lines: first the extremes, then the first index of each.

Each is a separate reduction, which is blocked if it is long.
"""

from __future__ import annotations

from functrans.ir.graph import Eqn
from functrans.loop.nodes import fold
from functrans.loop.reductions import Reductions
from functrans.loop.scalar import Scalar
from functrans.loop.statements import load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.reductions.reduce import first_of


def are_few(eqn: Eqn, target: Target) -> bool:
    """Whether there are too few lines to keep a machine busy with one thread or team for each."""
    assert target.grid is not None
    (x,) = eqn.inputs
    extent: int = x.aval.shape[eqn.params["axis"]]
    is_last = eqn.params["axis"] == x.aval.ndim - 1
    # neighbouring threads have neighbouring lines
    enough = target[Reductions].few_iterations * (1 if is_last else target.grid.block)
    is_long = extent >= target[Reductions].blocks and x.aval.size >= target[Reductions].long
    return is_long and x.aval.size // extent <= enough


def emit(operation: str, at: Emission) -> None:
    """The extremes by an operation, then their first positions."""
    x, out = at.eqn.inputs[0].aval, at.eqn.outputs[0].aval
    axis: int = at.eqn.params["axis"]
    extremes = at.scratch("extremes", x.dtype, out.shape)
    line = at.loops(out.shape)

    def element(k: Scalar) -> Scalar:
        return at.element(0, (*line[:axis], k, *line[axis:]))

    extreme = fold(operation, [x.shape[axis]], element)
    at.compute(extremes, line, range(len(line)), [Element(line, extreme)])
    first = first_of(load(extremes, line), element, x.shape[axis])
    at.compute(at.result(), line, range(len(line)), [Element(line, first)])
