"""Loop coalescing: two loops of a band become one if all arrays are contiguous along them.

Expects a step. Leaves one whose band has fewer loops: two adjacent loops become a single one if
each array is contiguous along both, or does not depend on either. The index of a thread then needs
no division, and elements are adjacent across the ends of rows. The same is done for the loops of a
reduction that a team shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import ZERO, index
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Kernel, Let, Reduce, Statement, Store, in_loops
from functrans.loop.substitution import Position, Rewriting
from functrans.loop.walk import Body, expressions, stored, walk
from functrans.lower.grid.sizes import Sizes, called
from functrans.lower.plan import Step
from functrans.records import NamedTuple


def coalesced(step: Step, largest: int) -> Step:
    """The step with as few loops in its band as possible.

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
    kernel = _with_joined_sums(kernel, sizes)
    return step if kernel is step.kernel else called(step, kernel, sizes.numbers)


def _common_axes(kernel: Kernel, outer: For, inner: For) -> dict[Buffer, int] | None:
    """For each array, the first of the axes along which the loops go; None if impossible."""
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
    """The elements that statements access; None for other uses of the indices."""
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
    pairs = {each: (axis, 2) for each, axis in axes.items()}
    flat = {outer.index: one, inner.index: one}
    buffers, inside = _on_joined_axes(kernel, inner.body, pairs, flat, sizes)
    loop = replace(inner, index=one, stop=sizes.of(extent), body=inside)
    return replace(kernel, buffers=buffers, body=in_loops(kernel.band[:number], (loop,)))


def _on_joined_axes(
    kernel: Kernel,
    statements: Sequence[Statement],
    axes: Mapping[Buffer, tuple[int, int]],  # the first of the joined axes, and their number
    flat: Mapping[Scalar, Scalar],  # the index that replaces those of joined loops
    sizes: Sizes,
) -> tuple[tuple[Buffer, ...], Body]:
    """The buffers of a kernel with some of their axes joined, and statements on these."""
    simplify = Simplifier()
    buffers = {array: array for array in kernel.buffers}
    for array, (axis, count) in axes.items():
        for _ in range(count - 1):
            buffers[array] = _with_one_axis(buffers[array], axis, sizes)

    def element(old: Buffer, position: Position) -> tuple[Buffer, Position]:
        position = tuple(rewriting.expressions(position))
        if old not in axes:
            return buffers.get(old, old), position
        axis, count = axes[old]
        place, *others = position[axis : axis + count]
        for i, extent in zip(others, old.shape[axis + 1 :], strict=False):
            place = place * extent + i
        counted = {node: ZERO for node in postorder([place]) if node in flat}
        (place,) = simplify.substitute([place], counted)
        if counted:
            place = simplify(place + flat[next(iter(counted))])
        return buffers[old], (*position[:axis], place, *position[axis + count :])

    rewriting = Rewriting({}, element, simplify)
    body = rewriting.statements(statements)
    return tuple(buffers.values()), body


def _with_one_axis(one: Buffer, axis: int, sizes: Sizes) -> Buffer:
    """The same memory, with one axis in place of two."""
    joined = ZERO  # the first extent does not affect the offsets of elements
    if axis:
        joined = sizes.of(sizes.value(one.shape[axis]) * sizes.value(one.shape[axis + 1]))
    return Buffer(one.name, one.dtype, (*one.shape[:axis], joined, *one.shape[axis + 2 :]))


# -- the loops of sums -----------------------------------------------------------------------------


class Joins(NamedTuple):
    """The reductions of a kernel, and which of their loops can be joined."""

    loops: Mapping[Reduce, int]  # for each reduction, the number of its last loops
    # for each array, the first axis of these loops, and their number
    axes: Mapping[Buffer, tuple[int, int]]


def joined_sums(inside: Body, scratch: Sequence[Buffer]) -> Joins:
    """The loops that can be joined, in a kernel that contains nothing but reductions.

    If there are other loops, the reductions are not changed, so that elements that both read are
    processed by the same thread.
    """
    loops: dict[Reduce, int] = {}
    axes: dict[Buffer, tuple[int, int]] = {}
    nothing = Joins({}, {})
    if scratch or not all(isinstance(each, (Let, Reduce, Store)) for each in inside):
        return nothing
    for each in inside:
        if not isinstance(each, Reduce):
            continue
        loops[each] = 1
        for count in range(len(each.loops), 1, -1):
            found = _axes_of_loops(each, count)
            if found is not None:
                loops[each] = count
                if any(axes.setdefault(one, own) != own for one, own in found.items()):
                    return nothing
                break
    return Joins(loops, axes)


def _axes_of_loops(statement: Reduce, count: int) -> dict[Buffer, tuple[int, int]] | None:
    """The axes of arrays along which a reduction's last loops go; None if not in order."""
    (first, *_), *inner = loops = statement.loops[-count:]
    counters = [counter for counter, *_ in inner]
    if any(start is not ZERO for _, start, _ in loops) or stored((statement,)):
        return None
    if first.attribute[2] is None:
        return None
    if any(stop.op not in ("const", "size") for *_, stop in inner):
        return None
    axes: dict[Buffer, tuple[int, int]] = {}
    depends: dict[Scalar, bool] = {}
    for one, position in _elements((statement,), {first, *counters}, depends):
        if one is None:
            return None
        axis = next((i for i, each in enumerate(position) if depends[each]), None)
        if axis is None:
            continue
        around, *others = position[axis:]
        extents = [stop for *_, stop in inner]
        if others[: count - 1] != counters or list(one.shape[axis + 1 : axis + count]) != extents:
            return None
        # the first loop may start anywhere in its axis
        if Coefficients(first).of(around) != 1 or not {*counters}.isdisjoint(postorder([around])):
            return None
        if any(depends[each] for each in others[count - 1 :]):
            return None
        if axes.setdefault(one, (axis, count)) != (axis, count):
            return None
    return axes or None


def _with_joined_sums(kernel: Kernel, sizes: Sizes) -> Kernel:
    """The kernel of a team, with the joinable loops of each reduction joined."""
    inside = kernel.band[-1].body if kernel.band else kernel.body
    joins = joined_sums(inside, kernel.scratch)
    if kernel.team <= 1 or not joins.axes:
        return kernel
    simplify = Simplifier()
    flat: dict[Scalar, Scalar] = {}
    sums: dict[Statement, Statement] = {}
    for each, count in joins.loops.items():
        if count == 1:
            continue
        (first, _, stop), *inner = each.loops[-count:]
        extent = prod(sizes.value(stop) for *_, stop in inner)
        one = index(inner[-1][0].attribute[0], first.attribute[2] * extent)
        flat |= {counter: one for counter, *_ in each.loops[-count:]}
        known = stop.op in ("const", "size")
        end = sizes.of(sizes.value(stop) * extent) if known else simplify(stop * sizes.of(extent))
        sums[each] = replace(each, loops=(*each.loops[:-count], (one, ZERO, end)))
    statements = [sums.get(each, each) for each in inside]
    buffers, body = _on_joined_axes(kernel, statements, joins.axes, flat, sizes)
    return replace(kernel, buffers=buffers, body=in_loops(kernel.band, body))
