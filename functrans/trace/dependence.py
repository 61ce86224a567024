"""Backward slicing: which inputs of a trace a value is computed from."""

from __future__ import annotations

from functrans.ir.graph import Var
from functrans.trace.absent import UNKNOWN
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer


def inputs_of(value: Tracer, trace: Trace) -> set[Var] | None:
    """The inputs of a trace that a value depends on, which may be one of a trace within it.

    None if it depends on what stands for nothing in the trace: an element of what is mapped, a
    carry of a loop.
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
