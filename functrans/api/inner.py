"""A user's function as the inner graph of one equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import as_array, aval_of_leaf, known_values
from functrans.ir.graph import Eqn, Var
from functrans.ir.primitive import Primitive, bind, current
from functrans.trace.source import user_source
from functrans.trace.stage import Staged, stage
from functrans.trace.trace import Trace
from functrans.tree import core as tree


class Inner:
    """A function that becomes an inner graph: its flat form, and where its leaves go."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        what: str,
        name: Callable[[int], str] = "leaf {}".format,
    ) -> None:
        self.function = function
        self.what = what
        leaves, self.structure = tree.flatten(args)
        self.leaves = [as_array(x, name, i) for i, x in enumerate(leaves)]

    def flat(self, *tracers: Any) -> list[Any]:
        args = tree.unflatten(self.structure, tracers)
        leaves, self.out_structure = tree.flatten(self.function(*args))
        outs = [as_array(x, str, f"a result of {self.what}") for x in leaves]
        self.out_avals = [aval_of_leaf(x) for x in outs]
        return outs

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
            eqn = Eqn(primitive, (), outputs, params, user_source())
            outs = trace.record_again(eqn, operands, values)
        return self.out_structure.unflatten(outs)
