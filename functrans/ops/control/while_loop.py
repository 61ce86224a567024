"""while: a body that is applied to a carry as long as a condition holds.

The operands are ``consts ++ init``; ``cond`` and ``body`` both take ``consts ++ carry``. The
results are the last carry, the number of steps, and a stack for each further result of the body.
User programs have no stacks: these hold the residuals of each step for the backward pass, which is
a `counted_scan_p` over them. So a while loop can be differentiated in reverse mode, although its
number of steps is unknown.

Parameters: ``cond``, ``body``, ``n_consts``, ``n_carry``, ``max_steps`` (None, or the maximum
number of steps, which it is an error to exceed; the stacks have this length instead of `GROWS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans.errors import ShapeError, StepLimitError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Eqn, Graph, Var, used_inputs
from functrans.ir.primitive import EqnSplit, Primitive
from functrans.ir.types import GROWS, Aval
from functrans.lazily import lazy
from functrans.ops.compiled.emission import Emit
from functrans.ops.control.layout import (
    STEPS,
    Flags,
    Scan,
    T,
    check_operands,
    cut,
    has_fixed_sizes,
    new_stack,
    stacked,
    strong,
    taking,
    undivided,
    where_not,
)
from functrans.ops.control.loops import in_parts, jvp, map_body
from functrans.ops.control.partial_evaluation import Rest, divide, join
from functrans.ops.control.scan import counted_scan_p, each_lane
from functrans.ops.define import primitive
from functrans.records import NamedTuple


class While(NamedTuple):
    """The parameters of a while loop."""

    cond: Graph
    body: Graph
    n_consts: int
    n_carry: int
    max_steps: int | None
    room: int | None = None
    """The length of the stacks, once the steps have been counted."""

    @property
    def length(self) -> int:
        """The leading extent of the stacks."""
        known = self.max_steps if self.room is None else self.room
        return GROWS if known is None else known

    @classmethod
    def of(cls, eqn: Eqn) -> While:
        """The loop of an equation."""
        return cls(**eqn.params)

    def parts(self, operands: Sequence[T]) -> list[Sequence[T]]:
        """The operands as steps, consts, init, xs, like a scan's: steps and xs are empty."""
        return [(), *cut(operands, self.n_consts), ()]

    def of_body(self, body: Graph, more_consts: int, more_carry: int) -> While:
        """The loop of a body that takes more values, after its own consts and after its carry.

        The condition ignores them.
        """
        consts, carry = cut(self.cond.inputs, self.n_consts)
        n_own = len(consts), more_consts, len(carry), more_carry
        _, const_inputs, _, carry_inputs, _ = cut(body.inputs, *n_own)
        inputs = [*consts, *const_inputs, *carry, *carry_inputs]
        cond = Graph(inputs, self.cond.eqns, self.cond.outputs)
        n_consts, n_carry = self.n_consts + more_consts, self.n_carry + more_carry
        return self._replace(cond=cond, body=body, n_consts=n_consts, n_carry=n_carry)

    def of_parts(self, transform: Any, n_consts: int, n_carry: int) -> While:
        """The loop with transformed graphs, which take other numbers of values."""
        cond, body = transform(self.cond), transform(self.body)
        return self._replace(cond=cond, body=body, n_consts=n_consts, n_carry=n_carry)

    def bind(self, *parts: Sequence[Any]) -> Sequence[Any]:
        """Apply the loop to steps, consts, init and xs; the first and the last are empty."""
        return while_p(*(x for part in parts for x in part), **self._asdict())


def _infer(loop: While, *avals: Aval) -> tuple[Aval, ...]:
    check_operands("while_loop", loop.body.in_avals, avals)
    check_operands("the condition of while_loop", loop.cond.in_avals, avals)
    (predicate,) = loop.cond.out_avals
    if predicate.shape != () or predicate.dtype != np.bool_:
        raise ShapeError(f"the condition of while_loop gives {predicate}, not a bool scalar")
    carry, ys = cut(strong(loop.body.out_avals), loop.n_carry)
    check_operands("the carry of while_loop", loop.body.in_avals[loop.n_consts :], carry)
    return (*carry, STEPS, *(stacked(y, loop.length) for y in ys))


def step_by_step(
    loop: While, operands: Sequence[Any], cond: Callable[[Sequence[Any]], Sequence[Any]],
    body: Callable[[Sequence[Any]], Sequence[Any]],
) -> tuple[Any, ...]:  # fmt: skip
    """The results of a while loop, by a Python loop that calls ``cond`` and ``body``."""
    consts, carry = cut(operands, loop.n_consts)
    rows = []
    steps = 0
    while cond([*consts, *carry])[0]:
        if steps == loop.max_steps:
            raise step_limit_error(steps)
        carry, row = cut(body([*consts, *carry]), loop.n_carry)
        rows.append(row)
        steps += 1
    stacks = []
    for j, aval in enumerate(loop.body.out_avals[loop.n_carry :]):
        stack = new_stack(aval, steps if loop.length == GROWS else loop.length)
        for i, row in enumerate(rows):
            stack[i] = row[j]
        stacks.append(stack)
    return (*carry, np.int64(steps), *stacks)


def _evaluate(loop: While, *operands: Any) -> tuple[Any, ...]:
    return step_by_step(loop, operands, partial(evaluate, loop.cond), partial(evaluate, loop.body))


def step_limit_error(limit: int) -> StepLimitError:
    """The error of a loop that exceeds its maximum number of steps."""
    return StepLimitError(
        f"a while_loop has not ended after max_steps={limit} steps: allow more, or see that its "
        "condition becomes false"
    )


# -- reverse mode ----------------------------------------------------------------------------------


def _split(loop: While, unknown: Flags, *, transform: Any) -> EqnSplit:
    """Split into a loop that stacks the residuals of its steps, and a scan over the stacks."""
    body = divide(loop.body, unknown, loop.n_consts, loop.n_carry, transform)
    c_unknown, i_unknown = map(tuple, cut(unknown, loop.n_consts))
    decides = used_inputs(loop.cond)
    if any(a and b for a, b in zip(c_unknown + body.carry, decides, strict=True)):
        return undivided(while_p, unknown, loop.body.in_avals, loop._asdict())

    init = [Var(aval) for aval in loop.body.in_avals[loop.n_consts :]]
    cond_consts, cond_carry = cut(loop.cond.inputs, loop.n_consts)
    # the condition may read consts that the body does not
    theirs = dict(zip(body.consts, where_not(c_unknown, cond_consts), strict=True))
    consts = [*body.known_consts, *(var for var in body.consts if var not in body.known_consts)]
    known = While(
        Graph(
            [*(theirs.get(var, var) for var in consts), *where_not(body.carry, cond_carry)],
            loop.cond.eqns,
            loop.cond.outputs,
        ),
        Graph(
            [*consts, *body.known.inputs[len(body.known_consts) :]],
            body.known.eqns,
            body.known.outputs,
        ),
        len(consts),
        loop.n_carry - sum(body.carry),
        loop.max_steps,
    )
    inputs = [*consts, *where_not(body.carry, init)]
    outputs = [Var(aval) for aval in while_p.infer_all([v.aval for v in inputs], known._asdict())]
    results, stacks = cut(outputs, len(outputs) - len(body.saved))
    scan = Scan(counted_scan_p, body.unknown, loop.length, False, 0, 0)
    return join(
        body,
        Eqn(while_p, inputs, outputs, known._asdict()),
        [*body.consts, *where_not(i_unknown, init)],
        results,
        Rest(scan, [outputs[known.n_carry]], init, i_unknown, (), stacks),
        (*body.carry, False, *body.ys),
    )


# -- vmap ------------------------------------------------------------------------------------------


def _batch(
    loop: While, operands: Sequence[Any], axes: Sequence[int | None], *, size: int, transform: Any
) -> tuple[Sequence[Any], Sequence[int | None]]:
    _, c_axes, i_axes, _ = loop.parts(axes)
    body = map_body(loop, (c_axes, i_axes, ()), size, transform)
    cond, (predicate_axis,) = transform(loop.cond, (*c_axes, *body.carry), size)
    if predicate_axis is not None:
        unchanged = {
            i: loop.n_consts + i
            for i, atom in enumerate(loop.body.outputs[: loop.n_carry])
            if atom is loop.body.inputs[loop.n_consts + i]
        }
        return each_lane(while_p, loop._asdict(), operands, axes, size, unchanged)
    return body.apply(loop._replace(cond=cond), loop.parts(operands), i_axes, size)


# -- the primitive ---------------------------------------------------------------------------------


_rule = taking(While, While._fields)

while_p: Primitive = primitive(
    "while_loop",
    infer=_rule(_infer),
    numpy=_rule(_evaluate),
    jvp=_rule(jvp),
    split=_rule(_split),
    batch=_rule(_batch),
    parts=_rule(in_parts),
    host=lazy("functrans.ops.control.compiled.growing:run_while"),
    emit=Emit(
        lazy("functrans.ops.control.compiled.loops:while_loop"),
        applies=lambda eqn, target: has_fixed_sizes(eqn),
        operations=lambda eqn, of_graph: (
            of_graph(eqn.params["cond"]) + of_graph(eqn.params["body"])
        ),
    ),
    several=True,
    higher_order=True,
)
