"""Memoised tracing of functions with rules: once for each combination of argument types.

Only functions and rules that depend on their arguments alone, and whose Python code does not branch
on values, are memoised. All others are traced at each call, since their results may change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from functrans.api.arguments import known_values
from functrans.api.custom_call import CustomCall
from functrans.api.dependencies import Dependency, unchanged
from functrans.ir.graph import Eqn, Graph, any_eqn
from functrans.ir.primitive import Primitive, current
from functrans.ops.calls.custom import KeptRule, Rule, Traced, closed
from functrans.trace.stage import Staged, stage
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer


class MemoisedTraces:
    """The graphs of a function and of its rule, for arguments of some types."""

    graph: Graph
    structure: Any

    def __init__(self, call: CustomCall, what: str, found: Sequence[Dependency]) -> None:
        self.what = what
        self.found = found
        self.avals = tuple(call.avals)
        self.rule = KeptRule(what, (what, id(self)))
        self.thread = get_ident()
        self.is_traced = False

    def is_valid(self) -> bool:
        """Whether the dependencies of the function and of the rule are unchanged."""
        return unchanged(self.found)

    def is_met_here(self) -> bool:
        """Whether it is traced, or being traced in this thread: the rule may call the function."""
        return self.is_traced or self.thread == get_ident()

    def trace(self, call: CustomCall, rule_of: Callable[[CustomCall], Rule]) -> bool:
        """Trace the function and the rule without values; False if they need values."""
        call.blind = True
        try:
            staged = stage(call.inner.flat, self.avals, kind=self.what)
            call.inner.out_structure = self.structure = call.inner.flat.result
            call.inner.out_avals = staged.graph.out_avals
            self.graph = closed(staged, [])
            self.rule.kept = rule_of(call).traced()
        except Exception:
            return False  # an error is raised again when it is traced with values
        finally:
            call.blind = False
        self.is_traced = self.rule.is_done = _is_closed(staged) and self._is_whole(self.rule.kept)
        return self.is_traced

    def _is_whole(self, rule: Traced) -> bool:
        """Whether the rule's graphs contain no untraced rules of other functions."""

        def waits(eqn: Eqn) -> bool:
            rules = [x for x in eqn.params.values() if isinstance(x, Rule) and x is not self.rule]
            return not all(isinstance(x, KeptRule) and x.is_done for x in rules)

        return not rule.captures and not any(any_eqn(g, waits) for g in (self.graph, *rule.graphs))

    def __call__(self, call: CustomCall, primitive: Primitive) -> Any:
        """Record a call."""
        trace = current.get()
        assert isinstance(trace, Trace)
        outs = trace.record(primitive, call.inner.leaves, call.params(self.graph, self.rule))
        if known_values(call.inner.leaves) is not None:
            for out in outs:
                _ = out._known_value  # so that warnings and errors refer to the user's line
        return self.structure.unflatten(outs)


def _is_closed(staged: Staged) -> bool:
    return not staged.decisions and not any(isinstance(x, Tracer) for x in staged.captures)
