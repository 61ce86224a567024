"""Whole programs on disk, by their graphs.

A process that meets a graph which was compiled before plans nothing, writes no text, and needs no
LLVM. Kept is the program's listing; the code of its kernels is kept by its text, as always. A graph
can be looked up if the library knows all that is in it, and how to write that down: operations of
the user's own may mean something else tomorrow.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.graph import Graph
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.loop.target import Target
from functrans.ops import BUILT_IN
from functrans.run.call.program import Listing, NativeProgram, StepListing, native_program
from functrans.run.code import cache, host
from functrans.run.code import fingerprint as circumstances
from functrans.run.code.native import Code


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
    return native_program(listing, codes, graph.in_avals, graph.out_avals)


def keep(graph: Graph, program: NativeProgram, donated: Sequence[int] = ()) -> None:
    """Put a program on disk, under the graph that it is the program of."""
    store = cache.disk()
    key = key_of(graph, donated) if store is not None else None
    if store is not None and key is not None:
        steps, offsets, arena, overwritten = program.listing
        store.put(
            key, marshal.dumps((tuple(tuple(step) for step in steps), offsets, arena, overwritten))
        )


def key_of(graph: Graph, donated: Sequence[int] = ()) -> str | None:
    """A key of all that a program follows from; None if something in the graph has no name."""
    try:
        text = _written(graph) + _written(tuple(donated))
    except _Nameless:
        return None
    digest = circumstances.of_programs().copy()
    # the rest of the target follows from the CPU, which is one of the circumstances
    digest.update(f"{text}{_all_of(host.kind())}".encode())
    return str(digest.hexdigest())


@cached(16)
def _all_of(target: Target) -> str:
    return repr(target)


class _Nameless(Exception):
    """A value that another process could not tell from others."""


def _written(value: Any) -> str:
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, tuple):
        return f"{type(value).__name__}({','.join(map(_written, value))})"
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, np.generic):
        return f"{value.dtype.str}:{value.tobytes().hex()}"
    raise _Nameless(value)


def _primitive(primitive: Primitive) -> str:
    if primitive not in BUILT_IN:
        raise _Nameless(primitive)
    return primitive.name


def _aval(aval: Aval) -> str:
    return f"{aval.dtype.str}{aval.shape}{aval.weak}"


def _tuple(values: Sequence[Any]) -> str:
    return "(" + ",".join(map(_written, values)) + ")"


# Each type: how to write a value so that no two values of it, or of others, look the same.
_WRITERS: dict[type, Callable[[Any], str]] = {
    int: repr,
    bool: repr,
    str: repr,
    bytes: repr,
    type(None): repr,
    float: float.hex,
    tuple: _tuple,
    Aval: _aval,
    Graph: lambda graph: "graph" + _tuple(graph.key),
    Primitive: _primitive,
}
