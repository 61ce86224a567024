"""Orthogonal polynomials and spherical harmonics of `scipy.special`, for traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.types import complex_dtype
from functrans.lazily import lazy
from functrans.numpy.arrays import array, known
from functrans.numpy.define import refuse
from functrans.numpy.joining import stack
from functrans.ops.elementwise.exponential import exp
from functrans.ops.elementwise.special import orthogonal, spherical
from functrans.scipy.define import answers, double, single_or_double
from functrans.scipy.entries import enter

__all__ = [
    "assoc_legendre_p", "legendre_p", "legendre_p_all", "sph_harm_y", "sph_legendre_p",
]  # fmt: skip


def _check_integers(function: str, *orders: Any) -> None:
    """Raise for degrees and orders of another kind, as SciPy does."""
    for order in map(array, orders):
        if order.dtype.kind not in "iu":
            raise TypeError(
                f"scipy.special.{function}: degrees and orders are integers, and one has dtype "
                f"{order.dtype}: write .astype(int)"
            )


@answers("scipy.special:legendre_p")
def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """The Legendre polynomial of degree ``n`` and its first ``diff_n`` derivatives, along axis 0.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> special.legendre_p(2, 1.0)
    array([1.])
    """
    _check_integers("legendre_p", n)
    degrees = known(n)
    if degrees is not None and (degrees < 0).any():
        raise ValueError(f"scipy.special.legendre_p: a degree is not negative; got {degrees.min()}")
    dtype, z = single_or_double(z), double(z)
    values = [orthogonal.eval_legendre(n, z)]
    factor = 1.0
    for k in range(1, diff_n + 1):
        factor *= 2 * k - 1
        values.append(factor * orthogonal.eval_gegenbauer(n - k, k + 0.5, z))
    return stack(values).astype(dtype)


@answers("scipy.special:legendre_p_all")
def legendre_p_all(n: int, z: Any, *, diff_n: int = 0) -> Any:
    """`legendre_p` for the degrees 0 to ``n``, along a second axis.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> special.legendre_p_all(2, 1.0)
    array([[1., 1., 1.]])
    """
    z = array(z)
    every = stack([legendre_p(degree, z, diff_n=diff_n) for degree in range(n + 1)], axis=1)
    return every.astype(np.float32) if z.dtype == np.float32 else every


def _first_only(function: str, diff_n: int, values: list[Any]) -> Any:
    if diff_n > 1:
        refuse(f"{function}(..., diff_n={diff_n})", "differentiate by functrans.grad or jvp")
    return stack(values[: diff_n + 1])


@answers("scipy.special:assoc_legendre_p")
def assoc_legendre_p(
    n: Any, m: Any, z: Any, *, branch_cut: int = 2, norm: bool = False, diff_n: int = 0
) -> Any:
    """The associated Legendre function of degree ``n`` and order ``m`` on [-1, 1].

    With ``diff_n`` of 1, it is followed by its derivative along axis 0, as in `legendre_p`.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> special.assoc_legendre_p(2, 0, 1.0)
    array([1.])
    """
    _check_integers("assoc_legendre_p", n, m)
    if branch_cut != 2:
        refuse("scipy.special.assoc_legendre_p(..., branch_cut=3)", "it is for complex numbers")
    kind = "normed" if norm else "assoc"
    names = f"{kind}_legendre_p", f"{kind}_legendre_p_slope"
    values = [getattr(spherical, name)(n, m, double(z)) for name in names]
    found = _first_only("scipy.special.assoc_legendre_p", diff_n, values)
    return found.astype(single_or_double(z))


@answers("scipy.special:sph_legendre_p")
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """The spherical Legendre function of degree ``n`` and order ``m`` at polar angles.

    With ``diff_n`` of 1, it is followed by its derivative along axis 0, as in `legendre_p`.

    Examples
    --------
    >>> from functrans.scipy import special
    >>> special.sph_legendre_p(0, 0, 0.5).round(6)
    array([0.282095])
    """
    _check_integers("sph_legendre_p", n, m)
    theta = double(theta)
    values = [spherical.sph_legendre_p(n, m, theta), spherical.sph_legendre_p_slope(n, m, theta)]
    return _first_only("scipy.special.sph_legendre_p", diff_n, values)


@answers("scipy.special:sph_harm_y")
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """The spherical harmonic of degree ``n`` and order ``m`` at polar angles and azimuths.

    Examples
    --------
    >>> from functrans import jit
    >>> from functrans.scipy import special
    >>> jit(lambda theta: special.sph_harm_y(1, 0, theta, 0.3))(0.0).round(6)
    np.complex128(0.488603+0j)
    """
    _check_integers("sph_harm_y", n, m)
    if diff_n:
        refuse(f"scipy.special.sph_harm_y(..., diff_n={diff_n})", "differentiate by functrans.jvp")
    found = spherical.sph_legendre_p(n, m, double(theta)) * exp(1j * (m * double(phi)))
    return found.astype(complex_dtype(single_or_double(theta, phi)))


# -- dispatch of SciPy's MultiUFunc objects --------------------------------------------------------


_scipy = lazy("scipy:special")


def _enter_orders(*ours: Callable[..., Any]) -> None:
    """Within a trace, dispatch each of these objects to our function of the same name."""
    by_name = {function.__name__: function for function in ours}

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = _scipy.resolve()
        for name, function in by_name.items():
            if getattr(module, name) is self:
                return function(*args, **kwargs)
        refuse("a function of all degrees of scipy.special's", "stack the degrees that you need")

    enter("scipy.special:legendre_p.__call__", call)


_enter_orders(assoc_legendre_p, legendre_p, legendre_p_all, sph_harm_y, sph_legendre_p)
