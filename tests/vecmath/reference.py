"""Exact values from mpmath, the points to compare at, and errors in units of the last place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from mpmath import mpf

from functrans import vecmath
from functrans.loop.scalar import Scalar, evaluate

Array = np.ndarray[Any, np.dtype[Any]]
Range = tuple[float, float]

DTYPES = (np.float64, np.float32)


class Case(NamedTuple):
    """A function, its exact value, and where it is compared."""

    name: str
    exact: Callable[..., mpf]
    ranges: tuple[Range, ...]
    """Evenly distributed points are drawn between each two of these (of each operand)."""
    domain: Callable[..., Any]
    """Which random bit patterns are compared."""
    bound: float = 1.0
    """The largest error, in units of the last place."""
    arity: int = 1
    absolute: bool = False
    """Errors are in units of the last place of 1 where the value (or an operand) is smaller."""
    params: Mapping[str, Any] = MappingProxyType({})
    """What the function is given besides its operands: a member of a family."""
    bits: bool = True
    """Whether random bit patterns are compared, too."""


def _always(*operands: Array) -> Any:
    return np.isfinite(operands[0])


def _below(limit: float) -> Callable[[Array], Any]:
    return lambda x: np.abs(x) < limit


def _power_of(base: float) -> Callable[[mpf], mpf]:
    return lambda x: mp.power(base, x)


def _or_argument(function: Callable[[mpf], mpf]) -> Callable[[mpf], mpf]:
    """For functions that are their argument near zero, where mpmath would need many digits."""
    return lambda x: x if abs(x) < mpf(2) ** -200 else function(x)


def _erf(x: mpf) -> mpf:
    return mp.erf(x) if abs(x) > mpf(2) ** -100 else 2 * x / mp.sqrt(mp.pi)


def _cbrt(x: mpf) -> mpf:
    return mp.sign(x) * mp.cbrt(abs(x))


def _log_ndtr(x: mpf) -> mpf:
    if x > 0:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    if x > -1000:
        return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)
    return -x * x / 2 - mp.log(-x * mp.sqrt(2 * mp.pi)) + mp.log1p(-1 / x**2)


def _normal_hazard(x: mpf) -> mpf:
    if x > -1000:
        return mp.npdf(x) / (mp.erfc(-x / mp.sqrt(2)) / 2)
    return -x / (1 - 1 / x**2 + 3 / x**4)


def _lgamma(x: mpf) -> mpf:
    if x > 0:
        return mp.loggamma(x)
    return mp.log(mp.pi / abs(x * mp.sin(mp.pi * x))) - mp.loggamma(-x)


def _power(x: mpf, y: mpf) -> mpf:
    magnitude = mp.exp(y * mp.log(abs(x)))
    return -magnitude if x < 0 and int(y) % 2 else magnitude


CASES = (
    Case("exp", mp.exp, ((-1, 1), (-100, 85), (-745, 705)), _below(2000)),
    Case("exp2", _power_of(2), ((-1, 1), (-140, 120), (-1070, 1020)), _below(2000), bound=1.5),
    Case(
        "expm1", _or_argument(mp.expm1), ((-1, 1), (-60, 5), (-40, 80)), _below(2000), bound=1.5
    ),
    Case("sigmoid", lambda x: 1 / (1 + mp.exp(-x)), ((-5, 5), (-80, 40)), _below(2000), bound=2),
    Case("log", mp.log, ((0.5, 2), (0.9, 1.1), (0, 1e4)), lambda x: x > 0),
    Case(
        "log2", lambda x: mp.log(x) / mp.log(2), ((0.5, 2), (0.9, 1.1)), lambda x: x > 0,
        bound=1.5,
    ),
    Case("log10", mp.log10, ((0.5, 2), (0.9, 1.1), (0, 1e4)), lambda x: x > 0, bound=1.5),
    Case("log1p", _or_argument(mp.log1p), ((-0.99, 2), (-1e-3, 1e-3)), lambda x: x > -1, bound=1.5),
    Case("sin", mp.sin, ((-3.2, 3.2), (-3e4, 3e4), (-1e9, 1e9)), _always, bound=2),
    Case("cos", mp.cos, ((-3.2, 3.2), (-3e4, 3e4), (-1e9, 1e9)), _always, bound=2),
    Case("tan", mp.tan, ((-3.2, 3.2), (-3e4, 3e4), (-1e9, 1e9)), _always, bound=2),
    Case("asin", mp.asin, ((-1, 1), (0.99, 1)), lambda x: np.abs(x) <= 1, bound=2),
    Case("acos", mp.acos, ((-1, 1), (0.99, 1)), lambda x: np.abs(x) <= 1, bound=1.5),
    Case("atan", mp.atan, ((-3, 3), (-100, 100)), _always, bound=2),
    Case("sinh", _or_argument(mp.sinh), ((-1.1, 1.1), (-85, 85)), _below(2000), bound=2),
    Case("cosh", mp.cosh, ((-1.1, 1.1), (-85, 85)), _below(2000), bound=2),
    Case("tanh", _or_argument(mp.tanh), ((-1, 1), (-25, 25)), _below(2000), bound=2),
    Case("sech_squared", lambda x: mp.sech(x) ** 2, ((-1, 1), (-25, 25)), _below(40), bound=3),
    Case("asinh", _or_argument(mp.asinh), ((-1, 1), (-20, 20), (0, 1e10)), _always, bound=1.5),
    Case("acosh", mp.acosh, ((1, 1.2), (1, 20), (1, 1e10)), lambda x: x >= 1, bound=2),
    Case("atanh", _or_argument(mp.atanh), ((-1, 1), (-0.1, 0.1)), _below(1), bound=2),
    Case("cbrt", _cbrt, ((-1, 1), (-100, 100)), _always),
    Case("erf", _erf, ((-1.1, 1.1), (-6, 6)), _below(100), bound=1.5),
    Case("erfc", mp.erfc, ((-1, 1), (-6, 10), (0.5, 28)), _below(100), bound=2.5),
    Case(
        "normal_hazard", _normal_hazard, ((-1, 1), (-6, 8), (-50, 12)), lambda x: x < 12, bound=4
    ),
    Case(
        "ndtr", lambda x: mp.ncdf(min(x, 99)), ((-1, 1), (-6, 8), (-37, 0)), lambda x: x > -1e3,
        bound=2.5,
    ),
    Case("log_ndtr", _log_ndtr, ((-1, 1), (-6, 8), (-50, 13)), lambda x: x < 30, bound=2),
    Case(
        "logit", lambda x: mp.log(x / (1 - x)), ((0.01, 0.99), (0.49, 0.51)),
        lambda x: (x > 0) & (x < 1),
    ),
    Case("softplus", lambda x: mp.log1p(mp.exp(x)), ((-5, 5), (-80, 40)), _below(700), bound=2),
    Case(
        "lgamma", _lgamma, ((0.01, 3), (0.9, 1.1), (1.9, 2.1), (1, 1e3)), lambda x: x > 0,
        bound=2.5,
    ),
    Case("digamma", mp.digamma, ((0.01, 3), (1.4, 1.5), (1, 1e3)), lambda x: x > 1e-30, bound=2.5),
    Case("lgamma", _lgamma, ((-30.5, -0.1),), _below(0), bound=8, absolute=True),
    Case("digamma", mp.digamma, ((-30.5, -0.1),), _below(0), bound=8, absolute=True),
    Case("atan2", mp.atan2, ((-1, 1), (-30, 30)), _always, bound=2, arity=2),
    Case(
        "atan2_derivative", lambda y, x: x / (x * x + y * y), ((-1, 1), (-30, 30)),
        lambda y, x: np.isfinite(y) & ((x != 0) | (y != 0)), bound=2.5, arity=2, params={"n": 0},
    ),
    Case(
        "atan2_derivative", lambda y, x: -y / (x * x + y * y), ((-1, 1), (-30, 30)),
        lambda y, x: np.isfinite(y) & ((x != 0) | (y != 0)), bound=2.5, arity=2, params={"n": 1},
    ),
    Case("hypot", lambda x, y: mp.sqrt(x * x + y * y), ((-1, 1), (-30, 30)), _always, arity=2),
    Case(
        "power", _power, ((0.01, 10),),
        lambda x, y: np.isfinite(x) & (x != 0) & np.isfinite(y) & ((x > 0) | (np.trunc(y) == y)),
        bound=1.5, arity=2,
    ),
    Case(
        "logaddexp", lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), ((-3, 3), (-50, 50)),
        lambda x, y: (np.abs(x) < 500) & (np.abs(y) < 500), bound=2, arity=2, absolute=True,
    ),
    Case(
        "logaddexp2", lambda x, y: mp.log(mp.power(2, x) + mp.power(2, y)) / mp.log(2),
        ((-3, 3), (-50, 50)), lambda x, y: (np.abs(x) < 500) & (np.abs(y) < 500),
        bound=2, arity=2, absolute=True,
    ),
    Case(
        "xlogy", lambda x, y: x * mp.log(y), ((0.1, 30),),
        lambda x, y: (y > 0) & np.isfinite(x), bound=2, arity=2,
    ),
)  # fmt: skip


def expression(
    name: str, dtype: Any, arity: int = 1, **params: Any
) -> tuple[Scalar, tuple[Scalar, ...]]:
    """The function applied to new leaves, and those."""
    leaves = tuple(Scalar("argument", (), np.dtype(dtype), k) for k in range(arity))
    return getattr(vecmath, name)(*leaves, **params), leaves


def apply(name: str, *operands: Array, **params: Any) -> Array:
    """The function, evaluated by NumPy."""
    result, leaves = expression(name, operands[0].dtype, len(operands), **params)
    return np.asarray(evaluate(result, dict(zip(leaves, operands, strict=True))))


def random_bits(rng: np.random.Generator, dtype: Any, count: int) -> Array:
    """Numbers of all exponents; NaN and infinity too."""
    size = np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(count * size), dtype)


def points(case: Case, dtype: Any, count: int, seed: int = 0) -> list[Array]:
    """Operands: `count` from each range (half of them on a grid), and random bit patterns."""
    rng = np.random.default_rng(seed)
    limit = 700.0 if dtype == np.float64 else 85.0
    drawn: list[list[Array]] = [[] for _ in range(case.arity)]
    for low, high in case.ranges:
        if dtype == np.float32 and min(low, -high) < -limit and case.name.startswith("exp"):
            continue
        grid = np.linspace(low, high, count // 2)
        for k, operand in enumerate(drawn):
            grid = grid if k == 0 else rng.permutation(grid)
            operand.append(np.concatenate([grid, rng.uniform(low, high, count // 2)]).astype(dtype))
    operands = [np.concatenate(operand) for operand in drawn]
    bits = [random_bits(rng, dtype, count if case.bits else 0) for _ in operands]
    if case.name == "power":
        bits[1] = rng.integers(-30, 30, count).astype(dtype)
    with np.errstate(all="ignore"):
        keep = np.asarray(case.domain(*bits)) & np.isfinite(bits[-1])
        inside = np.asarray(case.domain(*operands)) | (case.absolute & (case.arity == 1))
    return [np.concatenate([x[inside], b[keep]]) for x, b in zip(operands, bits, strict=True)]


def errors(case: Case, operands: Sequence[Array], got: Array) -> Array:
    """The errors in units of the last place of the exact values."""
    info = np.finfo(got.dtype)
    result = np.empty(got.size)
    for k, value in enumerate(got.tolist()):
        arguments = [mpf(float(x[k])) for x in operands]
        exact = case.exact(*arguments)
        scale = max(abs(exact), mpf(1), *map(abs, arguments)) if case.absolute else abs(exact)
        if abs(exact) > mpf(float(info.max)) * (1 + mpf(float(info.eps)) / 4):
            result[k] = 0 if value == mp.sign(exact) * mp.inf else np.inf
        elif not np.isfinite(value):
            result[k] = np.inf
        else:
            exponent = max(mp.frexp(scale)[1] - 1, info.minexp)
            result[k] = abs(mpf(value) - exact) / mp.ldexp(1, exponent - info.nmant)
    return result
