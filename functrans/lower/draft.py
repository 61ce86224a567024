"""Drafts of plans: the results of the stages so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from functrans.ir.graph import Graph, Var
from functrans.loop.statements import Buffer, Column
from functrans.loop.target import Target
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Loop
from functrans.lower.plan import Plan, Step
from functrans.lower.select.root import Root
from functrans.lower.select.root_builder import RootBuilder
from functrans.ops.compiled.emission import Inner
from functrans.records import dataclass


@dataclass(frozen=True, eq=False)
class Draft:
    """An incomplete plan; the stages of `functrans.lower.pipeline` fill in its fields in order."""

    target: Target
    graph: Graph
    inputs: tuple[Buffer, ...]  # the buffers of the graph's inputs
    lower: Callable[[Graph], Inner]  # lowers an inner graph to statements
    donated: tuple[Buffer, ...] = ()  # the inputs that results may overwrite
    whole: bool = False  # whether the graph is a program, and not inside another graph
    kept: frozenset[Var] = frozenset()  # the materialised values
    asked: int = 0  # the operations of the graph if each element of each value is computed once
    selected: RootBuilder | None = None  # the roots, before any is split
    roots: tuple[Root, ...] = ()
    loops: tuple[Loop, ...] = ()  # the loops that the roots share
    nests: tuple[Nest, ...] = ()
    work: int = 0  # the operations of all nests
    # for outputs that overwrite an input, that input
    homes: Mapping[Buffer, Buffer] = field(default_factory=dict)
    # the temporaries that are parts of records
    columns: Mapping[Buffer, Column] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    plan: Plan | None = None

    @property
    def chosen(self) -> RootBuilder:
        """The selected roots."""
        assert self.selected is not None
        return self.selected
