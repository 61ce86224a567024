"""Discrete cosine and sine transforms of real numbers, of types 1 to 4.

The definitions are those of `scipy.fft`, without normalisation. Each is a product with a matrix;
those of type 4, and the sine transform of type 1, are symmetric. The transpose of type 2 is type 3,
and vice versa, except for a factor of one element.
"""

from __future__ import annotations

from typing import Any

from functrans.ir.primitive import LINEAR, Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.arrays.promotion import promote
from functrans.ops.arrays.shape import read_along
from functrans.ops.arrays.slicing import update_slice
from functrans.ops.arrays.structural import batch_along
from functrans.ops.compiled.places import whole
from functrans.ops.define import primitive
from functrans.ops.dependence import along
from functrans.ops.fft.fourier import check_points, in_floats
from functrans.ops.samples import cases
from functrans.records import NamedTuple

_TRANSFORMS = {"cos": lazy("scipy.fft:dct"), "sin": lazy("scipy.fft:dst")}


def scaled_at(x: Any, axis: int, positions: tuple[int, ...], factor: float) -> Any:
    """``x`` with its elements at some positions along an axis multiplied by a number."""
    for position in positions:
        part = read_along(x, axis, position, 1)
        index = [whole(n) for n in x.shape]
        index[axis] = (position, 1, 1)
        x = update_slice(x, part * factor, index=tuple(index))
    return x


class _Transpose(NamedTuple):
    """A transpose, as a transform with some elements scaled before and after it."""

    type: int
    before: tuple[tuple[int, ...], float] = ((), 1.0)
    after: tuple[tuple[int, ...], float] = ((), 1.0)


_TRANSPOSES = {
    ("cos", 1): _Transpose(1, before=((0, -1), 2.0), after=((0, -1), 0.5)),
    ("cos", 2): _Transpose(3, before=((0,), 2.0)),
    ("cos", 3): _Transpose(2, after=((0,), 0.5)),
    ("cos", 4): _Transpose(4),
    ("sin", 1): _Transpose(1),
    ("sin", 2): _Transpose(3, before=((-1,), 2.0)),
    ("sin", 3): _Transpose(2, after=((-1,), 0.5)),
    ("sin", 4): _Transpose(4),
}


def _infer(x: Aval, *, kind: str, type: int, axis: int) -> Aval:
    check_points(x.shape[axis] - (kind == "cos" and type == 1))
    return x.update()


def _transposed(ct: Any, x: Aval, *, kind: str, type: int, axis: int) -> Any:
    other = _TRANSPOSES[kind, type]
    n = x.shape[axis]
    before, after = (
        (tuple(i % n for i in positions), factor)
        for positions, factor in (other.before, other.after)
    )
    transformed = trigonometric_p(
        scaled_at(ct, axis, *before), kind=kind, type=other.type, axis=axis
    )
    return scaled_at(transformed, axis, *after)


trigonometric_p: Primitive = primitive(
    "trigonometric_transform",
    infer=_infer,
    numpy=lambda x, *, kind, type, axis: _TRANSFORMS[kind](x, type=type, axis=axis),
    linear=LINEAR,
    sparsity=lambda x, *, axis, **params: along(x, x.aval, axis),
    transpose=[_transposed],
    batch=lambda *args, **params: batch_along(trigonometric_p)(*args, **params),
    prepare=lambda x, **params: (promote(in_floats, (x,)), params),
    samples=cases(
        *(
            (shape, {"kind": kind, "type": type, "axis": axis})
            for kind in ("cos", "sin")
            for type in (1, 2, 3, 4)
            for shape, axis in (((4,), 0), ((2, 5), 1), ((2, 3), 0))
        )
    ),
)
