"""Transpose sinking: operations on the transpose of a product follow its layout in memory.

The axes of a stack come first in a contraction's result, in whatever order it was written. In
``einsum("kij,nkj->nki")``, what follows would read that result with long strides. Elementwise
operations and reductions give the same with their axes in the order of the product; only what
remains is transposed, and derivatives are often factors of a product with the same layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functrans.caches import cached_property
from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.structural import (
    broadcast_to_p,
    inverse,
    reshape,
    reshape_p,
    transpose,
    transpose_p,
)
from functrans.ops.linalg.compiled.forms import is_blocked
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.sums.reshaped import REDUCTIONS
from functrans.records import dataclass
from functrans.trace.stage import apply, at_source_of, rewrite


@dataclass(frozen=True, eq=False)
class _Turned:
    """A value as the transpose of another one, whose layout is that of a product."""

    source: Any
    order: tuple[int, ...]  # for each axis of the value, the axis of the source

    @property
    def shape(self) -> Shape:
        return tuple(self.source.shape[axis] for axis in self.order)

    @cached_property
    def value(self) -> Any:
        return transpose(self.source, permutation=self.order)


def transpose_last(graph: Graph, target: Target) -> Graph:
    """Move transposes of products behind elementwise operations and reductions.

    Expects no transpose of a product that swapping its operands would replace.
    Leaves operations on such transposes only where other arrays of their size are in another order.
    """
    begins = {eqn for eqn in graph.eqns if _is_of_product(eqn, graph.makers, target)}
    if not begins:
        return graph

    def run(*inputs: Any) -> list[Any]:
        values: dict[Atom, Any] = dict(zip(graph.inputs, inputs, strict=True))

        def plain(atom: Atom) -> Any:
            x = values[atom] if isinstance(atom, Var) else atom.value
            return x.value if isinstance(x, _Turned) else x

        for eqn in graph.eqns:
            found: Any = None
            with at_source_of(eqn):
                if eqn in begins:
                    found = _Turned(plain(eqn.inputs[0]), eqn.params["permutation"])
                elif any(isinstance(values.get(x), _Turned) for x in eqn.inputs):
                    found = _in_order_of_source(eqn, values, graph.makers)
            results = apply(eqn, list(map(plain, eqn.inputs))) if found is None else [found]
            values.update(zip(eqn.outputs, results, strict=True))
        return list(map(plain, graph.outputs))

    return rewrite(run, graph.in_avals)


def _is_of_product(eqn: Eqn, makers: Mapping[Atom, Eqn], target: Target) -> bool:
    maker = makers.get(eqn.inputs[0]) if eqn.primitive is transpose_p else None
    return maker is not None and maker.primitive is dot_general and is_blocked(maker, target)


def _in_order_of_source(
    eqn: Eqn, values: Mapping[Atom, Any], makers: Mapping[Atom, Eqn]
) -> Any | None:
    """The result of an equation in the order of a turned operand; None if it has no such rule."""
    if eqn.primitive.elementwise:
        return _elementwise(eqn, values, makers)
    if len(eqn.inputs) != 1:
        return None
    x = values[eqn.inputs[0]]
    if eqn.primitive is transpose_p:
        return _in_order(x.source, [x.order[axis] for axis in eqn.params["permutation"]])
    if eqn.primitive in REDUCTIONS:
        axes = eqn.params["axes"]
        gone = tuple(sorted(x.order[axis] for axis in axes))
        left = [axis for number, axis in enumerate(x.order) if number not in axes]
        total = eqn.primitive(x.source, **{**eqn.params, "axes": gone})
        return _in_order(total, [sorted(left).index(axis) for axis in left])
    if eqn.primitive is reshape_p:
        return _with_ones(x, eqn.params["shape"])
    return None


def _in_order(source: Any, order: Sequence[int]) -> Any:
    return source if list(order) == sorted(order) else _Turned(source, tuple(order))


def _with_ones(x: _Turned, shape: Shape) -> Any | None:
    """A reshaped value, if only axes of one element come or go."""
    long = [axis for axis in x.order if x.source.shape[axis] != 1]
    if [n for n in shape if n != 1] != [x.source.shape[axis] for axis in long]:
        return None
    if long == sorted(long):
        return reshape(x.source, shape=shape)
    ones, ranks = iter(range(len(shape) - len(long))), iter(map(sorted(long).index, long))
    inner = [x.source.shape[axis] for axis in sorted(long)]
    first = len(shape) - len(long)
    order = [next(ones) if n == 1 else first + next(ranks) for n in shape]
    return _Turned(reshape(x.source, shape=(*(1,) * first, *inner)), tuple(order))


def _elementwise(eqn: Eqn, values: Mapping[Atom, Any], makers: Mapping[Atom, Eqn]) -> Any | None:
    """The result in the order of the operands of its size, if that is the order of all of them."""
    (out,) = eqn.outputs
    orders, operands = set(), []
    for atom in eqn.inputs:
        maker = makers.get(atom)
        repeats = maker is not None and maker.primitive is broadcast_to_p
        source = maker.inputs[0] if maker is not None and repeats else atom
        x = values[source] if isinstance(source, Var) else source.value
        operands.append(x)
        if source.aval.size == out.aval.size:
            orders.add(x.order if isinstance(x, _Turned) else None)
    order = orders.pop() if len(orders) == 1 else None
    if order is None or len(order) != out.aval.ndim:
        return None
    return _Turned(apply(eqn, [_turned(x, order) for x in operands])[0], order)


def _turned(x: Any, order: tuple[int, ...]) -> Any:
    """An operand of an elementwise operation whose result has this order."""
    if isinstance(x, _Turned):
        source, own = x.source, x.order
    else:
        source, own = x, tuple(range(len(x.shape)))
    if not own:
        return x
    more = len(order) - len(own)
    shape = (*(1,) * more, *source.shape)
    own = (*range(more), *(more + axis for axis in own))
    back = tuple(own[axis] for axis in inverse(order))
    long = [axis for axis in back if shape[axis] != 1]
    if long == sorted(long):
        return reshape(source, shape=tuple(shape[axis] for axis in back))
    return transpose(reshape(source, shape=shape), permutation=back)
