"""Selection: where, maximum, minimum, clip, the absolute value, the sign.

docs/derivatives-at-the-edges.md defines the derivatives at ties: equal operands of a maximum or
minimum share the derivative equally, and abs and sign have derivative 0 at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import is_bfloat16, is_complex
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops import dependence
from functrans.ops.arrays.masked import Masked
from functrans.ops.arrays.promotion import DtypeKey, common, strong_dtype, ufunc_promotion
from functrans.ops.define import on_parts
from functrans.ops.dependence import Dependent, Pattern, only, repeated, union
from functrans.ops.elementwise.compare import equal, greater, greater_equal
from functrans.ops.elementwise.complex_numbers import (
    as_complex,
    complex_p,
    conj,
    conj_p,
    imag_p,
    real,
)
from functrans.ops.elementwise.logic import isnan
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import booleans, complexes, reals
from functrans.trace import protocols


def _choice_promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    return (np.dtype(np.bool_), *common(keys[1:]))


def where_of_numbers(mask: Any, x: Any, y: Any) -> Any:
    """`numpy.where`, but 0-d results are scalars, as those of ufuncs are."""
    chosen: Any = np.where(mask, x, y)
    return chosen[()]


def _sparsity(mask: Dependent, x: Dependent, y: Dependent) -> Pattern | None:
    """The sparsity pattern: for a known mask, that of the selected operand."""
    if mask.value is None:
        return dependence.elementwise(mask, x, y)
    shape = np.broadcast_shapes(*(operand.aval.shape for operand in (mask, x, y)))
    taken = np.broadcast_to(mask.value, shape)
    return union([only(repeated(x, shape), taken), only(repeated(y, shape), ~taken)])


select = elementwise(
    "select", numpy=where_of_numbers, scalar=scalar.where,
    linear=((1, 2),), sparsity=_sparsity, promotion=_choice_promotion, stores=True,
    transpose=[
        None,
        lambda ct, mask, x, y: Masked(mask, ct, masked),
        lambda ct, mask, x, y: Masked(~mask, ct, masked, mask),
    ],
    samples=[booleans(), reals(-3, 3), reals(-3, 3)],
)  # fmt: skip


def masked(mask: Any, x: Any) -> Any:
    """``x`` where the mask is true, and exactly 0 elsewhere, even if ``x`` is NaN there."""
    return select(mask, x, x.dtype.type(0))


def or_one(x: Any) -> Any:
    """``x`` with 1 in place of 0: a divisor for a dividend that is 0 there too."""
    return select(equal(x, 0), 1, x)


def nan_if(undefined: Any, x: Any) -> Any:
    """``x``, or NaN: the divisor or factor by which derivatives are NaN where a result is."""
    return select(undefined, x.dtype.type(np.nan), x)


def share(stays: Any, ties: Any, tangent: Any) -> Any:
    """A tangent where its operand is selected, half of it at ties, and 0 elsewhere."""
    return masked(stays, select(ties, tangent * 0.5, tangent))


def unexceeded(x: Any, by: Any) -> Any:
    """Whether a number is not exceeded by another: true if one is NaN, which has influence."""
    return ~greater(by, x)


def _extreme(
    numpy: np.ufunc, on_scalars: Callable[[Scalar, Scalar], Scalar], stays: Callable[..., Any]
) -> Primitive:
    """A choice of one of two operands; equal ones have half of the derivative each."""
    return elementwise(
        numpy.__name__,
        numpy=numpy,
        scalar=on_scalars,
        jvp=[
            lambda x, y, out, dx: share(stays(x, y), equal(x, y), dx),
            lambda x, y, out, dy: share(stays(y, x), equal(x, y), dy),
        ],
        parts=on_parts(f"complex_arithmetic:{numpy.__name__}"),
        samples=[reals(-3, 3), reals(-3, 3)],
    )


maximum = _extreme(np.maximum, scalar.maximum, unexceeded)
minimum = _extreme(np.minimum, scalar.minimum, lambda x, y: unexceeded(y, x))


def _clip(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Clip; a value equal to a bound is kept, such as -0.0 between 0.0 and 1.0."""
    raised = scalar.where(x < low, low, scalar.where(scalar.ne(low, low), low, x))
    above = (raised > high) | scalar.ne(high, high)
    return scalar.where(scalar.ne(x, x), x, scalar.where(above, high, raised))


def _clip_slope_of_x(x: Any, low: Any, high: Any, out: Any, dx: Any) -> Any:
    raised = maximum(x, low)
    kept = share(unexceeded(x, low), equal(x, low), dx)
    return share(unexceeded(high, raised), equal(raised, high), kept)


def _clip_slope_of_low(x: Any, low: Any, high: Any, out: Any, dlow: Any) -> Any:
    raised = maximum(x, low)
    kept = share(unexceeded(low, x), equal(x, low), dlow)
    return share(unexceeded(high, raised), equal(raised, high), kept)


def _clip_slope_of_high(x: Any, low: Any, high: Any, out: Any, dhigh: Any) -> Any:
    raised = maximum(x, low)
    return share(unexceeded(raised, high), equal(raised, high), dhigh)


def _clip_promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """NumPy's promotion: it clips bfloat16 as float32."""
    single = np.dtype(np.float32)
    of_numpy = [key if isinstance(key, type) or not is_bfloat16(key) else single for key in keys]
    return common(tuple(of_numpy))


clip = elementwise(
    "clip", numpy=np.clip, scalar=_clip, promotion=_clip_promotion,
    # ties are shared as by minimum(maximum(x, low), high)
    jvp=[_clip_slope_of_x, _clip_slope_of_low, _clip_slope_of_high],
    parts=on_parts("complex_arithmetic:clip"),
    samples=[reals(-3, 3), reals(-2, -1), reals(1, 2)],
)  # fmt: skip


def _first_unless_nan(choose: Callable[[Scalar, Scalar], Scalar]) -> Callable[..., Scalar]:
    def choice(x: Scalar, y: Scalar) -> Scalar:
        only_y = scalar.where(scalar.ne(x, x), y, choose(x, y))
        return scalar.where(scalar.ne(y, y), x, only_y)

    return choice


fmax = _extreme(
    np.fmax, _first_unless_nan(scalar.maximum), lambda x, y: greater_equal(x, y) | isnan(y)
)
fmin = _extreme(
    np.fmin, _first_unless_nan(scalar.minimum), lambda x, y: greater_equal(y, x) | isnan(y)
)


def _sign(x: Scalar) -> Scalar:
    """The sign: NaN for NaN, and 0.0 for -0.0."""
    one = scalar.const(1, x.dtype)
    of_rest = scalar.where(scalar.eq(x, 0), 0, x)
    return scalar.where(x > 0, one, scalar.where(x < 0, -one, of_rest))


def _real_numbers(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    dtypes = _as_sign(keys)
    if is_complex(dtypes[0]):
        raise DtypeError("the sign of a complex number is the primitive `direction`")
    return dtypes


_as_sign = ufunc_promotion(lambda: np.sign)

sign_p = elementwise(
    "sign", numpy=np.sign, scalar=_sign,
    jvp=ZERO_DERIVATIVE,
    promotion=_real_numbers, samples=reals(0.5, 3),
)  # fmt: skip


def _jvp_direction(z: Any, out: Any, dz: Any) -> Any:
    """The tangent of ``z / abs(z)``: the part of ``dz`` orthogonal to ``z``; 0 at 0."""
    turn = imag_p(conj_p(out) * dz) / or_one(absolute(z))
    return complex_p(0.0 * turn, turn) * out


direction: Primitive = elementwise(
    "direction", numpy=lambda z: np.sign(z),
    jvp=_jvp_direction,
    parts=on_parts("complex_arithmetic:direction"),
    promotion=as_complex, samples=complexes(0.5, 2),
)  # fmt: skip
"""``z / abs(z)``, and 0 at 0: what NumPy calls the sign of a complex number."""


def sign(x: Any) -> Any:
    """-1, 0 or 1; of a complex number its direction."""
    return direction(x) if is_complex(strong_dtype(x)) else sign_p(x)


protocols.ufuncs["sign"] = sign


absolute: Primitive = elementwise(
    "absolute", numpy=np.absolute, scalar=abs,
    jvp=lambda x, out, dx: real(conj(sign(x)) * dx),
    parts=on_parts("complex_arithmetic:absolute"),
    result="real", samples=reals(-3, -0.5),
)  # fmt: skip

fabs = elementwise(
    "fabs", numpy=np.fabs, scalar=abs,
    jvp=lambda x, out, dx: dx * sign(x),
    samples=reals(-3, -0.5),
)  # fmt: skip
