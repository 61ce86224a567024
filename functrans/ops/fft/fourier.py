"""Discrete Fourier transforms along one axis: complex, real to complex, and complex to real.

With ``w = exp(-2i pi / n)``, `fft_p` multiplies by the matrix of ``w ** (j k)``, or by its
conjugate if it is ``inverse``; these are symmetric, so each is its own transpose. `rfft_p` gives
the first ``n // 2 + 1`` results of real numbers, of which the others are the conjugates; `irfft_p`
makes ``n`` real numbers of them. ``norm`` says which direction is divided by ``n``, as in
`numpy.fft`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.primitive import LINEAR, Primitive
from functrans.ir.types import Aval, complex_dtype, is_complex, real_dtype
from functrans.lazily import lazy
from functrans.ops.arrays.promotion import DtypeKey, promote, result_type
from functrans.ops.arrays.shape import with_extent
from functrans.ops.arrays.structural import batch_along, iota, reshape
from functrans.ops.define import primitive
from functrans.ops.dependence import along
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.complex_numbers import as_complex, conj
from functrans.ops.samples import cases, complexes
from functrans.trace.source import here

OTHER_WAY = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm of the inverse transform that has the same factor as the transform."""

# -- common to all transforms ----------------------------------------------------------------------


def check_points(count: int) -> None:
    """Raise if a transform has no points."""
    if count < 1:
        raise ShapeError(f"a Fourier transform has one point at the least, not {count}{here()}")


def in_floats(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """Real operands cast to float32 or float64, for which there are transforms."""
    dtype = result_type(keys)
    if is_complex(dtype):
        raise DtypeError(
            f"this transform is of real numbers, and the array is {dtype}{here()}: "
            "take x.real, or fft instead of rfft"
        )
    return (real_dtype(complex_dtype(dtype)),) * len(keys)


def _promoted_complex(x: Any, **params: Any) -> Any:
    return promote(as_complex, (x,)), params


# -- complex to complex ----------------------------------------------------------------------------


def _infer_fft(x: Aval, *, axis: int, inverse: bool, norm: str) -> Aval:
    check_points(x.shape[axis])
    return x.update()


def _sample(axis: int, inverse: bool, norm: str = "backward", **more: Any) -> dict[str, Any]:
    return {"axis": axis, "inverse": inverse, "norm": norm, **more}


fft_p: Primitive = primitive(
    "fft",
    infer=_infer_fft,
    numpy=lambda x, *, inverse, **params: (np.fft.ifft if inverse else np.fft.fft)(x, **params),
    linear=LINEAR,
    sparsity=lambda x, **params: along(x, x.aval, params["axis"]),
    transpose=[lambda ct, x, **params: fft_p(ct, **params)],
    batch=lambda *args, **params: batch_along(fft_p)(*args, **params),
    parts=lazy("functrans.ops.fft.compiled.parts:fft"),
    prepare=_promoted_complex,
    samples=cases(
        ((complexes(0.5, 2), (4,)), _sample(0, False)),
        ((complexes(0.5, 2), (5,)), _sample(0, True)),
        ((complexes(0.5, 2), (3, 2)), _sample(0, False, "ortho")),
        ((complexes(0.5, 2), (2, 3)), _sample(1, True, "forward")),
        ((complexes(0.5, 2), (1,)), _sample(0, False)),
        ((complexes(0.5, 2), (0, 2)), _sample(1, False)),
        ((complexes(0.5, 2), (2, 17)), _sample(1, False, "forward")),
    ),
)

# -- real to complex, and back ---------------------------------------------------------------------


def half(points: int) -> int:
    """The number of independent results for real input; the others are conjugates."""
    return points // 2 + 1


def scale_of(points: int, inverse: bool, norm: str) -> float:
    """The factor of the sums of a transform."""
    if norm == "ortho":
        return float(1 / np.sqrt(points))
    return 1 / points if inverse == (norm == "backward") else 1.0


def _stand_for_one(x: Any, axis: int, points: int, others: float) -> Any:
    """The results of a real transform; those with a distinct conjugate are scaled by ``others``."""
    n = x.shape[axis]
    k = iota(size=n, dtype=np.dtype(np.int64))
    alone = equal(k, 0)
    if points % 2 == 0:
        alone = np.logical_or(alone, equal(k, points // 2))
    # Python numbers are weak: the dtype is that of x
    weights = select(alone, 1.0, others)
    shape = tuple(n if i == axis else 1 for i in range(x.ndim))
    return x * reshape(weights, shape=shape).astype(real_dtype(x.dtype))


def _infer_rfft(x: Aval, *, axis: int, norm: str) -> Aval:
    check_points(x.shape[axis])
    shape = with_extent(x.shape, axis, half(x.shape[axis]))
    return x.update(shape=shape, dtype=complex_dtype(x.dtype))


def _transpose_rfft(ct: Any, x: Aval, *, axis: int, norm: str) -> Any:
    points = x.shape[axis]
    weighted = conj(_stand_for_one(ct, axis, points, 0.5))
    return irfft_p(weighted, axis=axis, points=points, norm=OTHER_WAY[norm])


rfft_p: Primitive = primitive(
    "rfft",
    infer=_infer_rfft,
    numpy=lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    linear=LINEAR,
    sparsity=lambda x, **params: along(x, _infer_rfft(x.aval, **params), params["axis"]),
    transpose=[_transpose_rfft],
    batch=lambda *args, **params: batch_along(rfft_p)(*args, **params),
    parts=lazy("functrans.ops.fft.compiled.parts:rfft"),
    prepare=lambda x, **params: (promote(in_floats, (x,)), params),
    samples=cases(
        ((4,), {"axis": 0, "norm": "backward"}), ((5,), {"axis": 0, "norm": "backward"}),
        ((3, 2), {"axis": 0, "norm": "ortho"}), ((2, 6), {"axis": 1, "norm": "forward"}),
        ((1,), {"axis": 0, "norm": "backward"}), ((2,), {"axis": 0, "norm": "backward"}),
        ((0, 3), {"axis": 1, "norm": "ortho"}), ((2, 17), {"axis": 1, "norm": "forward"}),
    ),
)  # fmt: skip


def _infer_irfft(x: Aval, *, axis: int, points: int, norm: str) -> Aval:
    check_points(points)
    if x.shape[axis] != half(points):
        raise ShapeError(
            f"a transform to {points} real numbers takes {half(points)} complex ones, not "
            f"{x.shape[axis]}"
        )
    shape = with_extent(x.shape, axis, points)
    return x.update(shape=shape, dtype=real_dtype(x.dtype))


def _transpose_irfft(ct: Any, x: Aval, *, axis: int, points: int, norm: str) -> Any:
    result = rfft_p(ct, axis=axis, norm=OTHER_WAY[norm])
    return conj(_stand_for_one(result, axis, points, 2.0))


irfft_p: Primitive = primitive(
    "irfft",
    infer=_infer_irfft,
    numpy=lambda x, *, axis, points, norm: np.fft.irfft(x, points, axis=axis, norm=norm),
    linear=LINEAR,
    sparsity=lambda x, **params: along(x, _infer_irfft(x.aval, **params), params["axis"]),
    transpose=[_transpose_irfft],
    batch=lambda *args, **params: batch_along(irfft_p)(*args, **params),
    parts=lazy("functrans.ops.fft.compiled.parts:irfft"),
    prepare=_promoted_complex,
    samples=cases(
        ((complexes(0.5, 2), (3,)), {"axis": 0, "points": 4, "norm": "backward"}),
        ((complexes(0.5, 2), (3,)), {"axis": 0, "points": 5, "norm": "backward"}),
        ((complexes(0.5, 2), (2, 2)), {"axis": 0, "points": 3, "norm": "ortho"}),
        ((complexes(0.5, 2), (2, 4)), {"axis": 1, "points": 6, "norm": "forward"}),
        ((complexes(0.5, 2), (1,)), {"axis": 0, "points": 1, "norm": "backward"}),
        ((complexes(0.5, 2), (2,)), {"axis": 0, "points": 2, "norm": "backward"}),
        ((complexes(0.5, 2), (0, 2)), {"axis": 1, "points": 2, "norm": "ortho"}),
        ((complexes(0.5, 2), (2, 9)), {"axis": 1, "points": 17, "norm": "forward"}),
    ),
)
