"""The functions of `scipy.special` under its names, for arrays and for traced values.

SciPy's ufuncs accept traced values themselves; this module has proxies under their names, so that
SciPy need not be imported for traced values. SciPy's Python functions do not: some have
implementations here, others run from SciPy's source. Plain arrays are passed on to SciPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.numpy import special as _special
from functrans.numpy.arrays import array, inexact, known
from functrans.numpy.define import refuse
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.choice import masked, select
from functrans.ops.elementwise.compare import equal, greater, greater_equal, less_equal
from functrans.ops.elementwise.logic import isnan
from functrans.ops.elementwise.power import power
from functrans.ops.elementwise.rounding import floor
from functrans.ops.elementwise.special import bessel as _bessel
from functrans.ops.elementwise.special import gamma as _gamma
from functrans.ops.elementwise.special import integrals, spherical
from functrans.ops.elementwise.trigonometric import sin
from functrans.scipy.define import answers, double, since_1_18
from functrans.scipy.entries import namespace
from functrans.scipy.inside import refuse_options, refused
from functrans.scipy.polynomials import (
    assoc_legendre_p,
    legendre_p,
    legendre_p_all,
    sph_harm_y,
    sph_legendre_p,
)
from functrans.scipy.ufuncs import UFUNCS, StandIn

__all__ = [
    "assoc_legendre_p", "comb", "diric", "factorial", "factorial2", "ivp", "jvp", "kvp",
    "lambertw", "legendre_p", "legendre_p_all", "log_softmax", "logsumexp", "multigammaln", "perm",
    "polygamma", "riccati_jn", "riccati_yn", "softmax", "sph_harm_y", "sph_legendre_p",
    "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "yvp", "zeta",
]  # fmt: skip

_of_scipys, __dir__ = namespace("special", __all__)

_NO_ALL = "it has no traced form: stack the degrees and orders that you need"
_NO_COEFFICIENTS = "its coefficients have no traced form: compute with mathieu_cem or mathieu_sem"
_NO_ELLIPSOID = "it has no traced form, and no derivative: compute it outside of the trace"
_NO_SECOND_KIND = "it has no traced form: write the function from atanh and its recurrence"

_INSTEAD = {
    "assoc_legendre_p_all": f"{_NO_ALL} of assoc_legendre_p",
    **dict.fromkeys(("ellip_harm", "ellip_harm_2", "ellip_normal"), _NO_ELLIPSOID),
    "factorialk": "write the product, or k**(n / k) * gamma(n / k + 1) for multiples n of k",
    "lmbda": "write gamma(v + 1) * (2 / x)**v * jv(v, x) for each order v",
    **dict.fromkeys(("lqmn", "lqn"), _NO_SECOND_KIND),
    **dict.fromkeys(("mathieu_even_coef", "mathieu_odd_coef"), _NO_COEFFICIENTS),
    "obl_cv_seq": "stack obl_cv(m, n, c) of the modes n",
    "pbdn_seq": "stack pbdv(v, z) of the orders v",
    "pbdv_seq": "stack pbdv(v, x) of the orders v",
    "pbvv_seq": "stack pbvv(v, x) of the orders v",
    "pro_cv_seq": "stack pro_cv(m, n, c) of the modes n",
    "sph_harm_y_all": f"{_NO_ALL} of sph_harm_y",
    "sph_legendre_p_all": f"{_NO_ALL} of sph_legendre_p",
    "stirling2": "it counts, and has no derivative: compute it outside of the trace",
}
"""What to write instead of functions without a traced form, by their names."""

logsumexp = answers("scipy.special:logsumexp")(_special.logsumexp)
softmax = answers("scipy.special:softmax")(_special.softmax)
log_softmax = answers("scipy.special:log_softmax")(_special.log_softmax)


def __getattr__(name: str) -> Any:
    if name in UFUNCS:
        return globals().setdefault(UFUNCS[name], StandIn(UFUNCS[name]))
    if name in _INSTEAD:
        return refused(f"scipy.special:{name}", _INSTEAD[name])
    return _of_scipys(name)


def _beside(n: Any, x: Any) -> Any:
    """``x`` in the dtype that it has beside an order of which SciPy makes an array."""
    x = array(x)
    return astype(x, np.result_type(array(n).dtype, x.dtype, np.float32))


# -- gamma, zeta and combinatorial functions -------------------------------------------------------


@answers("scipy.special:polygamma")
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of `digamma`.

    Parameters
    ----------
    n : int or array of int
        Orders, which broadcast with ``x``.
    x : array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import special
    >>> grad(lambda x: special.polygamma(0, x))(np.array(1.0)).round(12)
    np.float64(1.644934066848)
    """
    x = _beside(n, x)
    if isinstance(n, (int, np.integer)) and n >= 0:
        return _gamma.digamma(x) if n == 0 else _gamma.polygamma(x, n=int(n))
    order = inexact(n)
    sign = 1 - 2 * (order + 1 - 2 * floor((order + 1) / 2))
    # the zeta function has a pole for order 0
    raised = select(equal(order, 0), 2, order + 1)
    of_order = sign * _gamma.gamma(order + 1) * _gamma.zeta(raised, x)
    is_order = equal(order, floor(order)) & greater_equal(order, 0)
    return select(equal(order, 0), _gamma.digamma(x), select(is_order, of_order, math.nan))


@answers("scipy.special:zeta")
def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    """The Riemann zeta function, or the Hurwitz zeta function if an offset ``q`` is given.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.zeta(2.0))
    1.644934066848
    """
    refuse_options("scipy.special.zeta", [("out", out, "leave the keyword out")])
    return _gamma.riemann_zeta(x) if q is None else _gamma.zeta(x, q)


@answers("scipy.special:multigammaln")
def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension ``d``.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.multigammaln(2.0, 1))
    0.0
    """
    a = double(a)
    if known(np.any(a <= 0.5 * (d - 1))):
        raise ValueError(f"condition a > 0.5 * (d-1) ({0.5 * (d - 1):f}) not met")
    total = d * (d - 1) * 0.25 * math.log(math.pi)
    for j in range(d):
        total = total + _gamma.gammaln(a - 0.5 * j)
    return total


@answers("scipy.special:comb")
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Binomial coefficients "N over k"; 0 if ``k > N`` or an operand is negative.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.comb(5, 2))
    10.0
    """
    if exact:
        refuse("scipy.special.comb(..., exact=True)", "leave the keyword out")
    N, k = inexact(N), inexact(k)
    if repetition:
        none = equal(k, 0) & greater_equal(N, 0)
        return select(none, 1.0, _gamma.binom(select(none, 1, N + k - 1), k))
    proper = less_equal(k, N) & greater_equal(N, 0) & greater_equal(k, 0)
    return masked(proper, _gamma.binom(select(proper, N, 1), select(proper, k, 1)))


@answers("scipy.special:perm")
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """The number of permutations of ``k`` of ``N`` things.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.perm(5, 2))
    20.0
    """
    if exact:
        refuse("scipy.special.perm(..., exact=True)", "leave the keyword out")
    N, k = inexact(N), inexact(k)
    proper = less_equal(k, N) & greater_equal(N, 0) & greater_equal(k, 0)
    return masked(proper, _gamma.poch(select(proper, N - k + 1, 1), select(proper, k, 1)))


@answers("scipy.special:factorial")
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """The factorial ``gamma(n + 1)``; 0 for negative ``n``.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.factorial(3.0))
    6.0
    """
    if exact or extend != "zero":
        refuse("scipy.special.factorial with exact=True or extend=", "write gamma(n + 1)")
    n = double(n)
    if n.dtype.kind == "c":
        raise ValueError(
            f"scipy.special.factorial: n is real, and has dtype {n.dtype}: write gamma(n + 1)"
        )
    inside = greater_equal(n, 0) | isnan(n)
    return masked(inside, _gamma.gamma(select(inside, n, 0) + 1))


@answers("scipy.special:factorial2")
def factorial2(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """The double factorial ``n (n - 2) (n - 4) ...``: 1 for 0 and -1, 0 for smaller numbers.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.factorial2(7, exact=False))
    105.0
    """
    if exact or extend != "zero":
        refuse("scipy.special.factorial2 with exact=True or extend=", "leave the keyword out")
    n = array(n)
    if n.dtype.kind not in "iu":
        raise ValueError(
            f"scipy.special.factorial2: n is an integer, and has dtype {n.dtype}: write "
            ".astype(int)"
        )
    n = double(n)
    odd = n - 2 * floor(0.5 * n)
    inside = greater_equal(n, -1)
    half = 0.5 * select(inside, n, 0)
    front = power(2.0, half) * select(equal(odd, 0), 1.0, math.sqrt(2 / math.pi))
    return masked(inside, front * _gamma.gamma(half + 1))


# -- Bessel functions ------------------------------------------------------------------------------


def _nth_derivative(name: str, function: Any, sign: int, factor: int = 1) -> Any:
    """The n-th derivative of ``f_v``, where ``factor f_v' = (f_(v-1) + sign f_(v+1)) / 2``."""

    def derivative(v: Any, z: Any, n: int = 1) -> Any:
        total: Any = 0.0
        if n != int(n) or n < 0:
            raise ValueError(f"n must be a non-negative integer, and it is {n}")
        z = _beside(v, z) if n else z
        for k in range(n + 1):
            total = total + sign**k * math.comb(n, k) * function(v - n + 2 * k, z)
        return factor**n * total / 2**n

    derivative.__doc__ = f"""The n-th derivative of the Bessel function ``{name[:-1]}`` in ``z``.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> special.{name}(0, 1.0, 0) == special.{name[:-1]}(0, 1.0)
    np.True_
    """
    return answers(f"scipy.special:{name}")(derivative)


jvp = _nth_derivative("jvp", _bessel.jv, -1)
yvp = _nth_derivative("yvp", _bessel.yv, -1)
ivp = _nth_derivative("ivp", _bessel.iv, 1)
kvp = _nth_derivative("kvp", _bessel.kv, 1, factor=-1)


def _spherical(name: str, kind: str, keeps_float32: bool = False) -> Any:
    from_order = getattr(spherical, name)

    def function(n: Any, z: Any, derivative: bool = False) -> Any:
        given = array(z)
        z = double(given)
        result = spherical.slopes[name](n, z) if derivative else from_order(n, z)
        is_narrow = given.dtype == np.float32 or (given.dtype == np.float16 and since_1_18())
        return astype(result, np.dtype(np.float32)) if keeps_float32 and is_narrow else result

    function.__doc__ = f"""The spherical Bessel function of the {kind} kind, or its derivative.

    Parameters
    ----------
    n : int or array of int
        The order.
    z : array
    derivative : bool
        Whether to give the derivative in ``z``.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> special.{name}(0, 1.0) == special.{name}(0, 1.0, derivative=False)
    np.True_
    """
    return answers(f"scipy.special:{name}")(function)


spherical_jn = _spherical("spherical_jn", "first")
spherical_yn = _spherical("spherical_yn", "second")
spherical_in = _spherical("spherical_in", "first (modified)")
# SciPy computes the others of float32 in float64
spherical_kn = _spherical("spherical_kn", "second (modified)", keeps_float32=True)


def _riccati(name: str, spherical_name: str) -> Any:
    def function(n: int, x: Any) -> Any:
        if n != int(n) or n < 0:
            raise ValueError(f"scipy.special.{name}: n is an integer of at least 0, not {n}")
        orders = np.arange(n + 1)
        value = getattr(spherical, spherical_name)(orders, x)
        return x * value, value + x * spherical.slopes[spherical_name](orders, x)

    function.__doc__ = f"""``x * {spherical_name}(k, x)`` for orders ``k`` up to ``n``, and slopes.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> [len(result) for result in special.{name}(2, 1.0)]
    [3, 3]
    """
    return answers(f"scipy.special:{name}")(function)


riccati_jn = _riccati("riccati_jn", "spherical_jn")
riccati_yn = _riccati("riccati_yn", "spherical_yn")

# -- others ----------------------------------------------------------------------------------------


@answers("scipy.special:lambertw")
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """The Lambert W function, with ``w e**w == z``, on its real branches 0 and -1.

    For traced real numbers the result is real, and NaN where SciPy's result is complex.

    Examples
    --------
    >>> import math
    >>> from functrans.scipy import special
    >>> float(special.lambertw(math.e).real)
    1.0
    """
    return integrals.lambertw(z, k, tol)


@answers("scipy.special:diric")
def diric(x: Any, n: Any) -> Any:
    """The periodic sinc (Dirichlet) function, ``sin(n x / 2) / (n sin(x / 2))``.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> float(special.diric(0.0, 3))
    1.0
    """
    n = array(n)
    x = inexact(x) + 0 * n  # in the common dtype
    # reduce to the nearest multiple of 2 pi; if n is even, the sign changes at odd multiples
    turns = floor(x / (2 * math.pi) + 0.5)
    rest = 0.5 * (x - 2 * math.pi * turns)
    sign = 1 - 2 * ((turns * (n - 1)) - 2 * floor(0.5 * turns * (n - 1)))
    is_count = greater(n, 0) & equal(n, floor(n))
    return select(is_count, sign * _dirichlet(rest, n), math.nan)


def _dirichlet(half: Any, n: Any) -> Any:
    square = half * half
    near = 1 - square * (n * n - 1) / 6 * (1 - square * (3 * n * n - 7) / 60)
    tiny = greater(1e-5, square * n * n)
    far = sin(n * half) / (n * sin(select(tiny, 1.0, half)))
    return select(tiny, near, far)
