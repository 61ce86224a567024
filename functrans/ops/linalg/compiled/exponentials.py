"""Exponentials of matrices by scaling and squaring, in the IR's own operations.

``exp(A) = exp(A / 2**s)**(2**s)``, where the exponential of the scaled matrix is its Padé
approximant of degree 13, exact to rounding (Higham, "The scaling and squaring method for the matrix
exponential revisited", 2005). The number ``s`` of halvings is chosen by the norms of the matrix's
powers (Al-Mohy and Higham, "A new scaling and squaring algorithm for the matrix exponential",
2009): the norm of the matrix itself may be large because of elements that do not matter, and each
squaring doubles the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.types import Aval
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import broadcast_to, expand_axes, reduce_sum, zeros, zeros_like
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.inlining import inline
from functrans.ops.compiled.places import Index, whole
from functrans.ops.control.while_loop import While
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.floats import binary_exponent
from functrans.ops.linalg.factorisations import solve_p
from functrans.ops.linalg.matrices import (
    Matrices,
    above,
    beside,
    columns_of,
    identity,
    product,
    rows_of,
)
from functrans.ops.reductions.reduce import reduce_max, reduce_or
from functrans.trace.stage import rewrite

NUMERATOR = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""The coefficients of the approximant's numerator; the denominator has the same, with other
signs."""

LARGEST = 4.25
"""The norm, or its estimate by powers, up to which the approximant is exact to rounding."""

TERMS = 27
"""The power of the first term of the approximant's error."""

FIRST_TERM = 113250775606021113483283660800000000.0
"""The reciprocal of this term's coefficient."""

FIRST_LARGE = (FIRST_TERM * 2.0**-53) ** (1 / (TERMS - 1))
"""The least norm for which this term can matter, if no summands of the power cancel."""


WRITTEN_OUT = 4
"""The most rows of matrices whose exponentials are straight-line code: that of more rows takes
seconds to compile."""


def expm(at: Emission) -> None:
    """Exponentials of real matrices."""
    rules: dict[int, Callable[[Any], Any]] = {1: np.exp, 2: _of_two_rows}
    rule = rules.get(at.eqn.inputs[0].aval.shape[-1], _exponential(at.target))
    inline(at, lambda a: [rule(a)])


def frechet(at: Emission) -> None:
    """Fréchet derivatives of exponentials, as blocks of exponentials of block matrices."""
    inline(at, lambda a, e: [_derivative(a, e, _exponential(at.target))])


def _of_two_rows(a: Any) -> Any:
    """The exponential of 2 x 2 matrices by their eigenvalues, without cancellation.

    ``exp(A) = exp(mean) (cosh(root) I + sinh(root) / root (A - mean I))``, where ``mean`` is that
    of the diagonal, and ``root``, half the difference of the eigenvalues, may be imaginary (Moler
    and Van Loan, "Nineteen dubious ways to compute the exponential of a matrix", 2003, section 4).
    Real eigenvalues are computed as the diagonal's elements, moved apart by one shift.
    """
    (p, q), (r, s) = ([read_slice(a, index=_element(a, i, j)) for j in (0, 1)] for i in (0, 1))
    mean, half = (p + s) / 2, (p - s) / 2
    square = half * half + q * r
    is_real = square >= 0
    root = np.sqrt(np.abs(square))
    divisor = select(root == 0, 1, root)
    distance = root + np.abs(half)
    shift = q * r / select(distance == 0, 1, distance)
    larger, smaller = np.exp(np.maximum(p, s) + shift), np.exp(np.minimum(p, s) - shift)
    slope = larger * select(root == 0, 1, -np.expm1(-2 * root) / (2 * divisor))
    ends = larger - _times(shift, slope), smaller + _times(shift, slope)
    is_first = half >= 0
    first, second = select(is_first, *ends), select(is_first, *ends[::-1])
    middle = np.exp(mean) * np.cos(root)
    turn = np.exp(mean) * select(root == 0, 1, np.sin(root) / divisor)
    first = select(is_real, first, middle + half * turn)
    second = select(is_real, second, middle - half * turn)
    slope = select(is_real, slope, turn)
    row, other = (first, _times(q, slope)), (_times(r, slope), second)
    return above(*(beside(*map(_as_matrix, pair)) for pair in (row, other)))


def _times(x: Any, slope: Any) -> Any:
    """A product that is zero where ``x`` is zero, even if the slope is infinite."""
    return select(x == 0, x, x * slope)


def _element(a: Any, i: int, j: int) -> Index:
    return (*map(whole, a.shape[:-2]), i, j)


def _as_matrix(x: Any) -> Any:
    return expand_axes(x, (x.ndim, x.ndim + 1))


def _derivative(a: Any, e: Any, exponential: Callable[[Any], Any]) -> Any:
    n = a.shape[-1]
    own, other = (_size(x) for x in (a, e))
    whole = exponential(above(beside(a, e * (own / other)), beside(zeros_like(a), a)))
    return columns_of(rows_of(whole, 0, n), n, 2 * n) * (other / own)


def _size(x: Any) -> Any:
    largest = reduce_max(np.abs(x), axes=(x.ndim - 2, x.ndim - 1))
    return expand_axes(select(largest == 0, 1, largest), (x.ndim - 2, x.ndim - 1))


def _exponential(target: Target) -> Callable[[Any], Any]:
    """The rule for matrices of more than two rows.

    Zeros are appended to matrices of more rows than are written out, until loops compute them.
    """
    rows = target[Matrices].largest + 1

    def padded(a: Any) -> Any:
        n = a.shape[-1]
        if not WRITTEN_OUT < n < rows:
            return _squared_approximant(a)
        right, below = (
            zeros((*a.shape[:-2], *shape), a.dtype) for shape in ((n, rows - n), (rows - n, rows))
        )
        whole = _squared_approximant(above(beside(a, right), below))
        return columns_of(rows_of(whole, 0, n), 0, n)

    return padded


def _squared_approximant(a: Any) -> Any:
    one = identity(a.shape[-1], a.dtype)
    # scaled as the norm requires, so that no power overflows
    most = np.maximum(binary_exponent(_norm(a) / LARGEST), 0)
    x = a * _power_of_two(-most, a.dtype)
    x2 = product(x, x)
    x4 = product(x2, x2)
    x6 = product(x2, x4)
    # the powers may require fewer halvings
    fewer = (-binary_exponent(_norm(y) / LARGEST**k) // k for y, k in ((x4, 4), (x6, 6)))
    spare = np.clip(np.minimum(*fewer), 0, np.minimum(most, np.finfo(a.dtype).maxexp // 7))
    spare = np.maximum(spare - _further(x, spare), 0)
    factor = _power_of_two(spare, a.dtype)
    square = factor * factor
    fourth = square * square
    x, x2, x4, x6 = x * factor, x2 * square, x4 * fourth, x6 * (fourth * square)
    count = most - spare
    b = NUMERATOR
    odd = product(x6, x6 * b[13] + x4 * b[11] + x2 * b[9])
    odd = product(x, odd + x6 * b[7] + x4 * b[5] + x2 * b[3] + one * b[1])
    even = product(x6, x6 * b[12] + x4 * b[10] + x2 * b[8])
    even = even + x6 * b[6] + x4 * b[4] + x2 * b[2] + one * b[0]
    # the identity is added last, so that small off-diagonal elements keep their digits
    return _squared(solve_p(even - odd, odd * 2.0, transpose_a=False) + one, count, a)


def _norm(a: Any) -> Any:
    """The largest sum of absolute values of a column."""
    sums = reduce_sum(np.abs(a), axes=(a.ndim - 2,))
    return reduce_max(sums, axes=(a.ndim - 2,))


def _power_of_two(exponent: Any, dtype: np.dtype[Any]) -> Any:
    """A power of two for each matrix."""
    return expand_axes(np.ldexp(dtype.type(1), exponent), (exponent.ndim, exponent.ndim + 1))


def _further(x: Any, spare: Any) -> Any:
    """The number of the ``spare`` halvings to be kept so that the first term of the error is small.

    It must be small even if its summands do not cancel. That matters if the powers of a matrix are
    much smaller than the powers of its norm.
    """
    own = _norm(x)
    norm = own * np.ldexp(x.dtype.type(1), spare)
    is_large = norm > FIRST_LARGE
    size = expand_axes(select(is_large, own, 1), (x.ndim - 2, x.ndim - 1))
    rows, _ = _loop(
        lambda rows, step, x: [product(rows, x), step + 1],
        lambda rows, step, x: step < TERMS,
        [
            broadcast_to(np.ones((), x.dtype), shape=(*x.shape[:-2], 1, x.shape[-1])),
            select(_any(is_large), np.int32(0), np.int32(TERMS)),
        ],
        [np.abs(x) / size],
    )
    # an upper bound of the binary logarithm, as an integer
    ratio = binary_exponent(reduce_max(rows, axes=(x.ndim - 2, x.ndim - 1)))
    over = ratio + (TERMS - 1) * (binary_exponent(norm / FIRST_LARGE))
    return select(is_large, np.maximum(-(-over // (TERMS - 1)), 0), 0)


def _squared(x: Any, count: Any, a: Any) -> Any:
    """Matrices, each squared ``count`` times: the exponentials of ``a``.

    The diagonal elements of triangular matrices are exponentials of numbers, which are computed
    anew: repeated squaring would double their error each time, and multiply it beside large
    elements (Al-Mohy and Higham, 2009, code fragment 2.1). The other elements of diagonal matrices
    are set to zero, since products would multiply zeros by infinities.
    """
    within = tuple(range(a.ndim - 2, a.ndim))
    n = a.shape[-1]
    below, over = (
        expand_axes(reduce_or(half != 0, axes=within), within)
        for half in (np.tril(a, -1), np.triu(a, 1))
    )
    is_exact = select(identity(n, a.dtype) > 0, ~(below & over), ~(below | over))
    diagonal = expand_axes(np.diagonal(a, axis1=-2, axis2=-1), (a.ndim - 1,))

    def step(x: Any, count: Any, is_exact: Any, diagonal: Any) -> list[Any]:
        goes_on = expand_axes(count > 0, within)
        exact = np.exp(diagonal * _power_of_two(np.minimum(1 - count, 0), x.dtype))
        exact = select(identity(n, x.dtype) > 0, exact, 0)
        return [select(goes_on, select(is_exact, exact, product(x, x)), x), count - 1]

    def any_goes_on(x: Any, count: Any, is_exact: Any, diagonal: Any) -> Any:
        return _any(count > 0)

    return _loop(step, any_goes_on, [x, count], [is_exact, diagonal])[0]


def _any(x: Any) -> Any:
    return reduce_or(x, axes=tuple(range(x.ndim))) if x.ndim else x


def _loop(step: Any, goes_on: Any, init: list[Any], consts: list[Any]) -> list[Any]:
    """A while loop; ``step`` and ``goes_on`` take the loop's variables, and then its constants."""
    avals = [Aval(x.shape, x.dtype) for x in (*consts, *init)]
    n = len(consts)
    body, cond = (
        rewrite(lambda *given, f=f: f(*given[n:], *given[:n]), avals)
        for f in (step, lambda *given: [goes_on(*given)])
    )
    *carry, _ = While(cond, body, n, len(init), None).bind(consts, init)
    return carry
