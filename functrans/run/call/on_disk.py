"""Persistent cache of whole programs, keyed by their graphs.

For a graph that was compiled before, a process needs no planning, no code generation and no LLVM.
The cache holds the program's listing; the code of its kernels is cached by its text, as always. A
graph has a key if everything in it can be serialised; user-defined operations, whose definitions
may change, are identified by a fingerprint of these.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans.caches import bits
from functrans.ir.graph import Eqn, Graph, inner_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops import is_built_in
from functrans.run.call.program import Listing, NativeProgram, StepListing, native_program
from functrans.run.code import cache, definitions, fingerprint, host
from functrans.run.code.loading import Code
from functrans.run.code.references import Nameless

# the planner is not imported for a program on disk
_lowered = lazy("functrans.run.call.compiled:lowered")


def find(graph: Graph, donated: Sequence[int] = ()) -> NativeProgram | None:
    """The program of a graph, if it is on disk with all its code.

    It may overwrite the inputs at the positions ``donated``.
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
    """Write a program to disk, under the key of its graph."""
    store = cache.disk()
    key = key_of(graph, donated) if store is not None else None
    if store is not None and key is not None:
        steps, *memory = program.listing
        written: Any = (tuple(tuple(step) for step in steps), *memory)
        content = marshal.dumps(written)
        # a NumPy integer would be read back as bytes
        if marshal.loads(content) == written:
            store.put(key, content)


def key_of(graph: Graph, donated: Sequence[int] = ()) -> str | None:
    """A key of everything that determines a program; None if something cannot be serialised."""
    write = _Writer()
    try:
        text = write(graph) + write(tuple(donated))
        # the results of the type rules of user-defined operations, when the graph was made
        text += write(tuple(var.aval for eqn in _user_defined(graph) for var in eqn.outputs))
    except Nameless:
        return None
    digest = fingerprint.of_programs()
    # the target is determined by the library and the CPU, which are part of the key
    digest.update(f"{text}{host.other}".encode())
    return str(digest.hexdigest())


class _Writer:
    """Serialises values injectively: different values, or types, give different bytes."""

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


_PLAIN: dict[type, Callable[[Any], str]] = {
    int: repr,
    bool: repr,
    str: repr,
    bytes: repr,
    type(None): repr,
    float: lambda x: bits(x).hex(),
    complex: lambda x: bits(x).hex(),
    Aval: lambda aval: f"{aval.dtype.str}{aval.shape}{aval.weak}",
}


def note(graph: Graph) -> None:
    """Record the fingerprints of user-defined operations before they are used."""
    for eqn in _user_defined(graph):
        definitions.fingerprint(eqn.primitive)


def _user_defined(graph: Graph) -> Iterator[Eqn]:
    """The equations of user-defined operations, also in inner graphs."""
    for eqn in graph.eqns:
        if not is_built_in(eqn.primitive):
            yield eqn
        for inner in inner_graphs(eqn):
            yield from _user_defined(inner)
