"""Loop coalescing: two loops of a band become one, where arrays are gone through in their order.

Expects a step. Leaves one whose band has fewer loops: where each array that two neighbouring loops
go over lies in memory as they go, or they do not go over it at all, they count one and the same
iteration. Its place in the grid then takes no division, and what is neighbouring is so to the end
of the arrays, not of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from functrans.loop.nodes import ZERO, index
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Kernel, Statement, Store
from functrans.loop.walk import expressions, walk
from functrans.lower.grid.sizes import Position, Rewriting, Sizes, called
from functrans.lower.plan import Step


def coalesced(step: Step, largest: int) -> Step:
    """The step with as few loops in its band as can be.

    ``largest`` is the largest number that is a constant in kernels.
    """
    kernel, sizes = step.kernel, Sizes(step.sizes, largest)
    number = len(kernel.band) - 1
    while number > 0:
        outer, inner = kernel.band[number - 1 : number + 1]
        axes = _common_axes(kernel, outer, inner)
        if axes is not None:
            kernel = _joined(kernel, number - 1, axes, sizes)
        number -= 1
    return step if kernel is step.kernel else called(step, kernel, sizes.numbers)


def _common_axes(kernel: Kernel, outer: For, inner: For) -> dict[Buffer, int] | None:
    """Along which axis of each array the loops go, and the next one; None if any is not so."""
    if not (outer.start is inner.start is ZERO):
        return None
    both = {outer.index, inner.index}
    axes: dict[Buffer, int] = {}
    without: set[Buffer] = set()
    depends: dict[Scalar, bool] = {}
    for one, position in _elements(kernel.body, both, depends):
        if one is None:
            return None
        axis = _axis(one, position, outer, inner)
        if axis is None:
            if any(depends[i] for i in position):
                return None
            without.add(one)
        elif one in kernel.scratch or axes.setdefault(one, axis) != axis:
            return None
    return axes if without.isdisjoint(axes) else None


def _axis(one: Buffer, position: Position, outer: For, inner: For) -> int | None:
    for axis in range(len(position) - 1):
        pair = position[axis], position[axis + 1]
        if pair == (outer.index, inner.index) and one.shape[axis + 1] is inner.stop:
            others = postorder([*position[:axis], *position[axis + 2 :]])
            return None if {*pair} & {*others} else axis
    return None


def _elements(
    body: tuple[Statement, ...], indices: set[Scalar], depends: dict[Scalar, bool]
) -> Iterator[tuple[Buffer | None, Position]]:
    """The elements that statements touch; a None for what uses an index in another way."""
    for statement in walk(body):
        if isinstance(statement, For) and statement.index in indices:
            continue
        roots = expressions(statement)
        nodes = postorder(roots)
        for node in nodes:
            inside = node.op != "load" and any(depends[arg] for arg in node.args)
            depends[node] = node in indices or inside
        yield from ((node.attribute, node.args) for node in nodes if node.op == "load")
        if isinstance(statement, Store):
            yield statement.target, statement.indices
            roots = (statement.value,)
        if any(depends[root] for root in roots):
            yield None, ()


def _joined(kernel: Kernel, number: int, axes: dict[Buffer, int], sizes: Sizes) -> Kernel:
    outer, inner = kernel.band[number : number + 2]
    extent = sizes.value(outer.stop) * sizes.value(inner.stop)
    one = index(inner.index.attribute[0], extent)
    buffers = {
        each: _with_one_axis(each, axes[each], sizes) if each in axes else each
        for each in kernel.buffers
    }
    simplify = Simplifier()

    def element(old: Buffer, position: Position) -> tuple[Buffer, Position]:
        position = tuple(rewriting.expressions(position))
        if old not in axes:
            return buffers.get(old, old), position
        axis = axes[old]
        return buffers[old], (*position[:axis], one, *position[axis + 2 :])

    rewriting = Rewriting({}, element, simplify)
    loop = replace(inner, index=one, stop=sizes.of(extent), body=rewriting.statements(inner.body))
    body: tuple[Statement, ...] = (loop,)
    for around in reversed(kernel.band[:number]):
        body = (replace(around, body=body),)
    return replace(kernel, buffers=tuple(buffers.values()), body=body)


def _with_one_axis(one: Buffer, axis: int, sizes: Sizes) -> Buffer:
    """The same memory with one axis in the place of two."""
    joined = ZERO  # the first extent takes no part in finding an element
    if axis:
        joined = sizes.of(sizes.value(one.shape[axis]) * sizes.value(one.shape[axis + 1]))
    return Buffer(one.name, one.dtype, (*one.shape[:axis], joined, *one.shape[axis + 2 :]))
