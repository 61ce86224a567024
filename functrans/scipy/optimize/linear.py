"""Linear programs, bounded least squares and assignments: solved by SciPy, with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.host import callback as on_arrays
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import array, inexact
from functrans.scipy.inside import refuse_options, within_traces
from functrans.scipy.optimize.constrained import (
    Region,
    active_at,
    bounds_of,
    implicit_minimum,
    within,
)
from functrans.scipy.optimize.scalar import said_of
from functrans.scipy.optimize.vectors import ends_of, result_of

_nnls = lazy("scipy.optimize:nnls")
_lsq_linear = lazy("scipy.optimize:lsq_linear")
_linprog = lazy("scipy.optimize:linprog")
_assignment = lazy("scipy.optimize:linear_sum_assignment")
_isotonic = lazy("scipy.optimize:isotonic_regression")


def _fitted(A: Any, b: Any, found: Any, low: Any, high: Any) -> Any:
    """A bounded least-squares solution, with its derivative.

    That is the derivative of the elements inside their bounds: of their least-squares solution of
    least norm, since the matrix may have dependent columns.
    """

    def half_square(x: Any) -> Any:
        return 0.5 * np.sum((A @ x - b) ** 2)

    x, region = stop_gradient(found), within(low, high)
    at_low, bound, _, _ = active_at(x, half_square, region.positive, region)
    end = np.where(bound, np.where(at_low, low, high), 0.0)
    matrix = np.where(bound, 0.0, A).astype(x.dtype)
    free, _, _, _ = np.linalg.lstsq(matrix, b - A @ end)
    return x + (end + free - stop_gradient(end + free))


@within_traces("scipy.optimize:nnls")
def nnls(A: Any, b: Any, *, maxiter: Any = None, atol: Any = None) -> Any:
    """Nonnegative least squares: the ``x >= 0`` that minimises ``norm(A @ x - b)``, and that norm.

    The derivative is that of the least-squares solution (of least norm) in the positive elements.

    Parameters
    ----------
    A : array of shape (m, n)
    b : array of shape (m,)

    Returns
    -------
    x : array of shape (n,)
    rnorm : float

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import nnls
    >>> abs(jacrev(lambda b: nnls(np.diag([2.0, 4.0]), b)[0])(np.array([1.0, -1.0])))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    A, b = inexact(A), inexact(b)
    size = A.shape[1]

    def solve(A: Any, b: Any) -> Any:
        return _nnls(A, b, maxiter=maxiter)[0]

    found = on_arrays(solve, out_types=Aval((size,), float))(stop_gradient(A), stop_gradient(b))
    # where it is 0 it stays so, also if the residual is 0, and with it the slope
    x = _fitted(A, b, found, np.zeros(size), np.where(found > 0.0, np.inf, 0.0))
    return x, np.linalg.norm(A @ x - b)


@within_traces("scipy.optimize:lsq_linear")
def lsq_linear(
    A: Any, b: Any, bounds: Any = (-np.inf, np.inf), method: str = "trf", tol: float = 1e-10,
    lsq_solver: Any = None, lsmr_tol: Any = None, max_iter: Any = None, verbose: int = 0, *,
    lsmr_maxiter: Any = None,
) -> Any:  # fmt: skip
    """Bounded least squares: the ``x`` within bounds that minimises ``norm(A @ x - b)``.

    The derivative of the elements inside their bounds is that of the least-squares problem in these
    elements; elements at a bound have the derivative of the bound.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``cost``, ``fun`` and ``success``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import lsq_linear
    >>> fit = lambda b: lsq_linear(np.diag([2.0, 4.0]), b, bounds=(0.0, 1.0)).x
    >>> abs(jacrev(fit)(np.array([1.0, 9.0])))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    A, b = inexact(A), inexact(b)
    size = A.shape[1]
    low, high = ends_of(bounds, (size,))

    def solve(A: Any, b: Any, low: Any, high: Any) -> Any:
        found = _lsq_linear(
            A, b, (low, high), method, tol, lsq_solver, lsmr_tol, max_iter,
            lsmr_maxiter=lsmr_maxiter,
        )  # fmt: skip
        return found.x, np.asarray(found.success)

    types = Aval((size,), float), Aval((), bool)
    operands = map(stop_gradient, (A, b, low, high))
    found, success = on_arrays(solve, out_types=types)(*operands)
    x = _fitted(A, b, found, low, high)
    rest = A @ x - b
    return result_of(
        x=x, cost=0.5 * np.sum(rest**2), fun=rest, success=success, status=np.where(success, 1, 0),
        message=said_of(success, "The minimum was found.", "It did not converge."),
    )  # fmt: skip


@within_traces("scipy.optimize:linprog")
def linprog(
    c: Any, A_ub: Any = None, b_ub: Any = None, A_eq: Any = None, b_eq: Any = None,
    bounds: Any = (0, None), method: str = "highs", callback: Any = None, options: Any = None,
    x0: Any = None, integrality: Any = None,
) -> Any:  # fmt: skip
    """Linear programming: the ``x`` that minimises ``c @ x`` under linear constraints.

    The derivative is that of the optimal vertex for a fixed active set. At a degenerate vertex,
    with more active constraints than variables, it is one-sided, or the system for it is singular
    (`numpy.linalg.LinAlgError`); if there is no minimum, it is NaN.

    Parameters
    ----------
    c : array of shape (n,)
    A_ub, b_ub : arrays of shape (m, n) and (m,), optional
        ``A_ub @ x <= b_ub``.
    A_eq, b_eq : arrays of shape (k, n) and (k,), optional
        ``A_eq @ x == b_eq``.
    bounds : pair, or sequence of pairs
        By default ``x >= 0``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``fun``, ``slack``, ``con`` and ``success``.

    Raises
    ------
    UnsupportedNumPyError
        For ``callback`` and ``integrality``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import linprog
    >>> best = lambda b: linprog([-1.0, -2.0], [[1.0, 1.0]], b).x
    >>> jacrev(best)(np.array([3.0])).ravel()
    array([0., 1.])
    """
    refuse_options(
        "scipy.optimize.linprog",
        [
            ("callback", callback, "leave it out"),
            ("integrality", integrality, "solve it outside of the traced function"),
        ],
    )
    c = inexact(c)
    size = c.shape[0]
    upper, below = _constraints(A_ub, b_ub, size)
    equal, value = _constraints(A_eq, b_eq, size)
    pairs = list((0, None) if bounds is None else bounds)
    if len(pairs) == 2 and not any(map(np.ndim, pairs)):
        pairs = [pairs]
    low, high = bounds_of(pairs * size if len(pairs) == 1 else pairs, size)

    def solve(c: Any, upper: Any, below: Any, equal: Any, value: Any, low: Any, high: Any) -> Any:
        found = _linprog(
            c, upper, below, equal, value, np.stack([low, high], axis=1), method=method,
            options=options, x0=x0,
        )  # fmt: skip
        x = np.full(size, np.nan) if found.x is None else found.x
        return x, np.asarray(found.success), np.asarray(found.status)

    types = Aval((size,), float), Aval((), bool), Aval((), np.int64)
    operands = map(stop_gradient, (c, upper, below, equal, value, low, high))
    found, success, status = on_arrays(solve, out_types=types)(*operands)
    region = Region(low, high, lambda x: equal @ x - value, lambda x: below - upper @ x)
    x = implicit_minimum(lambda x: np.sum(c * x), found, region)
    return result_of(
        x=x, fun=np.sum(c * x), slack=below - upper @ x, con=value - equal @ x, success=success,
        status=status, message=said_of(success, "Optimization terminated successfully.",
                                       "The problem was not solved: status says why."),
    )  # fmt: skip


def _constraints(matrix: Any, right: Any, size: int) -> tuple[Any, Any]:
    if matrix is None:
        return np.zeros((0, size)), np.zeros(0)
    return inexact(matrix), inexact(right).reshape(-1)


@within_traces("scipy.optimize:linear_sum_assignment")
def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> Any:
    """The assignment of rows to columns of least total cost, as index arrays.

    The indices have no derivative; the derivative of the total cost is that of the chosen elements.

    Parameters
    ----------
    cost_matrix : array of shape (m, n)
    maximize : bool

    Returns
    -------
    row_ind, col_ind : arrays of int, of shape (min(m, n),)

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import linear_sum_assignment
    >>> def least(cost):
    ...     return np.sum(cost[linear_sum_assignment(cost)])
    >>> grad(least)(np.array([[4.0, 1.0], [2.0, 3.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    cost = array(cost_matrix)
    types = (Aval((min(cost.shape),), np.int64),) * 2
    return on_arrays(lambda cost: _assignment(cost, maximize), out_types=types)(stop_gradient(cost))


@within_traces("scipy.optimize:isotonic_regression")
def isotonic_regression(y: Any, *, weights: Any = None, increasing: bool = True) -> Any:
    """Isotonic regression: the nondecreasing values closest to ``y``, which are means of blocks.

    The derivative is that of the block means, for fixed blocks.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, and with the sum of the weights of the block of each element as ``weights``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jacrev
    >>> from functrans.scipy.optimize import isotonic_regression
    >>> jacrev(lambda y: isotonic_regression(y).x)(np.array([1.0, 0.0, 3.0]))
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    y = inexact(y)
    w = np.ones(y.shape) if weights is None else inexact(weights)

    def block_of(y: Any, w: Any) -> Any:
        found = _isotonic(y, weights=w, increasing=increasing)
        return np.repeat(np.arange(len(found.blocks) - 1), np.diff(found.blocks))

    blocks = on_arrays(block_of, out_types=Aval(y.shape, np.int64))(
        stop_gradient(y), stop_gradient(w)
    )
    shares = np.where(blocks[:, None] == blocks, w, 0.0)
    total = np.sum(shares, axis=1)
    return result_of(x=(shares @ y) / total, weights=total)
