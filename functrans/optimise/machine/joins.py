"""Arrays that are put together from many parts, each of which is written to its own place.

Which part an element is in would else be asked at every element, in as many comparisons as there
are parts. Sums of many embedded slices (what the gradient of reading an array piece by piece is)
and chains of assignments to one array are such arrays too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from functrans.ir.graph import Atom, Eqn, Graph, Var, prune
from functrans.ir.primitive import registry
from functrans.ops.arrays.slicing import assemble_p
from functrans.ops.compiled.places import Index, is_whole, sliced_shape, whole

FEW = 5
"""So many parts are told apart by comparisons, which is done for pieces of a loop at once."""

SMALL = 64
"""So few elements are written out one by one."""

TOGETHER = 128
"""So many elements of small parts are written one after another by one root."""

TOGETHER_IN_LOOP = 32
"""The same inside of a loop, each of whose vectors they are written from."""

FEW_ELEMENTS = 2
"""Parts of more elements than this are loops, if there are many such parts."""

Part = tuple[Index, Atom]


# -- finding them in a graph -----------------------------------------------------------------------


def joined(graph: Graph) -> Graph:
    """The graph with chains of joins, of assignments and of sums of slices as single equations."""
    if not any(eqn.primitive.name in _FINDERS for eqn in graph.eqns):
        return graph
    return _Joining(graph).run()


class _Joining:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers: dict[Atom, Eqn] = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
        self.uses = Counter(x for eqn in graph.eqns for x in eqn.inputs) + Counter(graph.outputs)
        self.inside: set[Eqn] = set()
        """What belongs to a chain whose last equation has been looked at."""

    def run(self) -> Graph:
        eqns: list[Eqn] = []
        changed = False
        for eqn in reversed(self.graph.eqns):
            find = _FINDERS.get(eqn.primitive.name)
            better = find(self, eqn) if find is not None and eqn not in self.inside else None
            if better is None:
                eqns.append(eqn)
            else:
                changed = True
                eqns += reversed(better)
        if not changed:
            return self.graph
        return prune(Graph(self.graph.inputs, eqns[::-1], self.graph.outputs))

    def leaves(self, eqn: Eqn, goes_on: Callable[[Eqn], bool], among: slice) -> list[Atom]:
        """What a tree of equations, each used once, is made of, in order."""
        found: list[Atom] = []
        stack = list(reversed(eqn.inputs[among]))
        while stack:
            atom = stack.pop()
            maker = self.makers.get(atom)
            if maker is not None and self.uses[atom] == 1 and goes_on(maker):
                self.inside.add(maker)
                stack += reversed(maker.inputs[among])
            else:
                found.append(atom)
        return found

    def concatenation(self, eqn: Eqn) -> list[Eqn] | None:
        """One concatenation of the parts of its parts."""

        def goes_on(maker: Eqn) -> bool:
            return maker.primitive is eqn.primitive and maker.params == eqn.params

        parts = self.leaves(eqn, goes_on, slice(None))
        if len(parts) == len(eqn.inputs) or len(parts) <= FEW:
            return None
        return [Eqn(eqn.primitive, parts, eqn.outputs, eqn.params, eqn.source)]

    def sum(self, eqn: Eqn) -> list[Eqn] | None:
        """A sum of many embedded slices: each is added where it goes."""
        (out,) = eqn.outputs
        if out.aval.size <= SMALL:
            return None

        def goes_on(maker: Eqn) -> bool:
            return maker.primitive is eqn.primitive and maker.outputs[0].aval == out.aval

        places: dict[Index, list[Atom]] = {}
        slices = 0
        for atom in self.leaves(eqn, goes_on, slice(None)):
            maker = self.makers.get(atom)
            if maker is not None and maker.primitive.name == "embed" and self.uses[atom] == 1:
                places.setdefault(maker.params["index"], []).append(maker.inputs[0])
                slices += 1
            else:
                places.setdefault(tuple(map(whole, out.aval.shape)), []).append(atom)
        if slices <= FEW or any(
            x.aval.shape != sliced_shape(index) for index, same in places.items() for x in same
        ):
            return None
        made: list[Eqn] = []
        totals = {index: self.total(same, eqn, made) for index, same in places.items()}
        # a whole array that the slices are added to comes first
        order = sorted(totals, key=lambda index: not is_whole(index, out.aval.shape))
        return [*made, _assembled(eqn, [(index, totals[index]) for index in order], adds=True)]

    def total(self, atoms: Sequence[Atom], eqn: Eqn, made: list[Eqn]) -> Atom:
        """The sum of some values of one shape, by equations like one."""
        result = atoms[0]
        for atom in atoms[1:]:
            out = Var(result.aval)
            made.append(Eqn(eqn.primitive, (result, atom), (out,), eqn.params, eqn.source))
            result = out
        return result

    def assignment(self, eqn: Eqn) -> list[Eqn] | None:
        """Many assignments to one array, one after the other."""
        (out,) = eqn.outputs
        if out.aval.size <= SMALL:
            return None
        found: dict[Index, Atom] = {}
        last = eqn
        count = 1
        while True:
            # an earlier value for the same place is overwritten
            found.setdefault(last.params["index"], last.inputs[1])
            maker = self.makers.get(last.inputs[0])
            if maker is None or self.uses[last.inputs[0]] > 1:
                break
            if maker.primitive is not eqn.primitive:
                break
            self.inside.add(maker)
            last = maker
            count += 1
        if count <= FEW:
            return None
        base = last.inputs[0]
        maker = self.makers.get(base)
        parts = list(found.items())
        zero = (
            maker is not None and maker.primitive is registry["full"] and not maker.params["value"]
        )
        if not zero:
            parts.append((tuple(map(whole, out.aval.shape)), base))
        return [_assembled(eqn, parts[::-1], adds=False)]


def _assembled(eqn: Eqn, parts: Sequence[Part], adds: bool) -> Eqn:
    indices = tuple(index for index, _ in parts)
    params = {"indices": indices, "shape": eqn.outputs[0].aval.shape, "adds": adds}
    return Eqn(assemble_p, [x for _, x in parts], eqn.outputs, params, eqn.source)


_FINDERS: dict[str, Callable[[_Joining, Eqn], list[Eqn] | None]] = {
    "concatenate": _Joining.concatenation,
    "add": _Joining.sum,
    "update_slice": _Joining.assignment,
}
