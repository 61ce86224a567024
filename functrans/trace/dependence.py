"""Backward slicing: the inputs of a trace from which a value is computed."""

from __future__ import annotations

from functrans.ir.graph import Var
from functrans.trace.absent import UNKNOWN
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer


def inputs_of(value: Tracer, trace: Trace) -> set[Var] | None:
    """The inputs of a trace on which a value, also one of an inner trace, depends.

    None if it depends on an input of an inner trace without a counterpart in the trace: an element
    of a mapped value, or the carry of a loop.
    """
    found: set[Var] = set()
    seen: set[Var] = set()
    waiting = [(value._owner, value._variable)]
    while waiting:
        owner, var = waiting.pop()
        if var in seen:
            continue
        seen.add(var)
        eqn = owner.maker(var)
        if eqn is not None:
            waiting += [(owner, x) for x in eqn.inputs if isinstance(x, Var)]
        elif var in owner.inputs and owner is trace:
            found.add(var)
        else:
            outer = dict(zip(owner.inputs, owner.operands or (), strict=False))
            outer.update(owner.captures)
            origin = outer.get(var, UNKNOWN)
            if isinstance(origin, Tracer):
                waiting.append((origin._owner, origin._variable))
            elif origin is UNKNOWN:
                return None
    return found
