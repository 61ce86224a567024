"""Overviews of programs: the segments that are compiled, as stages or loops, and the others."""

from __future__ import annotations

from collections.abc import Sequence

from functrans.ir.graph import Graph
from functrans.loop.target import Target
from functrans.lower import pipeline
from functrans.lower.draft import Draft
from functrans.lower.plan import Plan
from functrans.lower.report import outline
from functrans.lower.select.partition import Segment
from functrans.records import NamedTuple


class Shown(NamedTuple):
    """A stage that a graph went through: the seconds that it took, and its result as text."""

    stage: pipeline.Stage
    seconds: float
    text: str


def shown(graph: Graph, target: Target, donated: Sequence[int] = ()) -> list[Shown]:
    """The result of each stage for a graph, as text."""
    found: list[Shown] = []

    def watch(stage: pipeline.Stage, draft: Draft, seconds: float) -> None:
        found.append(Shown(stage, seconds, stage.text(draft)))

    pipeline.plan(graph, target, donated, watch)
    return found


def stages(
    segments: Sequence[Segment], target: Target, otherwise: str, donated: Sequence[int] = ()
) -> str:
    """The result of each stage for a program, as text, and the time that the stage takes.

    Segments that are not compiled are introduced by the words ``otherwise``.
    """
    lines = []
    for segment in segments:
        if segment.call is not None:
            lines.append(f"== {otherwise}: {segment.call.primitive.name}")
            continue
        before = ""
        for stage, seconds, text in shown(segment.graph, target, donated):
            same = "(as before)" if text == before else text
            lines += [f"== {stage.name} ({seconds * 1e3:.2f} ms)", same]
            before = text
    return "\n".join(lines)


def schedule(segments: Sequence[Segment], plans: Sequence[Plan | None], otherwise: str) -> str:
    """The loops of a program, and the values that are stored in memory."""
    parts = []
    for segment, plan in zip(segments, plans, strict=True):
        if plan is not None:
            parts.append(outline(plan))
        elif segment.call is not None:
            parts.append(f"{otherwise}: {segment.call.primitive.name}")
    return "\n".join(parts)
