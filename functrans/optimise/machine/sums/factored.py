"""Factored sums: the distributive law for sums over outer products, in the cheapest order.

The gradient of one sample with respect to a matrix is an outer product of activations and
cotangents. Its squared norm is the product of their squared norms (Goodfellow, "Efficient
per-example gradient computations", 2015), and a weighted sum of such gradients over a batch is one
product of matrices. So a sum whose terms are products is decomposed into its factors, which are
contracted in the order that `functrans.ops.linalg.einsum` finds, if that is much less work.

Rounding errors do not grow. Sums are multiplied out only where the result is linear in them; the
error is bounded by the absolute values of all terms in both forms. The square of a sum of outer
products (of a layer that is applied at each position of a sequence) is not rewritten, because a sum
over pairs of positions could cancel. No factor is squared unless it has been scaled so that it
overflows or underflows only if the product does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.loop.target import Target
from functrans.ops.arrays.structural import reduce_sum, reshape, transpose
from functrans.ops.elementwise.arithmetic import divide, multiply
from functrans.ops.elementwise.choice import absolute, maximum, minimum
from functrans.ops.elementwise.power import square
from functrans.ops.linalg.compiled.blas import counts
from functrans.ops.linalg.contraction import dot_general
from functrans.ops.linalg.einsum import einsum, multiplications
from functrans.ops.reductions.reduce import reduce_max
from functrans.optimise.machine.sums.factors import (
    Axes,
    Factor,
    Factoring,
    Names,
    Sum,
    is_contracted,
    sum_of,
)
from functrans.optimise.rewrite import Rule
from functrans.trace.stage import Environment

BALANCING = 4
"""Operations for each element of the scaled factors of an outer product."""


def of_products(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that compute sums of products from their factors, where that is much less work."""
    sums = _worthwhile(graph, target)
    return {eqn: partial(_evaluated, eqn, each) for eqn, each in sums.items()}


# -- profitability ---------------------------------------------------------------------------------


def _worthwhile(graph: Graph, target: Target) -> dict[Eqn, Sum]:
    """The sums that are decomposed, by the equations that they replace."""
    found = {eqn: each for eqn in graph.eqns if (each := sum_of(eqn, graph.makers)) is not None}
    while found:
        # an equation that one sum no longer needs may be needed by another that is not decomposed
        unneeded = _unneeded(graph, found)
        in_memory = _in_memory(graph, {*unneeded, *found})
        kept = {
            eqn: each
            for eqn, each in found.items()
            if _is_less(eqn, each, unneeded, in_memory, target)
        }
        if len(kept) == len(found):
            break
        found = kept
    return found


def _unneeded(graph: Graph, sums: Mapping[Eqn, Sum]) -> set[Eqn]:
    """The equations that are not needed once the sums are decomposed."""
    needed: set[Atom] = {*graph.outputs}
    for each in sums.values():
        for factor in each.product.factors:
            needed.update((factor.atom, *(scaling.atom for scaling in factor.scalings)))
    unneeded: set[Eqn] = set()
    for eqn in reversed(graph.eqns):
        if needed.isdisjoint(eqn.outputs) and eqn not in sums:
            unneeded.add(eqn)
        elif eqn not in sums:
            needed.update(eqn.inputs)
    return unneeded


def _in_memory(graph: Graph, gone: set[Eqn]) -> set[Eqn]:
    """The contractions that are materialised unless some equations are removed."""
    return {
        eqn
        for eqn in filter(is_contracted, graph.eqns)
        if eqn.outputs[0] not in graph.outputs
        and gone.issuperset(graph.readers.get(eqn.outputs[0], ()))
    }


def _is_less(eqn: Eqn, each: Sum, unneeded: set[Eqn], in_memory: set[Eqn], target: Target) -> bool:
    """Whether decomposing a sum is much less work."""
    opened = dict.fromkeys(each.product.opened)
    before = sum(_work(maker) for maker in (eqn, *opened) if maker in unneeded or maker is eqn)
    kept = [maker for maker in opened if maker in in_memory]
    before += target.through_memory * sum(m.outputs[0].aval.size for m in kept)
    if before < target[Factoring].worth_factoring:
        return False
    shapes = tuple(map(each.shape, each.product.factors))
    after = multiplications(each.text(), shapes)
    after += sum(f.atom.aval.size for f in each.product.factors if each.alone(f))
    after += sum(len(f.scalings) * f.atom.aval.size for f in each.product.factors)
    if each.is_balanced:
        after += BALANCING * sum(f.atom.aval.size for f in {*each.product.factors} if f.outer)
    return 2 * after <= before


def _work(eqn: Eqn) -> int:
    """The estimated operations of an equation through which factors are found."""
    size = eqn.outputs[0].aval.size
    if eqn.primitive is reduce_sum:
        return eqn.inputs[0].aval.size
    if is_contracted(eqn):
        return size * counts(eqn).summed
    if eqn.primitive is dot_general:
        # its sum is not a matrix product, and half as fast
        return 2 * size
    return size if eqn.primitive in (multiply, divide, square) else 0


# -- evaluation ------------------------------------------------------------------------------------


def _evaluated(eqn: Eqn, each: Sum, values: Environment) -> list[Any]:
    """The value of a sum, computed from its factors."""
    factors = each.product.factors
    values_of = {factor: _value(factor, each.axes, values) for factor in factors}
    operands = [values_of[factor] for factor in factors]
    if each.is_balanced:
        # the same factors often occur twice
        done: dict[tuple[Factor, Factor], tuple[Any, Any]] = {}
        for first, second in each.outer_products():
            x, y = factors[first], factors[second]
            if (x, y) not in done:
                done[x, y] = _balanced(
                    values_of[x], each.axes.whole(x.labels), values_of[y], each.axes.whole(y.labels)
                )
            operands[first], operands[second] = done[x, y]
    operands = [_summed(x, each, f) for x, f in zip(operands, factors, strict=True)]
    product = einsum(each.text(), *operands)
    return [reshape(product, shape=eqn.outputs[0].aval.shape)]


def _summed(value: Any, each: Sum, factor: Factor) -> Any:
    """A factor's value, summed over the axes that no other factor and no result has."""
    names, alone = each.axes.whole(factor.labels), each.alone(factor)
    axes = tuple(axis for axis, name in enumerate(names) if name in alone)
    return reduce_sum(value, axes=axes) if axes else value


def _value(factor: Factor, axes: Axes, values: Environment) -> Any:
    labels = axes.whole(factor.labels)
    value = reshape(values.read(factor.atom), shape=axes.shape(labels))
    for scaling in factor.scalings:
        own = axes.whole(scaling.labels)
        other = reshape(values.read(scaling.atom), shape=axes.shape(own))
        value = scaling.combine(value, _along(other, own, labels))
    return value


def _along(x: Any, own: Names, wanted: Names) -> Any:
    """An array with its axes in the wanted order; missing axes have one element."""
    extents = dict(zip(own, x.shape, strict=True))
    order = sorted(range(len(own)), key=lambda axis: wanted.index(own[axis]))
    shape = tuple(extents.get(name, 1) for name in wanted)
    return reshape(transpose(x, permutation=tuple(order)), shape=shape)


def _balanced(x: Any, x_names: Names, y: Any, y_names: Names) -> tuple[Any, Any]:
    """The factors of an outer product, scaled so that the largest element of the first is about 1.

    The second one is multiplied by the divisor of the first. Then the squares of the first cannot
    overflow, and those of the second are as large as the largest squares of the product.
    """
    apart = tuple(i for i, name in enumerate(x_names) if name not in y_names)
    shared = tuple(name for name in x_names if name in y_names)
    largest, least = reduce_max(absolute(x), axes=apart), np.finfo(x.dtype).tiny
    # so that neither the scale nor its inverse is zero or infinite
    scale = minimum(maximum(largest, least), 1 / (4 * least))
    inverse = divide(x.dtype.type(1), scale)
    return (
        multiply(x, _along(inverse, shared, x_names)),
        multiply(y, _along(scale, shared, y_names)),
    )
