"""Inlining, constant folding, algebraic simplification, common subexpression elimination.

All of them are exact, also for NaN, infinities and signed zeros. So ``x + 0`` and ``x * 0`` remain
(-0 + 0 is 0), while ``x * 1``, ``x - 0`` and ``-(-x)`` are simplified.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, inlined
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, broadcast_shape, is_complex, is_inexact
from functrans.ops.arrays.structural import (
    broadcast_to_p,
    cast,
    full_p,
    reduce_sum,
    reshape_p,
    transpose_p,
)
from functrans.ops.elementwise.arithmetic import add, divide, multiply, negative, positive, subtract
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import bitwise_and, isinf, logical_and, logical_not
from functrans.ops.elementwise.stop import named
from functrans.ops.reductions.reduce import reduce_max, reduce_min, reduce_prod
from functrans.optimise.rewrite import Rewriter, everywhere, is_number, literal, scalar_literal

# -- inlining --------------------------------------------------------------------------------------


def inline(graph: Graph) -> Graph:
    """Inline calls: replace each call by the equations of the called graph.

    Expects any graph.
    Leaves no equation that does nothing but apply an inner graph to its operands.
    """
    if not any(map(is_call, graph.eqns)):
        return graph
    out = Rewriter(graph)
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        if not is_call(eqn):
            out.keep(eqn, inputs)
            continue
        inner: Graph = inline(eqn.params["graph"])
        eqns, results = inlined(inner, inputs, eqn.source)
        out.eqns += eqns
        for var, result in zip(eqn.outputs, results, strict=True):
            out.replace(var, result)
    return out.graph_now()


def is_call(eqn: Eqn) -> bool:
    """Whether an equation does nothing but apply its graph to its operands."""
    inner = eqn.params.get("graph") if eqn.primitive.higher_order else None
    return (
        isinstance(inner, Graph)
        and inner.in_avals == tuple(x.aval for x in eqn.inputs)
        and inner.out_avals == tuple(x.aval for x in eqn.outputs)
    )


# -- constants -------------------------------------------------------------------------------------


def fold_constants(graph: Graph) -> Graph:
    """Fold and propagate constants: elementwise equations read scalars, not filled arrays.

    Expects any graph.
    Leaves no elementwise equation of constants alone.
    """
    out = Rewriter(graph)
    for eqn in graph.eqns:
        inputs = _with_numbers(eqn, out.inputs(eqn), out)
        if is_constant(eqn, inputs):
            out.replace(eqn.outputs[0], constant(eqn, inputs))
        elif (value := _of_filled(eqn, inputs, out)) is not None:
            aval = eqn.outputs[0].aval
            params = {"shape": aval.shape, "value": value, "dtype": aval.dtype}
            out.keep(Eqn(full_p, (), eqn.outputs, params, eqn.source), ())
        else:
            out.keep(eqn, inputs)
    return out.graph_now()


def is_constant(eqn: Eqn, inputs: Sequence[Atom]) -> bool:
    """Whether an equation gives a single number that is known at compile time."""
    if eqn.primitive.several or eqn.primitive.higher_order or eqn.outputs[0].aval.shape:
        return False
    if not all(isinstance(x, Literal) for x in inputs):
        return False
    return eqn.primitive.elementwise or eqn.primitive is full_p


def constant(eqn: Eqn, inputs: Sequence[Atom]) -> Literal:
    """The number that an equation of constants gives."""
    values = [x.aval.dtype.type(x.value) for x in inputs if isinstance(x, Literal)]
    with np.errstate(all="ignore"):
        return literal(eqn.primitive.numpy(*values, **eqn.params), eqn.outputs[0])


def _of_filled(eqn: Eqn, inputs: Sequence[Atom], out: Rewriter) -> Any:
    """The number that an elementwise equation of filled arrays gives; None if it has others."""
    aval = eqn.outputs[0].aval
    if not eqn.primitive.elementwise or eqn.primitive.several or aval.weak or not aval.shape:
        return None
    values = [x.value if isinstance(x, Literal) else everywhere(x, out.producers) for x in inputs]
    if any(value is None for value in values):
        return None
    numbers = [scalar_literal(value, x.aval) for value, x in zip(values, inputs, strict=True)]
    return constant(eqn, numbers).value


def _with_numbers(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> list[Atom]:
    """An elementwise equation's operands, with scalars for arrays filled with one number."""
    if not eqn.primitive.elementwise:
        return inputs
    shape = eqn.outputs[0].aval.shape
    for i, atom in enumerate(inputs):
        value = everywhere(atom, out.producers)
        # the result must still get its shape from the other operands
        others = [x.aval.shape for j, x in enumerate(inputs) if j != i]
        if value is not None and others and broadcast_shape(*others) == shape:
            inputs[i] = scalar_literal(value, atom.aval)
    return inputs


# -- algebra ---------------------------------------------------------------------------------------


Rule = Callable[[Eqn, list[Atom], Rewriter], Atom | Eqn | None]
"""Returns an atom that equals the result, or a cheaper equation for it, or None."""


def simplify(graph: Graph) -> Graph:
    """Simplify equations by exact algebraic identities: `RULES`.

    Expects folded constants, which the rules recognise as scalars.
    Leaves no equation that a rule can replace by an equal, cheaper one.
    """
    out = Rewriter(graph)
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        rule = RULES.get(eqn.primitive)
        better = rule(eqn, inputs, out) if rule is not None else None
        if isinstance(better, Eqn):
            out.keep(better, better.inputs)
        elif better is not None and better.aval.same_array_type(eqn.outputs[0].aval):
            out.replace(eqn.outputs[0], better)
        else:
            out.keep(eqn, inputs)
    return out.graph_now()


def _times(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    x, y = inputs
    if is_complex(x.aval.dtype):
        return None  # infinity times the zero imaginary part is NaN
    if is_number(y, 1):
        return x
    return y if is_number(x, 1) else None


def _plus(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    x, y = inputs
    if x.aval.dtype.kind not in "iu":
        return None
    if is_number(y, 0):
        return x
    return y if is_number(x, 0) else None


def _over(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    x, y = inputs
    return x if is_number(y, 1) and not is_complex(x.aval.dtype) else None


def _undone(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    """An involution: two applications cancel."""
    maker = out.producers.get(inputs[0])
    return maker.inputs[0] if maker is not None and maker.primitive is eqn.primitive else None


def _nothing(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    return inputs[0]


def _select(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    mask, yes, no = inputs
    maker = out.producers.get(mask)
    if maker is not None and maker.primitive is full_p:
        return yes if maker.params["value"] else no
    if maker is not None and maker.primitive is broadcast_to_p:
        (mask,) = maker.inputs
    if isinstance(mask, Literal):
        return yes if mask.value else no
    return yes if yes is no else None


def _and(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Eqn | None:
    """No value is both infinite and equal to a finite number: `logaddexp(0, x)` tests that."""
    makers = {each.primitive: each for x in inputs if (each := out.producers.get(x))}
    if makers.keys() != {equal, isinf}:
        return None
    (infinite,) = makers[isinf].inputs
    others = [x for x in makers[equal].inputs if x is not infinite]
    if len(others) != 1 or not isinstance(others[0], Literal) or not np.isfinite(others[0].value):
        return None
    aval = eqn.outputs[0].aval
    params = {"shape": aval.shape, "value": False, "dtype": aval.dtype}
    return Eqn(full_p, (), eqn.outputs, params, eqn.source)


def _reduction(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | None:
    return None if eqn.params["axes"] else inputs[0]


def _sum(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | Eqn | None:
    """A sum over no axes remains, since NumPy adds each element to 0, which turns -0.0 into 0.0."""
    (x,) = inputs
    if eqn.params["axes"] or not is_inexact(x.aval.dtype):
        return _reduction(eqn, inputs, out)
    zero = Literal(x.aval.dtype.type(0), Aval((), x.aval.dtype))
    return Eqn(add, (x, zero), eqn.outputs, {}, eqn.source)


def _last_of_chain(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | Eqn | None:
    """A chain of reshapes, or of broadcasts, becomes its last one."""
    source = _through(eqn.primitive, inputs[0], out)
    if source.aval.shape == eqn.outputs[0].aval.shape:
        return source
    return None if source is inputs[0] else _again(eqn, source, eqn.params)


def _reshape(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | Eqn | None:
    """An array of equal elements is made in its last shape; else as for all chains."""
    maker, shape = out.producers.get(inputs[0]), eqn.outputs[0].aval.shape
    if maker is not None and maker.primitive is full_p:
        return Eqn(full_p, (), eqn.outputs, {**maker.params, "shape": shape}, eqn.source)
    if maker is not None and maker.primitive is broadcast_to_p:
        (source,) = maker.inputs
        if source.aval.size == 1 and source.aval.ndim <= len(shape):
            return Eqn(broadcast_to_p, (source,), eqn.outputs, {"shape": shape}, eqn.source)
    return _last_of_chain(eqn, inputs, out)


def _transpose(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> Atom | Eqn | None:
    """Two consecutive transposes become one."""
    permutation = eqn.params["permutation"]
    maker = out.producers.get(inputs[0])
    if maker is None or maker.primitive is not eqn.primitive:
        return inputs[0] if permutation == tuple(range(len(permutation))) else None
    first = maker.params["permutation"]
    both = tuple(first[p] for p in permutation)
    if both == tuple(range(len(both))):
        return maker.inputs[0]
    return _again(eqn, maker.inputs[0], {"permutation": both})


def _through(primitive: Primitive, atom: Atom, out: Rewriter) -> Atom:
    """The first operand of a chain of equations of one primitive."""
    while isinstance(atom, Var):
        maker = out.producers.get(atom)
        if maker is None or maker.primitive is not primitive:
            break
        atom = maker.inputs[0]
    return atom


def _again(eqn: Eqn, source: Atom, params: object) -> Eqn:
    assert isinstance(params, dict)
    return eqn.but(inputs=(source,), params=params)


RULES: dict[Primitive, Rule] = {
    multiply: _times,
    add: _plus,
    subtract: lambda eqn, inputs, out: inputs[0] if is_number(inputs[1], 0) else None,
    divide: _over,
    negative: _undone,
    logical_not: _undone,
    positive: _nothing,
    named: _nothing,
    cast: _nothing,
    select: _select,
    bitwise_and: _and,
    logical_and: _and,
    reduce_sum: _sum,
    reduce_prod: _reduction,
    reduce_max: _reduction,
    reduce_min: _reduction,
    reshape_p: _reshape,
    transpose_p: _transpose,
    broadcast_to_p: _last_of_chain,
}
"""Simplification rules by primitive. A result of another type than the equation's is discarded."""


# -- common subexpressions -------------------------------------------------------------------------


def merge_equal(graph: Graph) -> Graph:
    """Eliminate common subexpressions: keep one of all equal equations.

    Expects simplified equations, in which equal operands are the same variable or literal.
    Leaves no two equations of one primitive with the same operands and parameters.
    """
    out = Rewriter(graph)
    seen: dict[Hashable, Eqn] = {}
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        key = value_number(eqn, inputs)
        first = seen.get(key)
        if first is None:
            seen[key] = out.keep(eqn, inputs)
            continue
        for old, new in zip(eqn.outputs, first.outputs, strict=True):
            out.replace(old, new)
    return out.graph_now() if len(out.eqns) < len(graph.eqns) else graph


def value_number(eqn: Eqn, inputs: Sequence[Atom]) -> Hashable:
    """A key that is equal for equations that compute the same values."""
    operands = tuple(x.key if isinstance(x, Literal) else x for x in inputs)
    return eqn.primitive, operands, eqn.primitive.keyed(eqn.params)
