"""Whole programs on disk, by their graphs.

A process that meets a graph which was compiled before plans nothing, writes no text, and needs no
LLVM. Kept is the program's listing; the code of its kernels is kept by its text, as always. A graph
can be looked up if the library knows how to write down all that is in it; operations of the user's
own, which may mean something else tomorrow, by their definitions.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops import is_built_in
from functrans.run.call.program import Listing, NativeProgram, StepListing, native_program
from functrans.run.code import cache, definitions, fingerprint, host
from functrans.run.code.loading import Code
from functrans.run.code.references import Nameless

# what plans is not loaded for a program that is on disk
_lowered = lazy("functrans.run.call.compiled:lowered")


def find(graph: Graph, donated: Sequence[int] = ()) -> NativeProgram | None:
    """The program of a graph, if it is on disk with all its code.

    ``donated`` are the numbers of the inputs that it may overwrite.
    """
    store = cache.disk()
    key = key_of(graph, donated) if store is not None else None
    content = store.get(key) if store is not None and key is not None else None
    if content is None:
        return None
    steps, *memory = marshal.loads(content)
    listing = Listing(tuple(StepListing(*step) for step in steps), *memory)
    codes: list[Code] = []
    for step in listing.steps:
        code = cache.find(step.key, step.symbol, step.addresses())
        if code is None:
            return None
        codes.append(code)
    return native_program(listing, codes, graph.in_avals, graph.out_avals, partial(_lowered, graph))


def keep(graph: Graph, program: NativeProgram, donated: Sequence[int] = ()) -> None:
    """Put a program on disk, under the graph that it is the program of."""
    store = cache.disk()
    key = key_of(graph, donated) if store is not None else None
    if store is not None and key is not None:
        steps, *memory = program.listing
        written: Any = (tuple(tuple(step) for step in steps), *memory)
        content = marshal.dumps(written)
        # a number of NumPy's would come back as bytes
        if marshal.loads(content) == written:
            store.put(key, content)


def key_of(graph: Graph, donated: Sequence[int] = ()) -> str | None:
    """A key of all that a program follows from; None if something in the graph has no name."""
    write = _Writer()
    try:
        text = write(graph) + write(tuple(donated))
        # what the type rules of the user's own operations said when the graph was made
        text += write(tuple(var.aval for eqn in _own(graph) for var in eqn.outputs))
    except Nameless:
        return None
    digest = fingerprint.of_programs()
    # the target follows from the library and the CPU, which are among the circumstances
    digest.update(f"{text}{host.other}".encode())
    return str(digest.hexdigest())


class _Writer:
    """Writes values so that no two of a type, or of different ones, look the same."""

    def __init__(self) -> None:
        self._defined: dict[Primitive, str | None] = {}

    def __call__(self, value: Any) -> str:
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(value)
        if isinstance(value, tuple):
            name = "" if type(value) is tuple else type(value).__name__
            return f"{name}({','.join(map(self, value))})"
        if isinstance(value, Graph):
            return "graph" + self(value.key)
        if isinstance(value, Primitive):
            return self._primitive(value)
        if isinstance(value, np.dtype):
            return value.str
        if isinstance(value, np.generic):
            return f"{value.dtype.str}:{value.tobytes().hex()}"
        raise Nameless(value)

    def _primitive(self, primitive: Primitive) -> str:
        if is_built_in(primitive):
            return primitive.name
        if primitive not in self._defined:
            self._defined[primitive] = definitions.fingerprint(primitive)
        definition = self._defined[primitive]
        if definition is None:
            raise Nameless(primitive)
        return f"{primitive.name}:{definition}"


def _aval(aval: Aval) -> str:
    return f"{aval.dtype.str}{aval.shape}{aval.weak}"


_PLAIN: dict[type, Callable[[Any], str]] = {
    int: repr,
    bool: repr,
    str: repr,
    bytes: repr,
    type(None): repr,
    float: float.hex,
    Aval: _aval,
}


def note(graph: Graph) -> None:
    """Remember what the user's own operations mean before anything is found out about them."""
    for eqn in _own(graph):
        definitions.fingerprint(eqn.primitive)


def _own(graph: Graph) -> Iterator[Eqn]:
    """The equations of operations that are the user's own, also in inner graphs."""
    for eqn in graph.eqns:
        if not is_built_in(eqn.primitive):
            yield eqn
        for inner in inner_graphs(eqn):
            yield from _own(inner)
