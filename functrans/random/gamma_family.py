"""The gamma distribution by Marsaglia and Tsang's method, with implicit derivatives.

References
----------
G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000).
M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients" (2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.custom import custom_jvp
from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.lax.loops import while_loop
from functrans.ops.elementwise.special.gamma import digamma
from functrans.random.checks import distribution, parameter
from functrans.random.continuous import exponentials
from functrans.random.keys import new_keys
from functrans.random.reals import standard_normal, unit

__all__ = ["gamma", "loggamma"]

Dtype = np.dtype[Any]

# -- one sample ------------------------------------------------------------------------------------


def _squeezed(key: Any, a: Any) -> Any:
    """A gamma variable of shape ``a``, at least 1, divided by ``a - 1/3``: the cube of a normal."""
    dtype = a.dtype
    d = a - dtype.type(1 / 3)
    c = dtype.type(1 / 3) / np.sqrt(d)
    one = d * 0 + 1

    def next_normal(state: Any) -> Any:
        key, now = new_keys(state[0], 2)
        x = standard_normal(now, (), dtype)
        return key, x, 1 + x * c

    def proposal(state: Any) -> Any:
        key, for_normal, for_uniform = new_keys(state[0], 3)
        start = for_normal, one * 0, -one
        _, x, v = while_loop(lambda state: state[2] <= 0, next_normal, start)
        return key, x * x, v * v * v, unit(for_uniform, (), dtype)

    def refused(state: Any) -> Any:
        _, square, v, u = state
        beyond = u >= 1 - dtype.type(0.0331) * (square * square)
        return beyond & (np.log(u) >= square * 0.5 + d * ((1 - v) + np.log(v)))

    # a rejected proposal to start with
    start = key, one * 0, one, one * 2
    return while_loop(refused, proposal, start)[2]


def _parts(key: Any, a: Any) -> tuple[Any, Any]:
    """A gamma variable of shape ``a + 1`` or ``a``, and the logarithm of its factor.

    For a shape below 1, a variable of ``a + 1`` is multiplied by a uniform one to the power 1/a.
    """
    small = a < 1
    first, second = new_keys(key, 2)
    larger = np.where(small, a + 1, a)
    value = (larger - a.dtype.type(1 / 3)) * _squeezed(first, larger)
    return value, np.where(small, -exponentials(second, (), a.dtype) / a, 0)


def _draw(key: Any, a: Any) -> tuple[Any, Any]:
    """`_parts` for each element, each with a key of its own."""
    if a.size == 0:
        return a, a
    keys = new_keys(key, a.size)
    value, factor = vmap(_parts)(keys, a.reshape(-1))
    return stop_gradient(value.reshape(a.shape)), stop_gradient(factor.reshape(a.shape))


# -- its derivative --------------------------------------------------------------------------------

TERMS = 24
NODES = 32
DECAY = {4: 20.0, 8: 40.0}
"""For each itemsize, how far the integrand is followed: down to ``e**-40`` of its start."""


@custom_jvp
def moved(log_x: Any, a: Any) -> Any:
    """The logarithm of a gamma variable, with its derivative by ``a`` at a fixed quantile.

    If the shape changes, the variable moves so that the distribution function has the same value.
    """
    return log_x


@moved.defjvp
def _moved(primals: Any, tangents: Any) -> tuple[Any, Any]:
    out = moved(*primals)
    return out, log_gamma_slope(primals[1], out) * tangents[1]


def log_gamma_slope(a: Any, log_x: Any) -> Any:
    """``d log(x) / da`` for a gamma variable ``x`` of shape ``a``, at a fixed quantile.

    It is ``-(dP(a, x) / da) / (x p(x))`` for the distribution function ``P`` and density ``p``. As
    an integral over ``(0, x)``, and over ``(x, oo)``, it is, with ``t = x e**-v`` and ``x e**v``::

        int (digamma(a) - log(x) + v) e**(x (1 - e**-v) - a v) dv
        int (log(x) - digamma(a) + v) e**(a v - x (e**v - 1)) dv

    The integral whose integrand is never negative is used, so that nothing cancels. For ``x < 1``,
    the result is the series ``sum x**(n-1) (digamma(a + n) - log(x)) / (a (a+1) ... (a+n-1))``, n
    from 1.
    """
    near_zero = log_x < 0
    return np.where(
        near_zero,
        _series(a, np.where(near_zero, log_x, -1)),
        _integral(a, np.where(near_zero, 0, log_x)),
    )


def _series(a: Any, log_x: Any) -> Any:
    x = np.exp(log_x)
    level = digamma(a + 1) - log_x
    terms, levels = [], []
    for n in range(1, TERMS + 1):
        levels.append(level)
        terms.append(a + n)
        level = level + 1 / (a + n)
    total = levels.pop()
    for level, divisor in zip(reversed(levels), reversed(terms[:-1]), strict=True):
        total = level + x / divisor * total
    return total / a


def _integral(a: Any, log_x: Any) -> Any:
    x = np.exp(log_x)
    above = log_x - digamma(a)
    sign = np.where(stop_gradient(above) > 0, 1, -1).astype(a.dtype)
    end = _end(stop_gradient(a), stop_gradient(x), sign)
    total: Any = 0
    for node, weight in _gauss_legendre():
        v = sign * (node * end)
        decay = np.exp(a * v - x * np.expm1(v))
        total = total + weight * ((sign * (above + v)) * decay)
    return total * end


def _end(a: Any, x: Any, sign: Any) -> Any:
    """Where the integrand has decayed: ``x (e**v - 1) - a v`` is `DECAY`, or a little more."""
    depth = a.dtype.type(DECAY[a.dtype.itemsize])
    slope = sign * (x - a)
    parabola = 2 * depth / (slope + np.sqrt(slope * slope + 2 * depth * x))
    upper = np.log1p((depth + a * parabola) / x)
    upper = np.minimum(parabola, np.log1p((depth + a * upper) / x))
    # the parabola is too steep for the other side: Newton's steps come to the root from above
    lower = parabola
    for _ in range(3):
        power = np.expm1(-lower)
        lower = lower - (a * lower + x * power - depth) / (a - x - x * power)
    return np.where(sign > 0, upper, lower)


def _gauss_legendre() -> list[tuple[float, float]]:
    """Nodes and weights of Gauss-Legendre quadrature on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return [(float(x + 1) / 2, float(w) / 2) for x, w in zip(nodes, weights, strict=True)]


# -- gamma -----------------------------------------------------------------------------------------


def log_gammas(key: Any, a: Any) -> Any:
    """The logarithm of a gamma variable for each element, with derivatives."""
    value, factor = _draw(key, a)
    return moved(np.log(value) + factor, a)


def gammas(key: Any, a: Any) -> Any:
    """A gamma variable for each element, with derivatives."""
    value, factor = _draw(key, a)
    x = value * np.exp(factor)
    tiny = np.finfo(a.dtype).tiny
    # the derivative comes from the logarithm; the ratio is 1
    log_x = np.log(np.where(x > tiny, x, tiny))
    return x * np.exp(moved(log_x, a) - log_x)


@distribution()
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Floats of the density ``x**(a - 1) exp(-x) / Gamma(a)``.

    Parameters
    ----------
    a : float array
        Positive. Samples have derivatives of any order with respect to it: those of the quantile
        function at the sample's own probability.

    Returns
    -------
    array of ``shape`` and ``dtype``
        For a small ``a``, most of them underflow to 0: `loggamma` gives their logarithms.

    Examples
    --------
    >>> from functrans import grad, random
    >>> random.gamma(random.key(0), 2.0).round(6)
    np.float64(1.352031)
    >>> grad(lambda a: random.gamma(random.key(0), a))(2.0).round(6)
    np.float64(0.886262)
    """
    return gammas(key, parameter(a, dtype, shape))


@distribution()
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """The logarithms of `gamma`'s floats, which do not underflow.

    Parameters
    ----------
    a : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.loggamma(random.key(0), 1e-3).round(6)
    np.float64(-1113.025846)
    """
    return log_gammas(key, parameter(a, dtype, shape))
