"""Squares, roots and powers.

If the exponent is a Python number, its value is known while tracing: powers with small integral
exponents are recorded as products, which are cheap and have correct derivatives at base 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans import vecmath
from functrans.errors import DtypeError
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import is_bfloat16, is_complex, is_float, is_inexact
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.ops.arrays.promotion import (
    DtypeKey,
    cast,
    dtype_key,
    floating,
    promote,
    strong_dtype,
    ufunc_promotion,
)
from functrans.ops.define import on_parts, primitive
from functrans.ops.elementwise.arithmetic import positive
from functrans.ops.elementwise.choice import or_one, select
from functrans.ops.elementwise.compare import equal, greater_equal
from functrans.ops.elementwise.exponential import log
from functrans.ops.elementwise.pointwise import analytic, elementwise
from functrans.ops.samples import cases, integers, reals
from functrans.trace import protocols
from functrans.trace.tracer import Tracer

square = elementwise(
    "square", numpy=np.square, scalar=lambda x: x * x,
    jvp=lambda x, out, dx: 2 * x * dx,
    parts=on_parts("complex_arithmetic:square"),
    samples=reals(-3, 3),
)  # fmt: skip

sqrt = analytic(
    np.sqrt, scalar.sqrt, lambda x, out, dx: dx * (0.5 / out), reals(0.1, 10), steep=True
)


def _half_power(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return np.asarray(x)[()] ** 0.5
    return np.where(np.isneginf(x), np.inf, np.sqrt(x) + 0.0).astype(x.dtype)


def _of_reals(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    dtypes = floating(keys)
    if is_complex(dtypes[0]):
        raise DtypeError(f"half_power is not defined for {dtypes[0]}")
    return dtypes


half_power = elementwise(
    "half_power", numpy=_half_power,
    scalar=lambda x: scalar.where(scalar.eq(x, -np.inf), np.inf, scalar.sqrt(x) + 0.0),
    jvp=lambda x, out, dx: dx * (0.5 / out),
    promotion=_of_reals, steep=True, samples=reals(0.1, 10),
)  # fmt: skip
"""``x**0.5`` as by C's pow and NumPy's scalars: 0 for -0, infinity for -infinity."""

cbrt = elementwise(
    "cbrt", numpy=np.cbrt, scalar=vecmath.cbrt,
    jvp=lambda x, out, dx: dx / (3 * out * out),
    steep=True, samples=reals(0.1, 10),
)  # fmt: skip

hypot = elementwise(
    "hypot", numpy=np.hypot, scalar=vecmath.hypot,
    jvp=[
        lambda x, y, out, dx: dx * (x / or_one(out)),
        lambda x, y, out, dy: dy * (y / or_one(out)),
    ],
    samples=[reals(0.5, 3), reals(-3, -0.5)],
)  # fmt: skip

# -- exponents that are known ----------------------------------------------------------------------


def product_of_equals(x: Any, n: int) -> Any:
    """``x**n`` by multiplications only, for arrays and for Scalars."""
    if n == 1:
        return x
    half = product_of_equals(x, n // 2)
    return half * half * x if n % 2 else half * half


def _integer_power(one: Any, x: Any, n: int) -> Any:
    if n == 0:
        return one
    return product_of_equals(x, n) if n > 0 else one / product_of_equals(x, -n)


def _integer_power_jvp(primals: Any, tangents: Any, outs: Any, *, n: int) -> Any:
    """``n x**(n - 1) dx``; where ``x**(n - 1)`` may overflow alone, in factors that do not."""
    if n > 0:
        return tangents[0] * (n * power_of_float(primals[0], n - 1))
    return (tangents[0] * (1 / primals[0])) * (n * outs[0]) if n else None


integer_power: Primitive = primitive(
    "integer_power",
    infer=lambda x, *, n: x.update(),
    numpy=lambda x, *, n: _integer_power(np.ones_like(x)[()], x, n),
    jvp=_integer_power_jvp,
    parts=on_parts("complex_arithmetic:integer_power"),
    batch=lambda operands, axes, *, n: (integer_power(operands[0], n=n), axes[0]),
    scalar=lambda x, *, n: _integer_power(scalar.const(1, x.dtype), x, n),
    elementwise=True,
    steep=True,
    samples=cases(
        ((3,), {"n": 3}), ((2, 2), {"n": 0}), ((), {"n": 1}), ((reals(0.5, 3), (3,)), {"n": -2}),
        ((0, 2), {"n": 5}),
    ),
)  # fmt: skip


def power_of_float(x: Any, n: int) -> Any:
    """``x**n`` for floats and an exponent that is known while tracing."""
    if n == 1:
        return x
    if x.dtype == np.float16 and n not in (-1, 0, 2):
        # as in NumPy: products of float16 may be out of range where their quotient is not
        return cast(power_of_float(cast(x, np.dtype(np.float32)), n), x.dtype)
    return square(x) if n == 2 else integer_power(x, n=n)


# -- exponents that are not ------------------------------------------------------------------------


def power_less_one(x: Any, y: Any) -> Any:
    """``x**(y - 1)``, but 1 for ``0**-1``, since the factor ``y`` is 0 there."""
    return power(x, select(equal(x, 0) & equal(y, 0), 0, y - 1))


def log_of_base(x: Any, y: Any) -> Any:
    """``log(x)``, but 0 at ``x == 0`` where ``x**y`` stays 0 (or 1) as ``y`` grows."""
    return log(select(equal(x, 0) & greater_equal(y, 0), 1, x))


_as_power = ufunc_promotion(lambda: np.power)


def _of_power(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """A common float dtype; as in NumPy, a float with a bfloat16 number is float32."""
    narrow = any(not isinstance(key, type) and is_bfloat16(key) for key in keys)
    return _as_power(keys) if narrow else floating(keys)


def _power(x: Any, y: Any) -> Any:
    """C's pow, also for the scalar exponent 0.5, for which NumPy's ufunc takes a square root."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.power(x, y)
    return np.asarray(x)[()] ** np.asarray(y)[()]


power: Primitive = elementwise(
    "power", numpy=_power, scalar=vecmath.power,
    jvp=[
        lambda x, y, out, dx: dx * (y * power_less_one(x, y)),
        lambda x, y, out, dy: dy * (out * log_of_base(x, y)),
    ],
    parts=on_parts("complex_functions:power"),
    steep=True, promotion=_of_power, samples=[reals(0.5, 3), reals(-3, 3)],
)  # fmt: skip

power_of_integers = elementwise(
    "power_of_integers", numpy=lambda x, y: np.power(x, y),
    scalar=lazy("functrans.ops.elementwise.compiled.integers:power"),
    jvp=ZERO_DERIVATIVE,
    promotion=_as_power, samples=[integers(-3, 4), integers(0, 5)],
)  # fmt: skip

LONGEST_PRODUCT = 32
"""The largest exponent for repeated multiplication, whose errors accumulate."""


def raise_to(x: Any, y: Any) -> Any:
    """``x ** y``, as by NumPy's operator and ufunc."""
    if isinstance(x, Tracer) and is_inexact(x.dtype) and type(y) in (int, float):
        if type(y) is float and is_bfloat16(x.dtype):
            x, _ = promote(_of_power, (x, y))
        if y == 0.5:
            return sqrt(x)
        if abs(y) <= LONGEST_PRODUCT and y == int(y):
            return positive(x) if y == 1 else power_of_float(x, int(y))  # never x itself
    if is_inexact(strong_dtype(x)) or is_inexact(strong_dtype(y)):
        return power(x, y)
    if isinstance(x, Tracer) and x.dtype.kind in "iu" and type(y) is int:
        if 0 < y <= LONGEST_PRODUCT:
            return product_of_equals(x * 1, y)
    if type(y) is int and y < 0 and np.size(x):
        raise ValueError("Integers to negative integer powers are not allowed.")
    result, *_ = _as_power((dtype_key(x), dtype_key(y)))  # signed with uint64: float64
    return power(x, y) if is_inexact(result) else power_of_integers(x, y)


protocols.ufuncs["power"] = raise_to


def _operator(x: Any, y: Any) -> Any:
    """``x ** y``; as in NumPy, the square of a boolean array is int8."""
    if type(y) is int and y == 2 and np.ndim(x) and strong_dtype(x) == np.bool_:
        return square(x)
    if isinstance(x, Tracer) and isinstance(y, (float, np.floating)) and y == 0.5:
        # NumPy takes square roots of arrays, but C's powers of scalars
        if is_float(x.dtype) and not is_bfloat16(x.dtype):
            base, exponent = promote(_of_power, (x, y))
            if not x.ndim:
                return half_power(base)
            # except that NumPy's float16 loop uses C's power
            exact = type(y) is float or base.dtype != np.float16
            return sqrt(base) if exact else power(base, exponent)
    return raise_to(x, y)


protocols.operators["pow"] = _operator


def float_power(x: Any, y: Any) -> Any:
    """``x ** y`` in float64."""
    return power(*promote(ufunc_promotion(lambda: np.float_power), (x, y)))


protocols.ufuncs["float_power"] = float_power
