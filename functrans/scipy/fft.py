"""`scipy.fft` for arrays and for traced values.

The Fourier transforms are those of `functrans.numpy.fft`; this module adds the cosine and sine
transforms (DCT, DST), and the Hermitian transforms along several axes. ``overwrite_x`` and
``workers`` are accepted, and ignored on traced values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.numpy import fft as numpy_fft
from functrans.numpy.arrays import array, astype, axis_of, inexact
from functrans.numpy.define import refuse
from functrans.numpy.fft import (
    extents_and_axes,
    fftfreq,
    fftshift,
    ifftshift,
    norm_of,
    one_by_one,
    resized,
    rfftfreq,
)
from functrans.ops.elementwise.complex_numbers import complex_p, conj, imag, real
from functrans.ops.fft.fourier import OTHER_WAY
from functrans.ops.fft.trigonometric import scaled_at, trigonometric_p
from functrans.scipy.entries import dispatching, enter

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "fht", "fhtoffset",
    "hfft", "hfft2", "hfftn", "idct", "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn",
    "ifftshift", "ifht", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn",
    "next_fast_len", "prev_fast_len", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Transform = Callable[..., Any]


def _answering(name: str, traced: Transform, doc: str) -> Transform:
    """Dispatch to SciPy's function for plain arrays, and to ours for traced values."""
    transform = dispatching(f"scipy.fft.{name}", traced, lazy(f"scipy.fft:{name}"))
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    # SciPy's public functions are compiled dispatchers without a hook: enter their default backend
    kind = name.removeprefix("i")[:3]
    backend = {"dct": "realtransforms", "dst": "realtransforms", "fht": "fftlog"}.get(kind, "basic")
    enter(f"scipy.fft._{backend}_backend:{name}", transform)
    return transform


# -- Fourier transforms ----------------------------------------------------------------------------


def _at_least_single(x: Any) -> Any:
    """Convert half-precision numbers to float32, as SciPy does and NumPy does not."""
    x = array(x)
    return astype(x, np.float32) if x.dtype == np.float16 else x


def _one(transform: Transform) -> Transform:
    def traced(
        x: Any, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: bool = False,
        workers: Any = None, *, plan: Any = None,
    ) -> Any:  # fmt: skip
        return transform(_at_least_single(x), n, axis, norm)

    return traced


def _several(transform: Transform, default: Any = None) -> Transform:
    def traced(
        x: Any, s: Any = None, axes: Any = default, norm: Any = None, overwrite_x: bool = False,
        workers: Any = None, *, plan: Any = None,
    ) -> Any:  # fmt: skip
        s, axes = _sequence(s), _sequence(axes)
        _check_unique(axes, np.ndim(x))
        return transform(_at_least_single(x), s, axes, norm)

    return traced


def _sequence(given: Any) -> Any:
    """A number of points or an axis, which SciPy takes for a sequence of one."""
    return (given,) if isinstance(given, (int, np.integer)) else given


def _check_unique(axes: Any, ndim: int) -> None:
    """Raise if an axis is given twice. NumPy transforms along it twice, and SciPy refuses."""
    if np.ndim(axes) == 1 and len({axis_of(axis, ndim) for axis in axes}) < len(axes):
        raise ValueError("all axes must be unique")


def _hfftn(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    return numpy_fft.irfftn(conj(array(a)), s, axes, OTHER_WAY[norm_of(norm)])


def _ihfftn(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    return conj(numpy_fft.rfftn(a, s, axes, OTHER_WAY[norm_of(norm)]))


_LAST = (-2, -1)

fft = _answering("fft", _one(numpy_fft.fft), "The Fourier transform along an axis.")
ifft = _answering("ifft", _one(numpy_fft.ifft), "The inverse of `fft`.")
rfft = _answering("rfft", _one(numpy_fft.rfft), "The Fourier transform of real numbers.")
irfft = _answering("irfft", _one(numpy_fft.irfft), "The inverse of `rfft`.")
hfft = _answering("hfft", _one(numpy_fft.hfft), "`fft` of what is its own conjugate backwards.")
ihfft = _answering("ihfft", _one(numpy_fft.ihfft), "The inverse of `hfft`.")
fftn = _answering("fftn", _several(numpy_fft.fftn), "`fft` along several axes.")
ifftn = _answering("ifftn", _several(numpy_fft.ifftn), "The inverse of `fftn`.")
rfftn = _answering("rfftn", _several(numpy_fft.rfftn), "`rfft` along several axes.")
irfftn = _answering("irfftn", _several(numpy_fft.irfftn), "The inverse of `rfftn`.")
hfftn = _answering("hfftn", _several(_hfftn), "`hfft` along several axes.")
ihfftn = _answering("ihfftn", _several(_ihfftn), "The inverse of `hfftn`.")
fft2 = _answering("fft2", _several(numpy_fft.fftn, _LAST), "`fft` along two axes.")
ifft2 = _answering("ifft2", _several(numpy_fft.ifftn, _LAST), "The inverse of `fft2`.")
rfft2 = _answering("rfft2", _several(numpy_fft.rfftn, _LAST), "`rfft` along two axes.")
irfft2 = _answering("irfft2", _several(numpy_fft.irfftn, _LAST), "The inverse of `rfft2`.")
hfft2 = _answering("hfft2", _several(_hfftn, _LAST), "`hfft` along two axes.")
ihfft2 = _answering("ihfft2", _several(_ihfftn, _LAST), "The inverse of `hfft2`.")

next_fast_len = lazy("scipy.fft:next_fast_len")
prev_fast_len = lazy("scipy.fft:prev_fast_len")
fhtoffset = lazy("scipy.fft:fhtoffset")


def _refusing(name: str) -> Transform:
    def traced(*args: Any, **kwargs: Any) -> Any:
        refuse(
            f"scipy.fft.{name}",
            "write the Hankel transform as a quadrature (a product with a matrix of "
            "scipy.special.jv), or call it by functrans.callback",
        )

    return traced


fht = _answering("fht", _refusing("fht"), "The fast Hankel transform, of plain arrays only.")
ifht = _answering("ifht", _refusing("ifht"), "The inverse of `fht`, of plain arrays only.")

# -- cosine and sine transforms --------------------------------------------------------------------

_INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}


def _trigonometric(
    x: Any, kind: str, type: int, n: Any, axis: int, norm: Any, inverse: bool, orthogonalize: Any
) -> Any:
    """Apply SciPy's normalisation factors before and after an unnormalised transform."""
    x = _at_least_single(inexact(x))
    if is_complex(x.dtype):
        # SciPy ignores `orthogonalize` here, and derivatives have to agree with its values
        parts = (
            _trigonometric(part, kind, type, n, axis, norm, inverse, None)
            for part in (real(x), imag(x))
        )
        return complex_p(*parts)
    if type not in _INVERSE_TYPE:
        raise ValueError(f"the type of a transform by cosines or sines is 1, 2, 3 or 4, not {type}")
    axis = axis_of(axis, x.ndim)
    norm = norm_of(norm)
    n = x.shape[axis] if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    x = resized(x, axis, n)
    points = x.shape[axis]
    done = _INVERSE_TYPE[type] if inverse else type
    orthogonal = norm == "ortho" if orthogonalize is None else orthogonalize
    before, after = _ORTHOGONAL.get((kind, done), ((), ())) if orthogonal else ((), ())
    places = tuple(i % points for i in before)
    x = scaled_at(x, axis, places, math.sqrt(2.0))
    result = trigonometric_p(x, kind=kind, type=done, axis=axis)
    result = scaled_at(result, axis, tuple(i % points for i in after), math.sqrt(0.5))
    # the factor by which a transform followed by its unnormalised inverse multiplies
    whole = 2 * (points + (0 if type != 1 else -1 if kind == "cos" else 1))
    if norm == "ortho":
        return result * (1 / math.sqrt(whole))
    return result * (1 / whole) if (norm == "backward") == inverse else result


_ORTHOGONAL: dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]] = {
    ("cos", 1): ((0, -1), (0, -1)),
    ("cos", 2): ((), (0,)),
    ("cos", 3): ((0,), ()),
    ("sin", 2): ((), (-1,)),
    ("sin", 3): ((-1,), ()),
}
"""The elements that orthogonal transforms multiply by sqrt(2) before, and divide by it after."""


def _along_one(kind: str, inverse: bool) -> Transform:
    def traced(
        x: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None,
        overwrite_x: bool = False, workers: Any = None, orthogonalize: Any = None,
    ) -> Any:  # fmt: skip
        return _trigonometric(x, kind, type, n, axis, norm, inverse, orthogonalize)

    return traced


def _along_several(kind: str, inverse: bool) -> Transform:
    def traced(
        x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None,
        overwrite_x: bool = False, workers: Any = None, *, orthogonalize: Any = None,
    ) -> Any:  # fmt: skip
        x = array(x)
        s, axes = _sequence(s), _sequence(axes)
        _check_unique(axes, x.ndim)

        def transform(x: Any, extent: int, axis: int, norm: Any) -> Any:
            return _trigonometric(x, kind, type, extent, axis, norm, inverse, orthogonalize)

        return one_by_one(transform, x, *extents_and_axes(x, s, axes), norm)

    return traced


dct = _answering("dct", _along_one("cos", False), "The transform by cosines along an axis.")
idct = _answering("idct", _along_one("cos", True), "The inverse of `dct`.")
dst = _answering("dst", _along_one("sin", False), "The transform by sines along an axis.")
idst = _answering("idst", _along_one("sin", True), "The inverse of `dst`.")
dctn = _answering("dctn", _along_several("cos", False), "`dct` along several axes.")
idctn = _answering("idctn", _along_several("cos", True), "The inverse of `dctn`.")
dstn = _answering("dstn", _along_several("sin", False), "`dst` along several axes.")
idstn = _answering("idstn", _along_several("sin", True), "The inverse of `dstn`.")


# -- the older module ------------------------------------------------------------------------------


def _either(forward: Transform, inverse: Transform) -> Transform:
    """A transform whose direction is its first argument."""
    return lambda is_forward, *args, **kwargs: (forward if is_forward else inverse)(*args, **kwargs)


def _by_kind(kinds: dict[str, Transform]) -> Transform:
    """A transform whose kind is the name of a function among its arguments."""
    return lambda is_forward, kind, *args, **kw: kinds[kind.__name__](is_forward, *args, **kw)


# what `scipy.fftpack` calls: the default backend, which has another name from SciPy 1.18 on
for _backend in ("scipy.fft._pocketfft", "scipy.fft._duccfft"):
    enter(f"{_backend}.basic:c2c", _either(fft, ifft))
    enter(f"{_backend}.basic:c2cn", _either(fftn, ifftn))
    enter(
        f"{_backend}.realtransforms:_r2r",
        _by_kind({"dct": _either(dct, idct), "dst": _either(dst, idst)}),
    )
    enter(
        f"{_backend}.realtransforms:_r2rn",
        _by_kind({"dct": _either(dctn, idctn), "dst": _either(dstn, idstn)}),
    )
