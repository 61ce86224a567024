"""A user's function as the inner graph of one equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import as_array, aval_of_leaf, known_values
from functrans.ir.graph import Eqn, Var
from functrans.ir.primitive import Primitive, bind, current
from functrans.trace.stage import Staged, stage
from functrans.trace.trace import Trace
from functrans.tree import core as tree


class Inner:
    """A function that becomes an inner graph: its flat form, and where its leaves go."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, what: str) -> None:
        self.function = function
        self.what = what
        leaves, self.structure = tree.flatten((args, kwargs))
        self.leaves = [as_array(x, f"leaf {{}} of {what}".format, i) for i, x in enumerate(leaves)]

    def flat(self, *tracers: Any) -> list[Any]:
        args, kwargs = self.structure.unflatten(tracers)
        outs, self.out_structure = tree.flatten(self.function(*args, **kwargs))
        return [as_array(x, lambda: f"a result of {self.what}") for x in outs]

    def stage(self) -> Staged:
        """The function's graph; values are computed on the way if there are any."""
        return stage(
            self.flat,
            [aval_of_leaf(x) for x in self.leaves],
            kind=self.what,
            values=known_values(self.leaves),
            operands=self.leaves,
        )

    def bind(self, primitive: Primitive, staged: Staged, params: dict[str, Any]) -> Any:
        """Record the function as one equation, of which the values may be known."""
        operands = [*self.leaves, *staged.captures]
        trace = current.get()
        if known_values(operands) is None or not isinstance(trace, Trace):
            outs = bind(primitive, tuple(operands), params)
        else:
            values = [staged.value_of(atom) for atom in staged.graph.outputs]
            outputs = [Var(aval) for aval in staged.graph.out_avals]
            outs = trace.record_again(Eqn(primitive, (), outputs, params), operands, values)
        return self.out_structure.unflatten(outs)
