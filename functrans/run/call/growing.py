"""Loops whose number of steps is found on the way, as machine code.

Compiled programs have arrays of fixed sizes. So a while loop that stacks residuals runs twice:
first without the stacks, to count its steps, then with stacks of the next power of two. A scan over
such stacks is compiled for that size, too: few programs serve all numbers of steps. What such loops
stand in (a scan, the lanes of `vmap`, a branch) is run step by step, with a compiled body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.graph import Eqn, Graph, Var
from functrans.ir.types import Aval
from functrans.lower.select.partition import compiled
from functrans.ops.control.layout import GROWS, Scan
from functrans.ops.control.scan import step_by_step
from functrans.ops.control.while_loop import While, step_limit_error, while_p
from functrans.ops.elementwise.compare import less_equal
from functrans.ops.elementwise.logic import bitwise_and
from functrans.optimise import optimise
from functrans.run.call.compiled import Program
from functrans.trace.stage import replay, rewrite

LEAST = 16
"""The smallest stacks."""


def run_while(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The results of a while loop; None if it has no compiled form."""
    loop = While(**eqn.params)
    program = _counting(loop, tuple(x.aval for x in eqn.inputs))
    if program is None:
        return None
    start = [np.int64(0)] if loop.max_steps is not None else []
    results = program(*operands[: loop.n_consts], *start, *operands[loop.n_consts :])
    results = results[len(start) :]
    steps = int(results[loop.n_carry])
    if loop.max_steps is not None and steps > loop.max_steps:
        raise step_limit_error(loop.max_steps)
    if len(eqn.outputs) == loop.n_carry + 1:
        return results
    extent = _extent(steps) if loop.max_steps is None else loop.max_steps
    params = {**eqn.params, "max_steps": None, "room": extent}
    stacking: Program | None = _fixed(eqn.primitive, eqn.inputs, eqn.outputs, params, extent)
    if stacking is None:
        return None
    rest: list[Any] = list(stacking(*operands))
    if loop.max_steps is None:
        rest[loop.n_carry + 1 :] = [stack[:steps] for stack in rest[loop.n_carry + 1 :]]
    return rest


def run_counted_scan(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The results of a scan over stacks; None if it has no compiled form."""
    if eqn.params["length"] != GROWS:
        return run_scan(eqn, operands)
    steps = int(operands[0])
    extent = _extent(steps)
    params = {**eqn.params, "length": extent}
    program = _fixed(eqn.primitive, eqn.inputs, eqn.outputs, params, extent)
    if program is None:
        return run_scan(eqn, operands)
    first = 1 + params["n_consts"] + params["n_carry"]
    results = program(*operands[:first], *(_room(x, extent) for x in operands[first:]))
    n_carry = params["n_carry"]
    return [*results[:n_carry], *(y[:steps] for y in results[n_carry:])]


def run_scan(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of a scan that cannot be compiled as a whole."""
    scan = Scan(eqn.primitive, **eqn.params)
    body = _program(scan.body)
    return step_by_step(scan, operands, lambda inputs: body(*inputs))


def run_cond(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of a choice that cannot be compiled as a whole."""
    branches: tuple[Graph, ...] = eqn.params["branches"]
    chosen = branches[min(max(int(operands[0]), 0), len(branches) - 1)]
    return _program(chosen)(*operands[1:])


@cached(256)
def _program(graph: Graph) -> Program:
    return compile_program(optimise(graph))


def _extent(steps: int) -> int:
    return max(LEAST, 1 << (steps - 1).bit_length())


def _room(stack: np.ndarray[Any, Any], extent: int) -> np.ndarray[Any, Any]:
    """The stack with room for more; that it was cut from, if it was."""
    shape = (extent, *stack.shape[1:])
    whole = stack.base
    if isinstance(whole, np.ndarray) and whole.shape == shape and whole.dtype == stack.dtype:
        return whole
    whole = np.zeros(shape, stack.dtype)
    whole[: len(stack)] = stack
    return whole


@cached(256)
def _counting(loop: While, avals: tuple[Aval, ...]) -> Program | None:
    """The loop without its stacks; with a limit, it stops one step after it."""
    body = Graph(loop.body.inputs, loop.body.eqns, loop.body.outputs[: loop.n_carry])
    plain = loop._replace(body=body, max_steps=None)
    if loop.max_steps is not None:
        plain = _limited(plain, loop.max_steps)
        avals = (*avals[: loop.n_consts], Aval((), np.int64), *avals[loop.n_consts :])
    inputs = [Var(aval) for aval in avals]
    outputs = [Var(aval) for aval in while_p.infer_all(avals, plain._asdict())]
    return _compile(Eqn(while_p, inputs, outputs, plain._asdict()))


def _limited(loop: While, limit: int) -> While:
    """The loop with a counter in front of its carry."""
    consts, carry = loop.n_consts, loop.body.in_avals[loop.n_consts :]
    avals = [*loop.body.in_avals[:consts], Aval((), np.int64), *carry]

    def body(*inputs: Any) -> list[Any]:
        values = [*inputs[:consts], *inputs[consts + 1 :]]
        return [inputs[consts] + 1, *replay(loop.body, values)]

    def cond(*inputs: Any) -> list[Any]:
        (holds,) = replay(loop.cond, [*inputs[:consts], *inputs[consts + 1 :]])
        return [bitwise_and(holds, less_equal(inputs[consts], np.int64(limit)))]

    return While(rewrite(cond, avals), rewrite(body, avals), consts, loop.n_carry + 1, None)


def _fixed(primitive: Any, inputs: Any, outputs: Any, params: dict[str, Any], extent: int) -> Any:
    return _fixed_program(
        primitive,
        tuple(_sized(x.aval, extent) for x in inputs),
        tuple(_sized(x.aval, extent) for x in outputs),
        tuple(params.items()),
    )


def _sized(aval: Aval, extent: int) -> Aval:
    if aval.shape[:1] != (GROWS,):
        return aval
    return aval.update(shape=(extent, *aval.shape[1:]))


@cached(256)
def _fixed_program(
    primitive: Any, inputs: tuple[Aval, ...], outputs: tuple[Aval, ...], params: Any
) -> Program | None:
    eqn = Eqn(primitive, [Var(a) for a in inputs], [Var(a) for a in outputs], dict(params))
    first = eqn.params["n_carry"] + (primitive is while_p)
    return _compile(eqn, stacks=range(first, len(outputs)))


def _compile(eqn: Eqn, stacks: Sequence[int] = ()) -> Program | None:
    graph = optimise(Graph([x for x in eqn.inputs if isinstance(x, Var)], [eqn], eqn.outputs))
    return Program(graph, in_part=stacks) if all(map(compiled, graph.eqns)) else None


RUNNERS = {
    "while_loop": run_while,
    "counted_scan": run_counted_scan,
    "scan": run_scan,
    "cond": run_cond,
}


def compile_program(graph: Graph, donated: Sequence[int] = ()) -> Program:
    """Compile a graph in which there may be loops whose number of steps is found on the way."""
    return Program(graph, RUNNERS, donated)
