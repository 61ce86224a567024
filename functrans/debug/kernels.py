"""Kernels in words: which lines and operations each of a program's kernels computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from functrans.debug.lines import key_of
from functrans.debug.words import line_of
from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.loop.statements import Buffer, For, Reduce
from functrans.loop.walk import routines, walk
from functrans.lower.plan import Plan, Step
from functrans.lower.provenance import equations_of_steps
from functrans.lower.select.recomputation import graph_work
from functrans.ops.control.residuals import flops_of
from functrans.records import NamedTuple
from functrans.run.call.program import NativeProgram
from functrans.run.code import host
from functrans.trace.source import Source

MOST_NAMES = 4


class Described(NamedTuple):
    """A kernel of a program.

    Parameters
    ----------
    what : str
        Its operations and lines, in short, and how they are computed.
    sources : tuple of Source
        The lines.
    lines, operations : dict
        The share of each line, and of each kind of operation, in its work; they sum to 1.
    nbytes : int
        The memory that the program needs meanwhile.
    """

    what: str
    sources: tuple[Source, ...]
    lines: Mapping[str, float]
    operations: Mapping[str, float]
    nbytes: int


def described(program: NativeProgram) -> list[Described]:
    """The kernels of a program, in the order in which it calls them."""
    donated = [number for number, _ in program.overwritten]
    plan, equations = equations_of_steps(program.lowered(), host.target(), donated)
    if len(plan.steps) != len(program.listing.steps):  # another version has written it
        return []
    needed = _needed(plan)
    shared = [listed.grain > 0 for listed in program.listing.steps]
    return [
        _described(eqns, nbytes, _how(step, is_shared))
        for eqns, nbytes, step, is_shared in zip(equations, needed, plan.steps, shared, strict=True)
    ]


def _how(step: Step, is_shared: bool) -> str:
    """Whether a library is called, how long vectors are, and whether threads share the work."""
    loops = [each for each in walk(step.kernel.body) if isinstance(each, (For, Reduce))]
    lanes = max((each.lanes for each in loops), default=1)
    parts = [f"calls {name}" for name in routines(step.kernel.body)]
    if loops and not parts:
        parts.append(f"vectors of {lanes}" if lanes > 1 else "no vectors")
    if is_shared:
        parts.append("threads")
    return f" ({', '.join(parts)})" if parts else ""


def _described(eqns: Sequence[Eqn], nbytes: int, how: str) -> Described:
    work = [(eqn, weight) for one in eqns for eqn, weight in _work(one)]
    sources = {key_of(eqn.source): eqn.source for eqn, _ in work if eqn.source is not None}
    operations = _shares(work, lambda eqn: eqn.primitive.name)
    names = sorted(operations, key=lambda name: -operations[name])
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    numbers = ", ".join(map(str, sorted({source.line for source in sources.values()})))
    plural = "s" if len(sources) > 1 else ""
    what = f"{shown or 'copy'}, line{plural} {numbers}" if numbers else shown or "copy"
    lines = _shares(work, lambda eqn: line_of(eqn.source))
    return Described(what + how, tuple(sources.values()), lines, operations, nbytes)


def _work(eqn: Eqn, times: int = 1) -> Iterator[tuple[Eqn, int]]:
    """Operations with their numbers of scalar operations; those inside of a loop for each step."""
    inner = list(inner_graphs(eqn))
    if inner:
        steps = times * int(eqn.params.get("length") or 1)
        for graph in inner:
            for each in graph.eqns:
                yield from _work(each, steps)
        return
    alone = Graph((), [eqn], eqn.outputs)
    yield eqn, times * (graph_work(alone, host.target()) or flops_of(eqn))


def _shares(work: Sequence[tuple[Eqn, int]], name: Callable[[Eqn], str]) -> Mapping[str, float]:
    """The share of each name in the work, the largest first; empty if the work is unknown."""
    total = sum(weight for _, weight in work)
    found: dict[str, float] = {}
    for eqn, weight in work:
        share = weight / total if total else 1 / len(work)
        found[name(eqn)] = found.get(name(eqn), 0.0) + share
    return found or {"(no line of yours)": 1.0}


def _needed(plan: Plan) -> list[int]:
    """For each step, the bytes of arguments and results, and of temporaries that are alive."""
    last: dict[Buffer, int] = {}
    first: dict[Buffer, int] = {}
    for number, step in enumerate(plan.steps):
        for one in step.buffers:
            first.setdefault(one, number)
            last[one] = number
    outside = _bytes({*plan.inputs, *plan.outputs})
    return [
        outside + _bytes(x for x in plan.offsets if first.get(x, -1) <= number <= last.get(x, -1))
        for number in range(len(plan.steps))
    ]


def _bytes(buffers: Iterable[Buffer]) -> int:
    return sum(one.nbytes for one in buffers)
