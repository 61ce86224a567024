"""Complex numbers: real and imaginary parts, construction from these, the conjugate.

The tangent of a complex number is complex, and derivatives are linear over the real numbers. A
cotangent ``ct`` stands for the function ``real(ct * tangent)`` of tangents, without a conjugate. So
the transpose of a multiplication by a complex number is the same multiplication, that of `real`
converts a real cotangent to complex, and that of `imag` multiplies it by -1j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.primitive import LINEAR, Primitive, not_differentiable
from functrans.ir.types import Aval, complex_dtype, is_complex, real_dtype
from functrans.ops.arrays.promotion import DtypeKey, promote, result_type, ufunc_promotion
from functrans.ops.arrays.structural import cast, zeros
from functrans.ops.define import on_parts, primitive
from functrans.ops.elementwise.arithmetic import positive
from functrans.ops.elementwise.pointwise import elementwise, zero_of
from functrans.ops.samples import cases, complexes, reals
from functrans.trace import protocols

# -- promotion -------------------------------------------------------------------------------------


def as_complex(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """All operands in the complex dtype that holds their common one."""
    return (complex_dtype(result_type(keys)),) * len(keys)


def _as_parts(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """The real dtype of the parts of a complex number made from the operands."""
    dtype = result_type(keys)
    if is_complex(dtype):
        raise DtypeError(f"a complex number is made of two real numbers, not of {dtype}")
    single = dtype in (np.dtype(np.float16), np.dtype(np.float32))
    return (np.dtype(np.float32 if single else np.float64),) * len(keys)


# -- parts of numbers, and back --------------------------------------------------------------------


def _real(x: Any) -> Any:
    # a copy, since the real and imaginary parts are views
    return np.real(x).copy()[()]


def _complex(x: Any, y: Any) -> Any:
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), complex_dtype(x.dtype))
    out.real, out.imag = x, y
    return out[()]


real_p: Primitive = elementwise(
    "real", numpy=_real,
    linear=LINEAR, transpose=[lambda ct, x: cast(ct, dtype=x.dtype)],
    parts=on_parts("complex_arithmetic:real"),
    promotion=as_complex, result="real", samples=complexes(0.5, 2),
)  # fmt: skip

imag_p: Primitive = elementwise(
    "imag", numpy=lambda x: np.imag(x).copy()[()],
    linear=LINEAR, transpose=[lambda ct, x: complex_p(zero_of(ct), -ct)],
    parts=on_parts("complex_arithmetic:imag"),
    promotion=as_complex, result="real", samples=complexes(0.5, 2),
)  # fmt: skip

complex_p: Primitive = elementwise(
    "complex", numpy=_complex,
    linear=((0, 1),), transpose=[lambda ct, x, y: real_p(ct), lambda ct, x, y: -imag_p(ct)],
    parts=on_parts("complex_arithmetic:complex_"),
    promotion=_as_parts, result="complex", samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip
"""``x + 1j * y`` without arithmetic, in which infinities would become NaN."""

conj_p: Primitive = elementwise(
    "conj", numpy=lambda x: np.conjugate(x),
    linear=LINEAR, transpose=[lambda ct, x: conj_p(ct)],
    parts=on_parts("complex_arithmetic:conj"),
    promotion=as_complex, samples=complexes(0.5, 2),
)  # fmt: skip


def real(x: Any) -> Any:
    """The real part; a real operand itself."""
    return real_p(x) if is_complex(x.dtype) else x


def imag(x: Any) -> Any:
    """The imaginary part; zeros for a real operand."""
    return imag_p(x) if is_complex(x.dtype) else zeros(x.shape, x.dtype)


def conj(x: Any) -> Any:
    """The complex conjugate; a real operand itself."""
    return conj_p(x) if is_complex(x.dtype) else x


# -- in memory -------------------------------------------------------------------------------------


def interleaved(x: Any) -> Any:
    """Complex numbers as pairs of real ones."""
    return np.asarray(x, order="C")[..., None].view(real_dtype(x.dtype))


def joined(x: Any) -> Any:
    """Pairs of real numbers as complex ones."""
    return np.asarray(x, order="C").view(complex_dtype(x.dtype))[..., 0]


def _infer_join(x: Aval) -> Aval:
    if x.dtype.kind != "f" or x.shape[-1:] != (2,):
        raise DtypeError(f"complex numbers are made of pairs of floats, not of {x}")
    return x.update(shape=x.shape[:-1], dtype=complex_dtype(x.dtype))


_by_compiler = not_differentiable("the compiler makes it, when all derivatives are made")

interleave_p = primitive(
    "complex_to_pairs",
    infer=lambda x: x.update(shape=(*x.shape, 2), dtype=real_dtype(x.dtype)),
    numpy=interleaved, jvp=_by_compiler,
    samples=cases(((complexes(0.5, 2), (2, 3)), {}), ((complexes(0.5, 2), ()), {})),
)  # fmt: skip
"""A view of complex numbers as real ones, with the two parts along a new last axis."""

join_p = primitive(
    "pairs_to_complex",
    infer=_infer_join,
    numpy=joined, jvp=_by_compiler,
    samples=cases(((2, 3, 2), {}), ((2,), {})),
)  # fmt: skip
"""A view of real numbers as complex ones; the last axis, of extent 2, holds the two parts."""

# -- as a ufunc ------------------------------------------------------------------------------------


def conjugate(x: Any) -> Any:
    """The complex conjugate; a copy of a real operand."""
    (x,) = promote(ufunc_promotion(lambda: np.conjugate), (x,))
    return conj_p(x) if is_complex(x.dtype) else positive(x)


protocols.ufuncs["conjugate"] = conjugate
