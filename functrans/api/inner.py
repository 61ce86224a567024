"""A user's function as the inner graph of one equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import as_array, aval_of_leaf, known_values
from functrans.api.flat import Flat
from functrans.ir.graph import Eqn, Var
from functrans.ir.primitive import Primitive, bind, current
from functrans.trace.source import user_source
from functrans.trace.stage import Staged, stage
from functrans.trace.trace import Trace
from functrans.tree import core as tree


class Inner:
    """A function to be staged as an inner graph: its flat form and its arguments' leaves."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        what: str,
        name: Callable[[int], str] = "leaf {}".format,
    ) -> None:
        leaves, self.structure = tree.flatten(args)
        self.leaves = [as_array(x, name, i) for i, x in enumerate(leaves)]
        self.what = what
        self.flat = Flat(function, self.structure, what)

    def stage(self) -> Staged:
        """Stage the function's graph, with concrete values if the arguments have them."""
        avals = [aval_of_leaf(x) for x in self.leaves]
        values = known_values(self.leaves)
        staged = stage(self.flat, avals, kind=self.what, values=values, operands=self.leaves)
        self.out_structure, self.out_avals = self.flat.result, staged.graph.out_avals
        return staged

    def bind(self, primitive: Primitive, staged: Staged, params: dict[str, Any]) -> Any:
        """Record the function as one equation, whose results may have known values."""
        operands = [*self.leaves, *staged.captures]
        trace = current.get()
        if known_values(operands) is None or not isinstance(trace, Trace):
            outs = bind(primitive, tuple(operands), params)
        else:
            values = [staged.value_of(atom) for atom in staged.graph.outputs]
            outputs = [Var(aval) for aval in staged.graph.out_avals]
            eqn = Eqn(primitive, (), outputs, params, user_source())
            outs = trace.record_again(eqn, operands, values)
        return self.out_structure.unflatten(outs)
