"""Sums of broadcast arrays: a sum over a repeated axis is a product with its extent.

The product rounds once, and a sum of equal terms many times. In products of matrices, equal rows or
columns are multiplied once; they occur in cotangents of sums of products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.structural import (
    broadcast_to,
    broadcast_to_p,
    full_p,
    reduce_sum,
    reshape,
)
from functrans.ops.elementwise.arithmetic import add, multiply
from functrans.ops.linalg.contraction import dot_general, free_axes
from functrans.optimise.rewrite import Rule
from functrans.trace.stage import Environment

DTYPES = tuple(map(np.dtype, ("float32", "float64", "int32", "int64", "uint32", "uint64")))
"""Extents are numbers of these types. (They may be infinite in float16, and wrap in int8, as the
sum does, but would have to be converted for that.)"""


def of_broadcasts(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that compute sums of broadcast arrays from the operands of the broadcasts."""
    makers: dict[Atom, Eqn] = {
        eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.primitive in (broadcast_to_p, full_p)
    }
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive is reduce_sum and eqn.inputs[0] in makers:
            aval = eqn.inputs[0].aval
            if not makers[eqn.inputs[0]].inputs:
                continue
            (source,) = makers[eqn.inputs[0]].inputs
            if aval.dtype in DTYPES and aval.size and eqn.params["axes"]:
                rules[eqn] = partial(_summed_once, eqn, source)
        elif eqn.primitive is dot_general:
            for side, x in enumerate(eqn.inputs):
                if x in makers and (repeated := _equal_lines(eqn, side, makers[x])):
                    rules[eqn] = partial(_multiplied_once, eqn, side, makers[x], repeated)
    return rules


def _source_shape(maker: Eqn) -> Shape:
    """The shape of the operand of a broadcast, with as many axes as the result."""
    ndim = maker.outputs[0].aval.ndim
    source = maker.inputs[0].aval.shape if maker.inputs else ()
    return (1,) * (ndim - len(source)) + source


def _equal_lines(eqn: Eqn, side: int, maker: Eqn) -> list[int]:
    """The axes of an operand along which a product is the same everywhere."""
    aval, source = maker.outputs[0].aval, _source_shape(maker)
    contract, batch = (eqn.params[key][side] for key in ("contract", "batch"))
    return [i for i in free_axes(aval.ndim, contract, batch) if source[i] < aval.shape[i]]


def _multiplied_once(
    eqn: Eqn, side: int, maker: Eqn, repeated: Sequence[int], values: Environment
) -> list[Any]:
    """The product with one of the equal rows or columns, broadcast."""
    operands = [values.read(x) for x in eqn.inputs]
    shape = tuple(
        1 if i in repeated else extent for i, extent in enumerate(maker.outputs[0].aval.shape)
    )
    if maker.inputs:
        source = reshape(values.read(maker.inputs[0]), shape=_source_shape(maker))
        operands[side] = broadcast_to(source, shape=shape)
    else:
        operands[side] = full_p(**{**maker.params, "shape": shape})
    product = dot_general(*operands, **eqn.params)
    return [broadcast_to(product, shape=eqn.outputs[0].aval.shape)]


def _summed_once(eqn: Eqn, source: Atom, values: Environment) -> list[Any]:
    """The sum of the terms that differ, times the number of times that each occurs in a sum."""
    aval, axes = eqn.inputs[0].aval, eqn.params["axes"]
    shape = (1,) * (aval.ndim - source.aval.ndim) + source.aval.shape
    terms = reshape(values.read(source), shape=shape)
    count = prod(aval.shape[i] // shape[i] for i in axes)
    total = reduce_sum(terms, axes=axes)
    if count > 1:
        # a sum of negative zeros is a positive one
        total = add(multiply(total, aval.dtype.type(count)), aval.dtype.type(0))
    return [broadcast_to(total, shape=eqn.outputs[0].aval.shape)]
