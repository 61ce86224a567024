"""Dynamic extents: compiled loops whose number of steps is known only when they have run.

Compiled programs have arrays of fixed sizes. So a while loop that stacks residuals runs twice:
first without the stacks, to count its steps, then with stacks of the next power of two. A scan over
such stacks is compiled for that size, too, so that few programs serve all numbers of steps. An
enclosing scan or branch runs step by step, with a compiled body, except for the lanes of `vmap`
(`functrans.ops.control.compiled.lanes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Compile, Primitive
from functrans.ir.types import GROWS, Aval
from functrans.ops.control.compiled.lanes import extent_of, run_lanes
from functrans.ops.control.layout import Scan, applied_once
from functrans.ops.control.scan import step_by_step
from functrans.ops.control.while_loop import While, while_p
from functrans.ops.control.while_loop import step_by_step as while_step_by_step


def run_while(eqn: Eqn, operands: Sequence[Any], compile: Compile) -> Sequence[Any]:
    """The results of a while loop; step by step if it contains anything without a compiled form."""
    loop = While.of(eqn)
    # with max_steps the stacks have fixed extents: something else has no compiled form
    counting = None
    if loop.max_steps is None:
        counting = compile(_counting(loop, tuple(x.aval for x in eqn.inputs)), whole=True)
    if counting is None:
        return _while_step_by_step(loop, operands, compile)
    results = counting(*operands)
    if len(eqn.outputs) == loop.n_carry + 1:
        return results
    steps = int(results[loop.n_carry])
    extent = extent_of(steps)
    stacking = _fixed(eqn, {**eqn.params, "room": extent}, extent, compile)
    if stacking is None:
        return _while_step_by_step(loop, operands, compile)
    rest: list[Any] = list(stacking(*operands))
    rest[loop.n_carry + 1 :] = [stack[:steps] for stack in rest[loop.n_carry + 1 :]]
    return rest


def _while_step_by_step(loop: While, operands: Sequence[Any], compile: Compile) -> Sequence[Any]:
    cond, body = compile(loop.cond), compile(loop.body)
    assert cond is not None
    assert body is not None
    return while_step_by_step(loop, operands, lambda x: cond(*x), lambda x: body(*x))


def run_scan(eqn: Eqn, operands: Sequence[Any], compile: Compile) -> Sequence[Any]:
    """The results of a scan: over stacks for a power of two of steps, or step by step."""
    if eqn.params["length"] != GROWS:
        results = run_lanes(eqn, operands, compile)
        return _step_by_step(eqn, operands, compile) if results is None else results
    steps = int(operands[0])
    extent = extent_of(steps)
    params = {**eqn.params, "length": extent}
    program = _fixed(eqn, params, extent, compile)
    if program is None:
        return _step_by_step(eqn, operands, compile)
    first = 1 + params["n_consts"] + params["n_carry"]
    results = program(*operands[:first], *(_padded(x, extent) for x in operands[first:]))
    n_carry = params["n_carry"]
    return [*results[:n_carry], *(y[:steps] for y in results[n_carry:])]


def _step_by_step(eqn: Eqn, operands: Sequence[Any], compile: Compile) -> Sequence[Any]:
    scan = Scan.of(eqn)
    body = compile(scan.body)
    assert body is not None
    return step_by_step(scan, operands, lambda inputs: body(*inputs))


def run_cond(eqn: Eqn, operands: Sequence[Any], compile: Compile) -> Sequence[Any]:
    """The results of the selected branch."""
    branches: tuple[Graph, ...] = eqn.params["branches"]
    branch = compile(branches[min(max(int(operands[0]), 0), len(branches) - 1)])
    assert branch is not None
    return branch(*operands[1:])


def _padded(stack: np.ndarray[Any, Any], extent: int) -> np.ndarray[Any, Any]:
    """The stack, padded to an extent; the larger array itself if it is a slice of one."""
    shape = (extent, *stack.shape[1:])
    whole = stack.base
    if isinstance(whole, np.ndarray) and whole.shape == shape and whole.dtype == stack.dtype:
        return whole
    whole = np.zeros(shape, stack.dtype)
    whole[: len(stack)] = stack
    return whole


@cached(256)
def _counting(loop: While, avals: tuple[Aval, ...]) -> Graph:
    """The loop without its stacks."""
    body = Graph(loop.body.inputs, loop.body.eqns, loop.body.outputs[: loop.n_carry])
    return applied_once(while_p, avals, loop._replace(body=body)._asdict())


def _fixed(
    eqn: Eqn, params: dict[str, Any], extent: int, compile: Compile
) -> Callable[..., Sequence[Any]] | None:
    """The loop with stacks of a known extent."""
    graph = _of_extent(
        eqn.primitive, tuple(x.aval for x in eqn.inputs), tuple(params.items()), extent
    )
    first = params["n_carry"] + (eqn.primitive is while_p)
    return compile(graph, whole=True, in_part=tuple(range(first, len(eqn.outputs))))


@cached(256)
def _of_extent(
    primitive: Primitive, avals: tuple[Aval, ...], params: tuple[tuple[str, Any], ...], extent: int
) -> Graph:
    return applied_once(primitive, [_with_extent(aval, extent) for aval in avals], dict(params))


def _with_extent(aval: Aval, extent: int) -> Aval:
    if aval.shape[:1] != (GROWS,):
        return aval
    return aval.update(shape=(extent, *aval.shape[1:]))
