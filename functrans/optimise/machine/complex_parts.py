"""Complex numbers as pairs of real ones: a graph without complex values, for any machine.

Each complex value becomes two real ones: by the `parts` rule of the primitive that computes it; by
the primitive itself, applied to each part, where that is linear; or, where it has no such form, by
the primitive as it is, which a program calls NumPy for, between `complex` and `real` and `imag`.

A complex input or output is a real array with a last axis of 2: in memory that is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import GraphTypeError
from functrans.ir.check import checked
from functrans.ir.graph import Atom, Eqn, Graph, Literal, inner_graphs
from functrans.ir.types import Aval, aval_of, is_complex, real_dtype
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import reshape
from functrans.ops.compiled.pairs import (
    Pair,
    each_part,
    flattened,
    is_done_to_each_part,
    pair_of,
    regrouped,
)
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.complex_numbers import complex_p, imag_p, real_p
from functrans.optimise.passes import optimise
from functrans.trace.stage import Environment, apply, at_source_of, rewrite
from functrans.trace.tracer import Tracer


def without_complex(graph: Graph) -> Graph:
    """The graph with complex inputs and outputs interleaved: each a real array of pairs."""
    if not _has_complex(graph):
        return graph

    def run(*inputs: Any) -> list[Any]:
        given = [
            _read(x) if is_complex(var.aval.dtype) else x
            for var, x in zip(graph.inputs, inputs, strict=True)
        ]
        return [_interleaved(x) if isinstance(x, Pair) else x for x in _results(graph, given)]

    apart = rewrite(run, list(map(interleaved_aval, graph.in_avals)))
    return optimise(checked(apart, "without_complex"))


@cached(512)
def _apart(graph: Graph) -> Graph:
    """An inner graph with two inputs and outputs in the place of each complex one."""
    dtypes = [aval.dtype for aval in graph.in_avals]
    avals = [
        part
        for aval in graph.in_avals
        for part in ([_part(aval)] * 2 if is_complex(aval.dtype) else [aval])
    ]
    return rewrite(lambda *inputs: flattened(_results(graph, regrouped(inputs, dtypes))), avals)


def _part(aval: Aval) -> Aval:
    return aval.update(dtype=real_dtype(aval.dtype))


def interleaved_aval(aval: Aval) -> Aval:
    """The type of an array as its real and imaginary parts lie in memory."""
    return _part(aval).update(shape=(*aval.shape, 2)) if is_complex(aval.dtype) else aval


def _read(x: Any) -> Pair:
    shape = x.shape[:-1]
    before = tuple(map(whole, shape))
    return Pair(
        *(reshape(read_slice(x, index=(*before, (i, 1, 1))), shape=shape) for i in range(2))
    )


def _interleaved(x: Pair) -> Any:
    return stack(list(x), axis=x.re.ndim)


def _has_complex(graph: Graph) -> bool:
    ends = (*graph.in_avals, *graph.out_avals)
    return (
        any(is_complex(aval.dtype) for aval in ends)
        or any(is_complex(var.aval.dtype) for eqn in graph.eqns for var in eqn.outputs)
        or any(_has_complex(inner) for eqn in graph.eqns for inner in inner_graphs(eqn))
    )


def _results(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, whose complex values are pairs."""
    values = Environment(zip(graph.inputs, inputs, strict=True))

    def read(atom: Atom) -> Any:
        if isinstance(atom, Literal) and is_complex(atom.aval.dtype):
            return pair_of(atom.value)
        return values.read(atom)

    for eqn in graph.eqns:
        results = _in_parts(eqn, [read(atom) for atom in eqn.inputs])
        values.update(zip(eqn.outputs, results, strict=True))
    return [read(atom) for atom in graph.outputs]


def _in_parts(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation."""
    primitive, atoms = eqn.primitive, (*eqn.inputs, *eqn.outputs)
    touched = any(is_complex(atom.aval.dtype) for atom in atoms)
    if not touched and not any(map(_has_complex, inner_graphs(eqn))):
        return apply(eqn, operands)
    with at_source_of(eqn):
        if primitive.parts is None:
            if not is_done_to_each_part(eqn):
                return _by_numpy(eqn, operands)
            results = each_part(primitive, operands, eqn.params)
        elif primitive.higher_order:
            flat = primitive.parts(operands, transform=_apart, **eqn.params)
            return regrouped(flat, [var.aval.dtype for var in eqn.outputs])
        else:
            results = primitive.parts(*operands, **eqn.params)
    found = results if primitive.several else (results,)
    for var, result in zip(eqn.outputs, found, strict=True):
        _check(eqn, var.aval, result)
    return found


def _check(eqn: Eqn, aval: Aval, result: Any) -> None:
    """Raise unless a rule gave what it has to: memory is reserved for that."""
    parts = result if isinstance(result, Pair) else (result,)
    expected = [_part(aval)] * (2 if is_complex(aval.dtype) else 1)
    if not all(map(Aval.same_array_type, map(_aval_of, parts), expected)):
        raise GraphTypeError(f"the parts of {aval} that {eqn.primitive.name} gives are {parts}")


def _aval_of(x: Any) -> Aval:
    return x.aval if isinstance(x, Tracer) else aval_of(x)


def _by_numpy(eqn: Eqn, operands: Sequence[Any]) -> list[Any]:
    """The equation as it is, with complex operands and results."""
    whole_operands = [complex_p(*x) if isinstance(x, Pair) else x for x in operands]
    return [
        Pair(real_p(x), imag_p(x)) if is_complex(x.dtype) else x for x in apply(eqn, whole_operands)
    ]


def interleaved(x: Any, dtype: np.dtype[Any]) -> Any:
    """A complex array or number as a real array of pairs, in the same memory if it may be."""
    return np.asarray(x, dtype, order="C")[..., None].view(real_dtype(dtype))


def joined(x: Any, dtype: np.dtype[Any]) -> Any:
    """What `interleaved` made of a complex array."""
    return np.asarray(x, order="C").view(dtype)[..., 0]
