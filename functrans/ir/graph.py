"""The graph: a list of equations between single-assignment variables.

A `Graph` is closed: array constants are inputs, and only scalars are literals. It is immutable, and
compares and hashes by structure, up to renaming of variables, so that `functrans.caches.cached` on
a function of graphs is a cache by structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from functrans.caches import cached, cached_property
from functrans.ir.text import graph_html, graph_text
from functrans.ir.types import Aval

if TYPE_CHECKING:
    from functrans.ir.primitive import Primitive

T = TypeVar("T")


class Var:
    """A variable, which is assigned by an equation or is an input."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"v{id(self) % 0xFFFF:04x}:{self.aval}"


class Literal:
    """A scalar constant."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: Aval) -> None:
        self.value = value
        self.aval = aval

    @property
    def key(self) -> tuple[bytes, Aval]:
        # compared by bits, because 0.0 == -0.0 and nan != nan
        return np.asarray(self.value, self.aval.dtype).tobytes(), self.aval

    def __repr__(self) -> str:
        return f"{self.value}:{self.aval}"


Atom = Var | Literal


class Eqn:
    """An equation ``outputs = primitive[params] inputs``, with its source line."""

    __slots__ = ("inputs", "outputs", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        inputs: Sequence[Atom],
        outputs: Sequence[Var],
        params: Mapping[str, Any],
        source: Any = None,
    ) -> None:
        self.primitive = primitive
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.params = params
        self.source = source

    def but(
        self,
        inputs: Sequence[Atom] | None = None,
        outputs: Sequence[Var] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Eqn:
        """The equation with other operands, results or parameters."""
        return Eqn(
            self.primitive,
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.params if params is None else params,
            self.source,
        )

    def __reduce__(self) -> Any:
        # source lines are valid in this process only
        return Eqn, (self.primitive, self.inputs, self.outputs, dict(self.params))

    def __repr__(self) -> str:
        return f"{self.outputs} = {self.primitive.name} {self.inputs} {dict(self.params)}"


class Graph:
    """A function of arrays, as data.

    Parameters
    ----------
    inputs : sequence of Var
    eqns : sequence of Eqn
        In topological order: each variable is assigned before it is used.
    outputs : sequence of Var or Literal
    """

    def __init__(self, inputs: Sequence[Var], eqns: Sequence[Eqn], outputs: Sequence[Atom]) -> None:
        self.inputs = tuple(inputs)
        self.eqns = tuple(eqns)
        self.outputs = tuple(outputs)
        self._hash: int | None = None
        self.is_checked = False
        """Whether `functrans.ir.check` has accepted the graph, which never changes."""

    def __reduce__(self) -> Any:
        # not what is cached: hashes and the ids of code objects are valid in this process only
        return Graph, (self.inputs, self.eqns, self.outputs)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The structure: equal for graphs that are equal up to renaming of variables."""
        # optimised for speed, since it is computed for every eager gradient
        name: dict[Atom, Any] = {var: i for i, var in enumerate(self.inputs)}
        lines = []
        count = len(name)
        for eqn in self.eqns:
            operands = [*map(name.get, eqn.inputs)]
            if None in operands:
                operands = [name[x] if x in name else _key(x) for x in eqn.inputs]
            params = eqn.params and eqn.primitive.keyed(eqn.params)
            lines.append((eqn.primitive, *operands, params or ()))
            for var in eqn.outputs:
                name[var] = count
                count += 1
        outputs = tuple([name[x] if x in name else _key(x) for x in self.outputs])
        return tuple([var.aval for var in self.inputs]), tuple(lines), outputs

    @cached_property
    def places(self) -> tuple[Any, ...]:
        """The source lines of the equations, which are not part of the structure."""
        found: list[Any] = []
        for eqn in self.eqns:
            source = eqn.source
            # by id, since hashing a code object hashes all of its contents
            found.append(source and (id(source.code), source.instruction))
            if eqn.primitive.higher_order:
                found += [inner.places for inner in inner_graphs(eqn)]
        return tuple(found)

    @cached_property
    def makers(self) -> Mapping[Any, Eqn]:
        """The equation that assigns each variable, but for the inputs."""
        return {var: eqn for eqn in self.eqns for var in eqn.outputs}

    @cached_property
    def readers(self) -> Mapping[Atom, Sequence[Eqn]]:
        """The equations that read each value, in order: as often as they read it."""
        found: dict[Atom, list[Eqn]] = {}
        for eqn in self.eqns:
            for x in eqn.inputs:
                found.setdefault(x, []).append(eqn)
        return found

    @cached_property
    def uses(self) -> Counter[Atom]:
        """How often equations and outputs read each value."""
        return Counter([*(x for eqn in self.eqns for x in eqn.inputs), *self.outputs])

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.key)
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Graph) and hash(self) == hash(other) and self.key == other.key
        )

    @property
    def in_avals(self) -> tuple[Aval, ...]:
        return tuple(var.aval for var in self.inputs)

    @property
    def out_avals(self) -> tuple[Aval, ...]:
        return tuple(atom.aval for atom in self.outputs)

    def __str__(self) -> str:
        return graph_text(self)

    def _repr_html_(self) -> str:
        return graph_html(self)

    def __repr__(self) -> str:
        return f"<Graph {self.in_avals} -> {self.out_avals}, {len(self.eqns)} equations>"


def rewriting(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Memoise a function of a graph, as `functrans.caches.cached` does.

    Graphs of equal structure from different source lines have separate results, so that the
    equations of a result have the correct source lines.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @cached(most)
        def remembering(graph: Graph, places: tuple[Any, ...], *args: Any, **keywords: Any) -> T:
            return function(graph, *args, **keywords)

        @wraps(function)
        def rewrite(graph: Graph, *args: Any, **keywords: Any) -> T:
            return remembering(graph, graph.places, *args, **keywords)

        rewrite.cache_info = remembering.cache_info  # type: ignore[attr-defined]
        return rewrite

    return decorate


def _key(atom: Atom) -> tuple[bytes, Aval]:
    assert isinstance(atom, Literal), f"{atom} is not defined in the graph"
    return atom.key


def prune(graph: Graph) -> Graph:
    """Dead code elimination: the graph without equations that its outputs do not need.

    Inputs are kept. Equations with inner graphs are trimmed to the needed results, if possible.
    """
    needed = {atom for atom in graph.outputs if isinstance(atom, Var)}
    kept: list[Eqn] = []
    changed = False
    for eqn in reversed(graph.eqns):
        if needed.isdisjoint(eqn.outputs):
            changed = True
            continue
        if eqn.primitive.trim is not None and not needed.issuperset(eqn.outputs):
            eqn = eqn.primitive.trim(eqn, [var in needed for var in eqn.outputs])
            changed = True
        kept.append(eqn)
        needed.update(atom for atom in eqn.inputs if isinstance(atom, Var))
    if not changed:
        return graph
    return Graph(graph.inputs, tuple(reversed(kept)), graph.outputs)


def inlined(
    graph: Graph, inputs: Sequence[Atom], source: Any = None
) -> tuple[list[Eqn], list[Atom]]:
    """The equations of a graph with given inputs substituted, and its outputs.

    The equations get the source line ``source``, if it is given. If an input is strong that was
    weak, or the other way round, so are the results that are computed from it.
    """
    atoms: dict[Atom, Atom] = dict(zip(graph.inputs, inputs, strict=True))
    are_same = all(
        new.aval.weak == old.aval.weak for new, old in zip(inputs, graph.inputs, strict=True)
    )
    eqns = []
    for eqn in graph.eqns:
        operands = [atoms.get(atom, atom) for atom in eqn.inputs]
        avals: Iterable[Aval] = (var.aval for var in eqn.outputs)
        if not are_same:
            avals = eqn.primitive.results([atom.aval for atom in operands], dict(eqn.params))
        outputs = [Var(aval) for aval in avals]
        eqns.append(Eqn(eqn.primitive, operands, outputs, eqn.params, source or eqn.source))
        atoms.update(zip(eqn.outputs, outputs, strict=True))
    return eqns, [atoms.get(atom, atom) for atom in graph.outputs]


def used_inputs(graph: Graph) -> tuple[bool, ...]:
    """For each input, whether an equation or an output uses it."""
    used: set[Atom] = set(graph.outputs)
    for eqn in graph.eqns:
        used.update(eqn.inputs)
    return tuple(var in used for var in graph.inputs)


def inner_graphs(eqn: Eqn) -> Iterable[Graph]:
    """The graphs among an equation's parameters (a loop's body, the branches of a cond)."""
    for value in eqn.params.values():
        if isinstance(value, Graph):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Graph))


def with_graphs(change: Callable[[Graph], Graph], param: Any) -> Any:
    """An equation's parameter with its graphs changed: itself, or items of a tuple.

    Named tuples are values of their own, as the budget of a `checkpoint`.
    """
    if isinstance(param, Graph):
        return change(param)
    return tuple([with_graphs(change, x) for x in param]) if type(param) is tuple else param


def any_eqn(graph: Graph, predicate: Callable[[Eqn], bool]) -> bool:
    """Whether an equation of the graph, or of an inner graph, satisfies a predicate."""
    return any(
        predicate(eqn) or any(any_eqn(inner, predicate) for inner in inner_graphs(eqn))
        for eqn in graph.eqns
    )
