"""Correction of results in which infinities or NaN are multiplied by zero padding.

The fast forms multiply the zero padding of ``x`` like its elements. This matters only where ``y``
is infinite or NaN, since the result is then NaN. Such results are computed again, element by
element, without the padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert, eq, ne
from functrans.loop.statements import Buffer, If, Reduce, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest
from functrans.ops.convolution.convolution import terms
from functrans.ops.convolution.windows import sees_margins


def emit(at: Emission) -> None:
    """Statements that follow a convolution."""
    params = at.eqn.params
    x, y, out = at.operand(0), at.operand(1), at.result()
    axes = [params["x_labels"].index(label) for label, _ in params["windows"]]
    extents = [x.extents[axis] for axis in axes]
    if not sees_margins([window for _, window in params["windows"]], extents):
        return
    again = _recomputed(at, x, y, out)
    if y.count < out.count:
        # a check of the few weights tells that there is nothing to do
        again = _unless_finite(y, again)
    at.call(again)


def _recomputed(at: Emission, x: Buffer, y: Buffer, out: Buffer) -> Body:
    """Loops over the results, of which the NaN ones are computed again."""
    loops = tuple(index("i", extent) for extent in out.extents)
    avals = [operand.aval for operand in at.eqn.inputs]
    sizes, term = terms(lambda n, i: load((x, y)[n], i), loops, *avals, **at.eqn.params)
    inner = tuple(index("k", size) for size in sizes)
    value, found = at.simplify(term(*inner)), load(out, loops)
    total = local(value.dtype, "total")
    again = Reduce((total,), ("add",), (value,), _bounds(inner, sizes))
    stored = Store(out, loops, convert(total, out.dtype))
    return nest(loops, (If(ne(found, found), (again, stored)),))


def _unless_finite(y: Buffer, body: Body) -> Body:
    loops = tuple(index("i", extent) for extent in y.extents)
    bounds = _bounds(loops, y.extents)
    zeros = local(y.dtype, "zeros")
    element = load(y, loops)
    return (Reduce((zeros,), ("add",), (element - element,), bounds), If(eq(zeros, 0), (), body))


def _bounds(
    loops: Sequence[Scalar], extents: Sequence[int]
) -> tuple[tuple[Scalar, Scalar, Scalar], ...]:
    return tuple((k, ZERO, const(n, INDEX)) for k, n in zip(loops, extents, strict=True))
