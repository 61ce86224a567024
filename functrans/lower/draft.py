"""Drafts of plans: the results of the stages so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from functrans.ir.graph import Graph, Var
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Loop
from functrans.lower.plan import Plan, Step
from functrans.lower.select.root import Root
from functrans.lower.select.root_builder import RootBuilder
from functrans.ops.compiled.emission import Inner


@dataclass(frozen=True, eq=False)
class Draft:
    """An incomplete plan; the stages of `functrans.lower.pipeline` fill its fields in this order.

    Parameters
    ----------
    inputs : tuple of Buffer
        The buffers of the graph's inputs.
    lower : callable
        Lowers an inner graph to statements.
    donated : tuple of Buffer
        The inputs that results may overwrite.
    whole : bool
        Whether the graph is a program, and not inside another graph.
    kept : frozenset of Var
        The materialised values.
    asked : int
        The operations of the graph if each element of each value is computed once.
    selected : RootBuilder
        The roots, before any is split.
    loops : tuple of Loop
        The loops that the roots share.
    work : int
        The operations of all nests.
    homes : dict
        For outputs that overwrite an input, that input.
    """

    target: Target
    graph: Graph
    inputs: tuple[Buffer, ...]
    lower: Callable[[Graph], Inner]
    donated: tuple[Buffer, ...] = ()
    whole: bool = False
    kept: frozenset[Var] = frozenset()
    asked: int = 0
    selected: RootBuilder | None = None
    roots: tuple[Root, ...] = ()
    loops: tuple[Loop, ...] = ()
    nests: tuple[Nest, ...] = ()
    work: int = 0
    homes: Mapping[Buffer, Buffer] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    plan: Plan | None = None

    @property
    def chosen(self) -> RootBuilder:
        """The selected roots."""
        assert self.selected is not None
        return self.selected
