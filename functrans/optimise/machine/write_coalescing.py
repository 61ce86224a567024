"""Write coalescing: arrays assembled piece by piece become single equations.

A chain of concatenations, a chain of assignments to one array, and a sum of many embedded slices
(the gradient of reading an array piece by piece) each become one equation, whose parts are written
one after another (`functrans.lower.select.assembly`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import prod

from functrans.ir.graph import Atom, Eqn, Graph, Var, prune
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.arrays.shape import Joins, concatenate_p
from functrans.ops.arrays.slicing import assemble_p, embed_p, update_slice_p
from functrans.ops.arrays.structural import is_zeros
from functrans.ops.compiled.places import (
    Index,
    covers,
    disjoint,
    is_whole,
    slice_of_slice,
    sliced_shape,
    whole,
)
from functrans.ops.compiled.regrouping import reshape_in
from functrans.ops.elementwise.arithmetic import add


def coalesce_writes(graph: Graph, target: Target) -> Graph:
    """Coalesce writes: merge each chain of joins, assignments or sums of slices into one equation.

    Expects transposes and reshapes in their final places, since a chain ends at them.
    Leaves one equation for each chain, whose slices are written one after another.
    """
    return _Coalescing(graph, target[Joins]).run()


class _Coalescing:
    def __init__(self, graph: Graph, limits: Joins) -> None:
        self.graph = graph
        self.limits = limits
        self.makers = graph.makers
        self.uses = graph.uses
        self.rows = {
            eqn.inputs[0]: prod(eqn.outputs[0].aval.shape[1:])
            for eqn in graph.eqns
            if eqn.primitive.regroups is not None
        }
        """For each value that is reshaped, the number of elements of a row of the result."""
        self.inside: set[Eqn] = set()
        """Equations of chains whose last equation has been visited."""

    def run(self) -> Graph:
        eqns: list[Eqn] = []
        changed = False
        for eqn in reversed(self.graph.eqns):
            find = _FINDERS.get(eqn.primitive)
            better = find(self, eqn) if find is not None and eqn not in self.inside else None
            if better is None:
                eqns.append(eqn)
            else:
                changed = True
                eqns += reversed(better)
        if not changed:
            return self.graph
        return prune(Graph(self.graph.inputs, eqns[::-1], self.graph.outputs))

    def leaves(self, eqn: Eqn, goes_on: Callable[[Eqn], bool]) -> list[Atom]:
        """The leaves of a tree of equations that are used once each, in order."""
        found: list[Atom] = []
        stack = list(reversed(eqn.inputs))
        while stack:
            atom = stack.pop()
            maker = self.makers.get(atom)
            if maker is not None and self.uses[atom] == 1 and goes_on(maker):
                self.inside.add(maker)
                stack += reversed(maker.inputs)
            else:
                found.append(atom)
        return found

    def concatenation(self, eqn: Eqn) -> list[Eqn] | None:
        """One concatenation of the parts of its parts."""

        def goes_on(maker: Eqn) -> bool:
            return maker.primitive is eqn.primitive and maker.params == eqn.params

        parts = self.leaves(eqn, goes_on)
        starts = accumulate(part.aval.size for part in parts[:-1])
        if any(map(self.has_axes_of_its_own, parts)) or self.is_cut_within_rows(eqn, starts):
            axis, start = eqn.params["axis"], 0
            placed: list[tuple[Index, Atom]] = []
            for part in parts:
                index = list(map(whole, part.aval.shape))
                index[axis] = (start, part.aval.shape[axis], 1)
                start += part.aval.shape[axis]
                placed.append((tuple(index), part))
            return [_assembled(eqn, placed, adds=False)]
        if len(parts) == len(eqn.inputs) or len(parts) <= self.limits.few:
            return None
        return [eqn.but(inputs=parts)]

    def is_cut_within_rows(self, eqn: Eqn, starts: Iterable[int]) -> bool:
        """Whether parts of a vector start within the rows of its reshape.

        Read by rows, each element would need divisions and a selection of its part.
        """
        (out,) = eqn.outputs
        if out.aval.ndim != 1 or out.aval.size <= self.limits.small or self.uses[out] > 1:
            return False
        row = self.rows.get(out, 1)
        return row > 0 and any(start % row for start in starts)

    def has_axes_of_its_own(self, part: Atom) -> bool:
        """Whether a part is better written along the axes that it had before a reshape."""
        if part.aval.ndim != 1 or part.aval.size <= self.limits.small:
            return False
        return reshape_in(part, self.makers, self.graph.inputs) is not None

    def sum(self, eqn: Eqn) -> list[Eqn] | None:
        """A sum of embedded slices, many or all of them: each is added at its position."""
        (out,) = eqn.outputs
        if out.aval.size <= self.limits.small:
            return None

        def goes_on(maker: Eqn) -> bool:
            return maker.primitive is eqn.primitive and maker.outputs[0].aval == out.aval

        terms: dict[Index, list[Atom]] = {}
        slices = 0
        for atom in self.leaves(eqn, goes_on):
            maker = self.makers.get(atom)
            alone = self.uses[atom] == 1 and atom.aval.shape == out.aval.shape
            if maker is not None and maker.primitive is embed_p and alone:
                for index, part in self.pieces(maker.params["index"], maker.inputs[0]):
                    terms.setdefault(index, []).append(part)
                slices += 1
            else:
                terms.setdefault(tuple(map(whole, out.aval.shape)), []).append(atom)
        places = list(terms)
        starts = (x if isinstance(x, int) else x[0] for x, *_ in places)
        in_memory = self.uses[out] > 1 or self.is_cut_within_rows(eqn, starts)
        # slices that fill an array which is in memory in any case are computed each by itself
        fills = in_memory and disjoint(places) and covers(places, out.aval.shape)
        fewest = 1 if fills else self.limits.few
        # broadcasts are added separately
        if slices <= fewest or any(
            x.aval.shape != sliced_shape(index) for index, same in terms.items() for x in same
        ):
            return None
        made: list[Eqn] = []
        totals = {index: self.total(same, eqn, made) for index, same in terms.items()}
        # a whole array that the slices are added to comes first
        order = sorted(totals, key=lambda index: not is_whole(index, out.aval.shape))
        return [*made, _assembled(eqn, [(index, totals[index]) for index in order], adds=True)]

    def pieces(self, index: Index, atom: Atom) -> list[tuple[Index, Atom]]:
        """The slices that are added at an index, if it is a sum of embedded rows and nothing else.

        Vectors of the sum would be put together from several rows.
        """

        def goes_on(maker: Eqn) -> bool:
            return maker.primitive is add and maker.outputs[0].aval == atom.aval

        maker = self.makers.get(atom)
        if maker is None or self.uses[atom] > 1 or not goes_on(maker):
            return [(index, atom)]
        found: list[tuple[Index, Atom]] = []
        for leaf in self.leaves(maker, goes_on):
            made = self.makers.get(leaf)
            if made is None or made.primitive is not embed_p or self.uses[leaf] > 1:
                return [(index, atom)]
            if leaf.aval.shape != atom.aval.shape:  # it is repeated
                return [(index, atom)]
            (part,) = made.inputs
            if (1, *part.aval.shape)[-1] < _SHORTEST:
                return [(index, atom)]
            found.append((slice_of_slice(index, made.params["index"]), part))
        return found

    def total(self, atoms: Sequence[Atom], eqn: Eqn, made: list[Eqn]) -> Atom:
        """The sum of some values of one shape, by equations like one."""
        result = atoms[0]
        for atom in atoms[1:]:
            out = Var(result.aval)
            made.append(eqn.but(inputs=(result, atom), outputs=(out,)))
            result = out
        return result

    def assignment(self, eqn: Eqn) -> list[Eqn] | None:
        """Many assignments to one array, one after the other."""
        (out,) = eqn.outputs
        if out.aval.size <= self.limits.small:
            return None
        found: dict[Index, Atom] = {}
        last = eqn
        count = 1
        while True:
            # an earlier value for the same index is overwritten
            found.setdefault(last.params["index"], last.inputs[1])
            maker = self.makers.get(last.inputs[0])
            if maker is None or self.uses[last.inputs[0]] > 1:
                break
            if maker.primitive is not eqn.primitive:
                break
            self.inside.add(maker)
            last = maker
            count += 1
        if count <= self.limits.few:
            return None
        base = last.inputs[0]
        parts = list(found.items())
        replaces_all = disjoint(list(found)) and covers(list(found), out.aval.shape)
        if not replaces_all and not is_zeros(self.makers.get(base)):
            parts.append((tuple(map(whole, out.aval.shape)), base))
        return [_assembled(eqn, parts[::-1], adds=False)]


_SHORTEST = 4
"""The fewest elements of a row that is added by itself: half a vector. Measured (LSTMs of 4 to 7
elements)."""


def _assembled(eqn: Eqn, parts: Sequence[tuple[Index, Atom]], adds: bool) -> Eqn:
    indices = tuple(index for index, _ in parts)
    params = {"indices": indices, "shape": eqn.outputs[0].aval.shape, "adds": adds}
    return Eqn(assemble_p, [x for _, x in parts], eqn.outputs, params, eqn.source)


_FINDERS: dict[Primitive, Callable[[_Coalescing, Eqn], list[Eqn] | None]] = {
    concatenate_p: _Coalescing.concatenation,
    add: _Coalescing.sum,
    update_slice_p: _Coalescing.assignment,
}
