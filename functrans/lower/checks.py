"""Postconditions of each stage, for `functrans.config.check_plans`.

The memory accesses of kernels are verified at the end, by `functrans.lower.verify`.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrans.errors import PlanError
from functrans.ir.check import checked
from functrans.loop.statements import Buffer
from functrans.loop.walk import stored
from functrans.lower.draft import Draft
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Emitted, Root


def _broken(promise: str) -> PlanError:
    return PlanError(
        "a stage of the compiler breaks its promise, which is a fault of functrans and not of "
        f"your program: {promise}"
    )


def graph_is_typed(draft: Draft) -> None:
    """The graph is well typed, as after every rewrite."""
    checked(draft.graph, "rewriting")


def kept_is_made(draft: Draft) -> None:
    """Every materialised value is a result of an equation of the graph."""
    made = {var for eqn in draft.graph.eqns for var in eqn.outputs}
    if not draft.kept <= made:
        raise _broken("a value is kept that no equation makes")


def roots_read_what_is_made(draft: Draft) -> None:
    """Each root comes after those whose values it reads."""
    made = {*draft.inputs, *draft.chosen.views}
    for root in draft.roots:
        _check_reads(f"the root of {root.target}", root.loads, made | _written(root))
        made.update((root.target, *root.also_written))


def each_root_has_a_loop(draft: Draft) -> None:
    """Each root is in exactly one nest, which comes after those whose values it reads."""
    found = [root for loop in draft.loops for root in _roots_in(loop)]
    if len(found) != len(draft.roots) or set(found) != set(draft.roots):
        raise _broken("a root is in no loop, or in several")
    made = {*draft.inputs, *draft.chosen.views}
    for loop in draft.loops:
        inside = _roots_in(loop)
        made.update(one for root in inside for one in (root.target, *root.also_written))
        for root in inside:
            _check_reads(f"the nest of {root.target}", root.loads, made | _written(root))


def _written(root: Root) -> set[Buffer]:
    """The buffers that the statements of a root write."""
    return stored(root.statements) if isinstance(root, Emitted) else set()


def _roots_in(loop: Loop) -> list[Root]:
    return [
        root
        for child in loop.children
        for root in (_roots_in(child) if isinstance(child, Loop) else [child])
    ]


def nests_read_what_is_made(draft: Draft) -> None:
    """Each nest comes after those that write what it reads."""
    # the nest of a result that is a mere copy may have been removed, if it is stored in a donated
    # input
    made = {*draft.inputs, *draft.chosen.views, *draft.homes}
    for number, nest in enumerate(draft.nests):
        made |= nest.stores
        _check_reads(f"nest {number}", nest.loads, made)


def steps_fit_kernels(draft: Draft) -> None:
    """Each step has as many buffers and sizes as its kernel takes."""
    for step in draft.steps:
        taken = len(step.kernel.buffers), step.kernel.sizes
        if (len(step.buffers), len(step.sizes) + len(step.turns)) != taken:
            raise _broken("a kernel is called with other arguments than it takes")


def outputs_have_memory(draft: Draft) -> None:
    """Every buffer that a step uses is an input or a part of one, an output, or in the arena."""
    plan = draft.plan
    assert plan is not None
    known = {*plan.inputs, *plan.outputs, *plan.offsets, *plan.views}
    for step in plan.steps:
        if not known.issuperset(step.buffers):
            raise _broken("a step uses memory that is nowhere")


def _check_reads(reader: str, reads: Iterable[Buffer], made: set[Buffer]) -> None:
    # arrays without elements need no step
    missing = [one for one in reads if one not in made and one.count]
    if missing:
        raise _broken(f"{reader} reads {missing[0]} before it is made")
