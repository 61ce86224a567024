"""The results of stages as text."""

from __future__ import annotations

from collections.abc import Iterator

from functrans.ir.text import variable_names
from functrans.lazily import lazy
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Statement, Store
from functrans.loop.text import Printer, text
from functrans.lower.draft import Draft
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Contraction, Elements, Emitted, Root, extent_of

_outline = lazy("functrans.lower.report:outline")


def graph(draft: Draft) -> str:
    """The graph."""
    return str(draft.graph)


def kept(draft: Draft) -> str:
    """The materialised variables, by their names in the graph's text."""
    names = variable_names(draft.graph)
    return "kept: " + (", ".join(sorted(names[var] for var in draft.kept)) or "nothing")


def roots(draft: Draft) -> str:
    """Each root: its possible loops, and the expressions of its elements."""
    return "\n".join(line for root in draft.roots for line in _root(root))


def _root(root: Root) -> Iterator[str]:
    body: tuple[Statement, ...] = ()
    instead: tuple[Statement, ...] = ()
    if isinstance(root, Emitted):
        body = root.statements
    elif isinstance(root, Contraction):
        body = (_product(root),)
    elif isinstance(root, Elements):
        body = tuple(Store(root.target, position, value) for position, value in root.elements)
        instead = root.instead.statements if root.instead is not None else ()
    printer = Printer()
    loops = "".join(f"for {printer.leaf(i)} in {i.attribute[2]}: " for i in root.loops)
    lines = list(printer.statements(body, 0))
    if len(lines) == 1:
        yield loops + lines[0]
    else:
        yield loops or f"{root.target}:"
        yield from ("  " + line for line in lines)
    for line in printer.statements(instead, 0):
        yield f"  or {line}"


def _product(root: Contraction) -> Store:
    """A matrix product as the sum that it computes."""
    assert root.counter is not None
    loops = dict(zip(root.axes, root.loops, strict=True))
    position = tuple(loops.get(axis, ZERO) for axis in range(len(root.target.shape)))
    left, right = root.factors
    terms = const(extent_of(root.counter), INDEX)
    total = Scalar("fold", (left * right, terms), left.dtype, ("add", (root.counter,)))
    return Store(root.target, position, total)


def loops(draft: Draft) -> str:
    """The nests as trees of loops, with the names of the roots in them."""
    return "\n".join(line for loop in draft.loops for line in _tree(loop, 0, Printer()))


def _tree(loop: Loop, depth: int, printer: Printer) -> Iterator[str]:
    indent = "  " * depth
    if loop.index is None:
        yield f"{indent}once"
    else:
        yield f"{indent}for {printer.leaf(loop.index)} in {loop.index.attribute[2]}"
    for child in loop.children:
        if isinstance(child, Loop):
            yield from _tree(child, depth + 1, printer)
        else:
            yield f"{indent}  {child.target}"


def nests(draft: Draft) -> str:
    """The statements of each nest."""
    return "\n".join(
        line
        for number, nest in enumerate(draft.nests)
        for line in (f"nest {number}", *Printer().statements(nest.body, 1))
    )


def kernels(draft: Draft) -> str:
    """The text of each kernel, once."""
    return "\n".join(map(text, dict.fromkeys(step.kernel for step in draft.steps)))


def plan(draft: Draft) -> str:
    """The plan in words."""
    assert draft.plan is not None
    return _outline(draft.plan)
