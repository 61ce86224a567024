"""What is done to memory in order: scattered updates, and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from functrans.ir.graph import Eqn
from functrans.loop.nodes import INDEX, bounded, identity, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, const, convert
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, Buffer, For, Let, Statement, Store, load, local
from functrans.ops.compiled.elements import Index, broadcast_index

SCATTERS: dict[str, str | None] = {
    "scatter_set": None,
    "scatter_add": "add",
    "scatter_multiply": "mul",
    "scatter_min": "min",
    "scatter_max": "max",
}
"""How each primitive of the family combines an update with what is there."""

RUNNING = {"cumsum": "add", "cumprod": "mul", "cummin": "min", "cummax": "max"}

VECTOR_BYTES = 64
"""Of the vectors in which rows are scattered; a machine with shorter ones takes several for one."""

ZERO = const(0, INDEX)

Element = Callable[[int, Index], Scalar]
"""The element of an operand, by its number, at an index."""


def is_inplace(eqn: Eqn) -> bool:
    """Whether an equation is done by updating memory."""
    return eqn.primitive.name in SCATTERS or eqn.primitive.name in RUNNING


def updates(
    eqn: Eqn, target: Buffer, element: Element, simplify: Simplifier
) -> tuple[Statement, ...]:
    """The statements of a scatter, when its first operand has been copied to the target.

    In order: where an element is set twice, the last one wins.
    """
    x, given, *indices = (operand.aval for operand in eqn.inputs)
    axes: tuple[int, ...] = eqn.params["axes"]
    loops = tuple(index("u", n) for n in given.shape)
    ndim = len(given.shape) - (len(x.shape) - len(axes))
    found: dict[int, Scalar] = {}
    for number, (axis, own) in enumerate(zip(axes, indices, strict=True), 2):
        position = element(number, broadcast_index(loops[:ndim], own.shape))
        found[axis] = bounded(convert(position, INDEX), x.shape[axis])
    rest = iter(loops[ndim:])
    place = [found[axis] if axis in found else next(rest) for axis in range(len(x.shape))]
    before, (value, *where) = lower_folds([element(1, loops), *place], 1, simplify)
    store = Store(target, tuple(where), value, SCATTERS[eqn.primitive.name])
    if before or given.size == 0 or len(loops) == ndim or len(x.shape) - 1 in axes:
        return _nest(loops, (*before, store))
    # the numbers of a row go to places of their own: their order does not matter
    return _nest(loops[:-1], _vectors(loops[-1], store))


def running(
    eqn: Eqn, target: Buffer, element: Element, simplify: Simplifier
) -> tuple[Statement, ...]:
    """The statements of a running sum, product or extreme."""
    (x,) = (operand.aval for operand in eqn.inputs)
    if x.size == 0:
        return ()
    axis: int = eqn.params["axis"]
    op = RUNNING[eqn.primitive.name]
    loops = tuple(index("r", n) for n in x.shape)
    at: Scalar = loops[axis]
    if eqn.params["reverse"]:
        at = simplify(const(x.shape[axis] - 1, INDEX) - at)
    position = (*loops[:axis], at, *loops[axis + 1 :])
    before, (value,) = lower_folds([element(0, position)], 1, simplify)
    if axis == len(x.shape) - 1:
        total = local(x.dtype, "total")
        new = Scalar(op, (total, value), x.dtype)
        step = (*before, Assign((total,), (new,)), Store(target, position, total))
        start = Let((total,), (const(identity(op, x.dtype), x.dtype),))
        rows = _nest(loops[:-1], (start, *_nest(loops[-1:], step)))
        # threads share the rows
        return tuple(
            replace(each, parallel=True) if isinstance(each, For) and len(loops) > 1 else each
            for each in rows
        )
    # along rows: each is the one before, combined with its own
    first = {loops[axis]: ZERO}
    later = index("r", max(x.shape[axis] - 1, 0))
    moved = {loops[axis]: simplify(later + 1)}
    previous = simplify.substitute(position, {loops[axis]: later})
    (*start_at, start_value) = simplify.substitute([*position, value], first)
    (*now, now_value) = simplify.substitute([*position, value], moved)
    combined = Scalar(op, (load(target, previous), now_value), x.dtype)
    others = [loop for i, loop in enumerate(loops) if i != axis]
    return (
        *_nest(others, (*before, Store(target, tuple(start_at), start_value))),
        *_nest(
            [*loops[:axis], later, *loops[axis + 1 :]],
            (*before, Store(target, tuple(now), combined)),
        ),
    )


def written(
    target: Buffer,
    place: Index,
    loops: Sequence[Scalar],
    value: Scalar,
    op: str | None,
    dense: bool,
    simplify: Simplifier,
) -> tuple[Statement, ...]:
    """The statements that write a value to its place, or combine it with what is there.

    ``dense`` says that neighbours along the last loop are written to neighbours.
    """
    before, (value,) = lower_folds([value], 1, simplify)
    store = Store(target, place, value, op)
    if before or not dense:
        return _nest(loops, (*before, store))
    return _nest(loops[:-1], _vectors(loops[-1], store))


def _vectors(loop: Scalar, store: Store) -> tuple[Statement, ...]:
    """A loop whose iterations are independent, but not to be repeated."""
    extent: int = loop.attribute[2]
    lanes = VECTOR_BYTES // max(store.target.dtype.itemsize, store.value.dtype.itemsize)
    while lanes > max(extent, 1):
        lanes //= 2
    stop = const(extent, INDEX)
    return (For(loop, ZERO, stop, (store,), lanes=lanes, whole=extent % lanes == 0),)


def _nest(loops: Sequence[Scalar], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Plain loops, one after the other step."""
    if any(loop.attribute[2] == 0 for loop in loops):
        return ()
    for loop in reversed(loops):
        body = (For(loop, ZERO, const(loop.attribute[2], INDEX), body),)
    return body
