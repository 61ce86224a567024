"""Alpha equivalence: kernels that differ only in the names of buffers, indices and locals.

Each layer of a network has kernels of its own, which are printed and compiled as one. Loops of one
kernel may differ in its sizes, too (`functrans.loop.repetition`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from functrans.caches import bits, cached
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, Kernel
from functrans.records import NamedTuple


def representatives(kernels: Iterable[Kernel]) -> dict[Kernel, Kernel]:
    """For each kernel the first one that does the same."""
    alike: dict[Hashable, list[Kernel]] = {}
    for kernel in kernels:
        # most kernels differ at a glance
        glance = tuple([one.dtype for one in kernel.buffers]), kernel.sizes, len(kernel.body)
        alike.setdefault(glance, []).append(kernel)
    found: dict[Kernel, Kernel] = {}
    first: dict[Hashable, Kernel] = {}
    for several in alike.values():
        for kernel in several:
            found[kernel] = first.setdefault(form(kernel), kernel) if len(several) > 1 else kernel
    return found


def form(kernel: Kernel) -> Hashable:
    """A key that is equal for kernels that do the same with their arguments, in order."""
    made = _Form()
    statements = made.of(kernel)
    return statements, tuple(made.definitions)


class Pattern(NamedTuple):
    """A loop as a function of the buffers and numbers in it."""

    form: Hashable  # equal for loops that do the same with them, in order
    buffers: tuple[Buffer, ...]
    numbers: tuple[Scalar, ...]  # its indices, locals and sizes


def pattern(loop: For) -> Pattern:
    """The pattern of a loop."""
    made = _Form(_NAMES | {"size"})
    statement = made.of(loop)
    numbers = tuple([node for node in made.nodes if node.op in made.names])
    return Pattern((statement, tuple(made.definitions)), tuple(made.buffers), numbers)


_NAMES = frozenset({"index", "local"})


class _Form:
    """Numbers buffers and expressions in the order in which they occur."""

    def __init__(self, names: frozenset[str] = _NAMES) -> None:
        self.names = names  # the leaves of which only the order matters
        self.definitions: list[Hashable] = []
        self.buffers: dict[Buffer, int] = {}
        self.nodes: dict[Scalar, int] = {}

    def of(self, part: Any) -> Hashable:
        if isinstance(part, tuple):
            return tuple(map(self.of, part))
        if isinstance(part, Scalar):
            return self._scalar(part)
        if isinstance(part, Buffer):
            if part not in self.buffers:
                self.buffers[part] = self._defined((part.dtype, self.of(part.shape), part.column))
            return self.buffers[part]
        if isinstance(part, Mapping):
            return tuple(sorted(part.items()))
        kind: Any = type(part)
        names = _fields(kind)
        return part if names is None else (kind, *(self.of(getattr(part, x)) for x in names))

    def _scalar(self, root: Scalar) -> int:
        if root not in self.nodes:
            for node in postorder([root], self.nodes):
                self.nodes[node] = self._defined(self._node(node))
        return self.nodes[root]

    def _node(self, node: Scalar) -> Hashable:
        args = tuple([self.nodes[arg] for arg in node.args])
        if node.op in self.names:
            # an index may be bounded; the other parts of the attribute are its name
            return node.op, node.dtype, () if node.op == "size" else node.attribute[2:]
        attribute = node.attribute
        if isinstance(attribute, Buffer):
            attribute = self.of(attribute)
        elif isinstance(attribute, float):
            attribute = bits(attribute)
        return node.op, args, node.dtype, type(attribute), attribute

    def _defined(self, definition: Hashable) -> int:
        self.definitions.append(definition)
        return len(self.definitions) - 1


@cached(64)
def _fields(kind: Hashable) -> tuple[str, ...] | None:
    """The names of the fields of a kind of statement; None for what is no statement."""
    return tuple([each.name for each in fields(kind)]) if is_dataclass(kind) else None
