"""Complex numbers as pairs of real ones: a graph without complex values, for any machine.

Each complex value becomes two real ones. They are computed by the `parts` rule of the primitive, if
it has one. A linear primitive is applied to each part, and a product to all four pairs of parts.
Any other primitive remains complex: the program calls NumPy for it, on arrays with interleaved
parts.

A complex input or output becomes a real array with a last axis of 2, which is the same in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from functrans.caches import cached
from functrans.errors import GraphTypeError
from functrans.ir.graph import Atom, Eqn, Graph, Literal, inner_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, is_complex, real_dtype
from functrans.loop.target import Target
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.structural import reduce_sum, transpose_p
from functrans.ops.compiled.pairs import (
    Composition,
    Pair,
    Real,
    by_parts,
    flattened,
    pair_of,
    regrouped,
    rule_of_linear,
)
from functrans.ops.elementwise.compiled.complex_arithmetic import conj
from functrans.ops.elementwise.complex_numbers import conj_p, imag_p, interleave_p, join_p, real_p
from functrans.ops.linalg.compiled.blas import counts, sides
from functrans.ops.linalg.contraction import Axes, dot_general
from functrans.ops.reductions.cumulative import cumsum
from functrans.optimise.conditions import has_complex
from functrans.optimise.machine.complex_products import (
    FEWEST_TERMS,
    LEAST_WORK,
    at,
    is_small,
    of_matrices,
    operand,
    with_vector,
)
from functrans.records import NamedTuple
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

Parts = Callable[[Primitive], Callable[..., Any] | None]
"""Returns the rule by which a primitive computes the parts of its results; None if it has no
rule."""


def of_primitive(primitive: Primitive) -> Callable[..., Any] | None:
    """The rule in the slot `parts`."""
    return primitive.parts


class _Complex:
    """A complex value: a pair of real ones, or a real array with both interleaved, or both."""

    def __init__(self, pair: Pair | None = None, interleaved: Any = None) -> None:
        self._pair = pair
        self._interleaved = interleaved

    @property
    def pair(self) -> Pair:
        if self._pair is None:
            last = self._interleaved.ndim - 1
            self._pair = Pair(*(at(self._interleaved, last, i) for i in range(2)))
        return self._pair

    @property
    def stored(self) -> Any:
        """The array with both parts, if it is in memory, or None."""
        return self._interleaved

    @property
    def interleaved(self) -> Any:
        if self._interleaved is None:
            assert self._pair is not None
            self._interleaved = stack(list(self._pair), axis=self._pair.re.ndim)
        return self._interleaved


def without_complex(graph: Graph, target: Target, parts: Parts = of_primitive) -> Graph:
    """Replace complex numbers by pairs of real ones; inputs and outputs stay interleaved.

    Expects operations on complex numbers as they were traced, or already calls of a library.
    Leaves complex values only as operands and results of calls of NumPy.
    """

    def run(*inputs: Any) -> list[Any]:
        given = [
            _Complex(interleaved=x) if is_complex(var.aval.dtype) else x
            for var, x in zip(graph.inputs, inputs, strict=True)
        ]
        return [
            x.interleaved if isinstance(x, _Complex) else x
            for x in _results(graph, given, parts, in_place=target.grid is None)
        ]

    return rewrite(run, list(map(_interleaved, graph.in_avals)))


@cached(512)
def _apart(graph: Graph, parts: Parts) -> Graph:
    """An inner graph with two inputs or outputs in place of each complex one."""
    dtypes = [aval.dtype for aval in graph.in_avals]
    avals = [
        part
        for aval in graph.in_avals
        for part in ([_part(aval)] * 2 if is_complex(aval.dtype) else [aval])
    ]

    def run(*inputs: Any) -> list[Any]:
        given = map(_from_pair, regrouped(inputs, dtypes))
        return flattened(map(_to_pair, _results(graph, list(given), parts)))

    return rewrite(run, avals)


def _from_pair(x: Any) -> Any:
    return _Complex(pair=x) if isinstance(x, Pair) else x


def _to_pair(x: Any) -> Any:
    return x.pair if isinstance(x, _Complex) else x


def _part(aval: Aval) -> Aval:
    return aval.update(dtype=real_dtype(aval.dtype))


def _interleaved(aval: Aval) -> Aval:
    """The type of a complex array that is read as an array of interleaved parts."""
    return _part(aval).update(shape=(*aval.shape, 2)) if is_complex(aval.dtype) else aval


def _results(
    graph: Graph, inputs: Sequence[Any], parts: Parts, in_place: bool = False
) -> list[Any]:
    """The outputs of a graph; `in_place` if stored matrices are multiplied as they lie."""
    values = Environment(zip(graph.inputs, inputs, strict=True))
    needed = _read_as_a_whole(graph) if in_place else ()

    def read(atom: Atom) -> Any:
        if isinstance(atom, Literal) and is_complex(atom.aval.dtype):
            return _Complex(pair=pair_of(atom.value))
        return values.read(atom)

    for eqn in graph.eqns:
        found: Any = None
        if in_place and eqn.primitive is dot_general and is_complex(eqn.inputs[0].aval.dtype):
            origins = [_origin(atom, read, graph.makers) for atom in eqn.inputs]
            with at_source_of(eqn):
                found = _of_stored_matrix(eqn, origins)
                if found is None and eqn.outputs[0] in needed:
                    found = _of_matrices(eqn, origins)
        elif in_place and eqn.primitive in (reduce_sum, cumsum):
            with at_source_of(eqn):
                found = _of_stored_terms(eqn, read(eqn.inputs[0]))
        if found is not None:
            results: Sequence[Any] = [_from_pair(found)]
        else:
            results = _in_parts(eqn, [read(atom) for atom in eqn.inputs], parts)
        values.update(zip(eqn.outputs, results, strict=True))
    return [read(atom) for atom in graph.outputs]


def _read_as_a_whole(graph: Graph) -> set[Atom]:
    """The complex values of which both parts are read."""
    parts: dict[Atom, set[int]] = {atom: {0, 1} for atom in graph.outputs}
    for eqn in reversed(graph.eqns):
        if eqn.primitive in (real_p, imag_p):
            read = {int(eqn.primitive is imag_p)}
        elif eqn.primitive is conj_p or rule_of_linear(eqn) is by_parts:
            read = set().union(*(parts.get(var, set()) for var in eqn.outputs))
        else:
            read = {0, 1}
        for atom in eqn.inputs:
            parts.setdefault(atom, set()).update(read)
    return {atom for atom, read in parts.items() if len(read) == 2}


def _of_stored_terms(eqn: Eqn, terms: Any) -> _Complex | None:
    """The sums of an array in memory: those of its parts, as real numbers along a last axis."""
    if not isinstance(terms, _Complex) or terms.stored is None:
        return None
    assert eqn.primitive.batch is not None
    sums, _ = eqn.primitive.batch([terms.stored], [terms.stored.ndim - 1], **eqn.params)
    return _Complex(interleaved=sums)


class _Origin(NamedTuple):
    """What an operand of a product is, perhaps transposed or conjugated."""

    value: _Complex
    order: Axes  # the axes of the value that are those of the operand
    conjugated: bool


def _origin(atom: Atom, read: Callable[[Atom], Any], makers: Mapping[Atom, Eqn]) -> _Origin:
    order, conjugated = tuple(range(atom.aval.ndim)), False
    while (maker := makers.get(atom)) is not None and maker.primitive in (transpose_p, conj_p):
        if maker.primitive is conj_p:
            conjugated = not conjugated
        else:
            order = tuple(maker.params["permutation"][axis] for axis in order)
        (atom,) = maker.inputs
    return _Origin(read(atom), order, conjugated)


def _of_stored_matrix(eqn: Eqn, origins: Sequence[_Origin]) -> Pair | None:
    """The product of a matrix in memory and a vector."""
    ranks = [len(origin.order) for origin in origins]
    if sorted(ranks) != [1, 2] or len(eqn.params["contract"][0]) != 1:
        return None
    of_matrix = ranks.index(2)
    matrix, vector = origins[of_matrix], origins[1 - of_matrix]
    if matrix.value.stored is None or is_small(eqn.inputs[of_matrix].aval.shape):
        return None
    axis = matrix.order[eqn.params["contract"][of_matrix][0]]
    differ = matrix.conjugated != vector.conjugated
    factor = vector.value.pair
    result = with_vector(matrix.value.stored, conj(factor) if differ else factor, axis)
    return conj(result) if matrix.conjugated else result


def _of_matrices(eqn: Eqn, origins: Sequence[_Origin]) -> Pair | None:
    """The product of large matrices, or stacks of them; zeros of a real one are left out later."""
    size = counts(eqn)
    if size.multiplications < LEAST_WORK or size.summed < FEWEST_TERMS or min(size) < 2:
        return None
    operands, axes = [], []
    for origin, own, reads in zip(origins, sides(eqn), (size.columns, size.rows), strict=True):
        value, order, conjugated = origin
        free = [order[axis] for axis in own.free]
        if isinstance(value.pair, Real) or free != sorted(free):
            return None
        operands.append(operand(value.stored, value.pair, free[-1], conjugated, reads))
        axes.append([tuple(order[axis] for axis in kind) for kind in (own.contract, own.batch)])
    contract, batch = zip(*axes, strict=True)
    return of_matrices(*operands, contract=contract, batch=batch)


def _in_parts(eqn: Eqn, operands: Sequence[Any], parts: Parts) -> Sequence[Any]:
    """The results of an equation."""
    primitive, atoms = eqn.primitive, (*eqn.inputs, *eqn.outputs)
    touched = any(is_complex(atom.aval.dtype) for atom in atoms)
    if not touched and not any(map(has_complex, inner_graphs(eqn))):
        return apply(eqn, operands)
    if primitive is join_p:
        return [_Complex(interleaved=operands[0])]
    if primitive is interleave_p:
        return [operands[0].interleaved]
    rule = rule_of_linear(eqn)
    own = parts(primitive)
    if own is None and rule is None:
        return _by_numpy(eqn, operands)
    if isinstance(own, Composition):
        avals = [x.aval for x in eqn.inputs]
        if not all(aval.size for aval in avals):
            return _by_numpy(eqn, operands)
        return _results(rewrite(partial(own.of, **eqn.params), avals), operands, parts)
    pairs = list(map(_to_pair, operands))
    with at_source_of(eqn):
        if own is None:
            assert rule is not None
            results = rule(primitive, pairs, eqn.params)
        elif primitive.higher_order:
            flat = own(pairs, transform=lambda inner: _apart(inner, parts), **eqn.params)
            results = regrouped(flat, [var.aval.dtype for var in eqn.outputs])
        else:
            results = own(*pairs, **eqn.params)
    if results is NotImplemented:
        return _by_numpy(eqn, operands)
    found = results if primitive.several else (results,)
    for var, result in zip(eqn.outputs, found, strict=True):
        _check(eqn, var.aval, result)
    return list(map(_from_pair, found))


def _check(eqn: Eqn, aval: Aval, result: Any) -> None:
    """Raise unless a rule's result has the expected type, for which memory is reserved."""
    parts = result if isinstance(result, Pair) else (result,)
    expected = [_part(aval)] * (2 if is_complex(aval.dtype) else 1)
    if not all(map(Aval.same_array_type, (Aval(x.shape, x.dtype) for x in parts), expected)):
        raise GraphTypeError(f"the parts of {aval} that {eqn.primitive.name} gives are {parts}")


def _by_numpy(eqn: Eqn, operands: Sequence[Any]) -> list[Any]:
    """The equation as it is, with complex operands and results."""
    given = [join_p(x.interleaved) if isinstance(x, _Complex) else x for x in operands]
    return [
        _Complex(interleaved=interleave_p(x)) if is_complex(x.dtype) else x
        for x in apply(eqn, given)
    ]
