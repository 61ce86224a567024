"""Copy elimination: contiguous slices of inputs are passed as addresses, and not copied.

A program that was unrolled from a loop passes a slice of its data to each step, which is compiled
once and takes the address of an array.
"""

from __future__ import annotations

from collections.abc import Mapping

from functrans.ir.graph import Atom, Var
from functrans.loop.nodes import ZERO, linear
from functrans.loop.statements import Buffer
from functrans.lower.plan import View
from functrans.lower.select.unrolling import Loops
from functrans.ops.compiled.elements import Puller


def view_of(
    var: Var,
    puller: Puller,
    loops: Loops,
    known: Mapping[Buffer, View],  # inputs, and views of inputs
) -> View | None:
    """The contiguous part of an input that a value is; None if it is no such part."""
    home = _moved(var, puller)
    if home not in known:
        return None
    shape = var.aval.shape
    position = tuple(
        i if extent > 1 else ZERO for i, extent in zip(loops(shape), shape, strict=True)
    )
    value = puller.element(var, position)
    if value.op != "load" or value.attribute is not home:
        return None
    shift = puller.simplify(linear(value.args, home.extents) - linear(position, shape))
    base, start = known[home]
    return View(base, start + int(shift.attribute)) if shift.op == "const" else None


def _moved(var: Var, puller: Puller) -> Buffer | None:
    """The buffer whose elements a value consists of, if it moves elements of one buffer only."""
    atom: Atom = var
    while isinstance(atom, Var):
        if atom in puller.buffers:
            return puller.buffers[atom]
        eqn = puller.producers.get(atom)
        if eqn is None or len(eqn.inputs) != 1 or eqn.primitive.pull is None:
            return None
        (atom,) = eqn.inputs
    return None
