"""Sums of broadcast arrays: a sum over a repeated axis is a product with its extent.

That rounds once, and a sum of equal terms many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.loop.target import Target
from functrans.ops.arrays.structural import broadcast_to, broadcast_to_p, reduce_sum, reshape
from functrans.ops.elementwise.arithmetic import add, multiply
from functrans.optimise.rewrite import Rule
from functrans.trace.stage import Environment

DTYPES = tuple(map(np.dtype, ("float32", "float64", "int32", "int64", "uint32", "uint64")))
"""Extents are numbers of these types. (They may be infinite in float16, and wrap in int8, as the
sum does, but would have to be converted for that.)"""


def of_broadcasts(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """How sums of broadcast arrays are computed of what is repeated."""
    makers: dict[Atom, Eqn] = {
        eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.primitive is broadcast_to_p
    }
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive is reduce_sum and eqn.inputs[0] in makers:
            source, aval = makers[eqn.inputs[0]].inputs[0], eqn.inputs[0].aval
            if aval.dtype in DTYPES and aval.size and eqn.params["axes"]:
                rules[eqn] = partial(_summed_once, eqn, source)
    return rules


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
