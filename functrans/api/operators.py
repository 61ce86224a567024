"""Matrix-free derivatives: Jacobians and Hessians as SciPy linear operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from functrans.api.arguments import check_callable
from functrans.api.compile import jit
from functrans.api.derivatives import grad, vjp
from functrans.api.linear import linearize
from functrans.api.linear_maps import Pullback
from functrans.api.mapping import vmap
from functrans.errors import NotDifferentiableError
from functrans.tracebacks import boundary
from functrans.tree.vector import ravel


def _product(linear: Any, value: Any) -> Any:
    product = linear(value)
    return product[0] if isinstance(linear, Pullback) else product


def _products(linear: Any, values: Any) -> Any:
    return vmap(_product, in_axes=(None, 0))(linear, values)


# one program serves operators at all points, since residuals are arguments
_applied = jit(_product)
_applied_to_many = jit(_products)


Space = tuple[int, Callable[..., Any]]
"""The number of elements of pytrees of one structure, and a function from vectors to these."""


def _operator(
    forward: Sequence[Any], backward: Sequence[Any], inside: Space, outside: Space, dtype: Any
) -> LinearOperator:
    """The composition of linear functions as an operator; ``backward`` compose to its transpose."""

    def product(maps: Sequence[Any], space: Space) -> Callable[..., Any]:
        def of_vector(x: Any) -> Any:
            value = space[1](np.asarray(x, dtype).reshape(-1))
            for linear in maps:
                value = _applied(linear, value)
            return ravel(value)[0]

        return of_vector

    def products(maps: Sequence[Any], space: Space) -> Callable[..., Any]:
        def of_columns(x: Any) -> Any:
            values = vmap(space[1])(np.asarray(x, dtype).T)
            for linear in maps:
                values = _applied_to_many(linear, values)
            return vmap(lambda value: ravel(value)[0])(values).T

        return of_columns

    return LinearOperator(
        (outside[0], inside[0]),
        matvec=product(forward, inside),
        rmatvec=product(backward, outside),
        matmat=products(forward, inside),
        rmatmat=products(backward, outside),
        dtype=dtype,
    )


@boundary
def jacobian_operator(function: Callable[..., Any], x: Any, /, *args: Any) -> LinearOperator:
    """The Jacobian of a function at a point, as a SciPy linear operator.

    Its products are compiled and matrix-free: forward mode for ``J @ v``, reverse mode for ``J.T @
    u``. ``lsmr``, ``lsqr``, ``svds`` and ``gmres`` of `scipy.sparse.linalg` accept it.

    Parameters
    ----------
    function : callable
        Takes and returns arrays of floats, or pytrees of them. The operator's vectors are the
        concatenated elements of the leaves.
    x : pytree of floats
        The point, by which is differentiated.
    *args
        Further arguments of the function.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator
        Of shape ``(elements of the result, elements of x)``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import lsmr
    >>> from functrans import jacobian_operator
    >>> x = np.array([1.0, 2.0])
    >>> J = jacobian_operator(lambda x: np.stack([x[0] ** 2, x[0] * x[1], x[1]]), x)
    >>> J @ np.array([1.0, 0.0])
    array([2., 2., 0.])
    >>> lsmr(J, np.array([2.0, 3.0, 1.0]))[0].round(6)
    array([1., 1.])
    """
    check_callable(function, "jacobian_operator")
    out, push, pull = _linearised(function, x, args)
    return _operator([push], [pull], _space(x), _space(out), _dtype(x, out))


@boundary
def hessian_operator(function: Callable[..., Any], x: Any, /, *args: Any) -> LinearOperator:
    """The Hessian of a function at a point, as a SciPy linear operator.

    It is symmetric, so ``cg``, ``minres`` and ``eigsh`` of `scipy.sparse.linalg` accept it.

    Parameters
    ----------
    function : callable
        Returns one number.
    x : pytree of floats
        The point, by which is differentiated.
    *args
        Further arguments of the function.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator
        Of shape ``(elements of x, elements of x)``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import eigsh
    >>> from functrans import hessian_operator
    >>> H = hessian_operator(lambda x: np.sum(x**4), np.array([1.0, 2.0, 3.0]))
    >>> eigsh(H, k=1)[0].round(6)
    array([108.])
    """
    check_callable(function, "hessian_operator")

    def of(x: Any) -> Any:
        return function(x, *args)

    product = _second_derivative(of, x)
    space = _space(x)
    return _operator([product], [product], space, space, _dtype(x))


@boundary
def ggn_operator(
    model: Callable[..., Any], loss: Callable[..., Any], x: Any, /, *args: Any
) -> LinearOperator:
    """The generalised Gauss-Newton matrix of ``loss(model(x))``, as a SciPy linear operator.

    It is ``J.T @ H @ J``, with the Jacobian J of the model and the Hessian H of the loss
    (Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent", 2002).
    It has no negative eigenvalues if the loss is convex. It is Fisher's information matrix if the
    loss is the negative log-likelihood of an exponential family, as a function of its natural
    parameters.

    Parameters
    ----------
    model : callable
        Takes ``x`` and ``args``.
    loss : callable
        Takes the model's result, and returns one number.
    x : pytree of floats
        The point, by which is differentiated.
    *args
        Further arguments of the model.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator
        Of shape ``(elements of x, elements of x)``; it is symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import ggn_operator
    >>> G = ggn_operator(lambda x: x**2, lambda z: np.sum(z**2) / 2, np.array([1.0, 3.0]))
    >>> G @ np.array([1.0, 1.0])
    array([ 4., 36.])
    """
    check_callable(model, "ggn_operator")
    check_callable(loss, "ggn_operator")
    out, push, pull = _linearised(model, x, args)
    products = [push, _second_derivative(loss, out), pull]
    space = _space(x)
    return _operator(products, products, space, space, _dtype(x, out))


def _linearised(function: Callable[..., Any], x: Any, args: Sequence[Any]) -> tuple[Any, Any, Any]:
    """The value at a point, and the derivative there, as pushforward and pullback."""

    def of(x: Any) -> Any:
        return function(x, *args)

    out, push = linearize(of, x)
    return out, push, vjp(of, x)[1]


def _second_derivative(function: Callable[..., Any], x: Any) -> Any:
    gradient = grad(function)
    try:
        return linearize(gradient, x)[1]
    except NotDifferentiableError:  # a rule of custom_vjp has no forward mode
        return vjp(gradient, x)[1]


def _space(value: Any) -> Space:
    vector, unravel = ravel(value)
    return vector.size, unravel


def _dtype(*values: Any) -> Any:
    return np.result_type(*(ravel(value)[0].dtype for value in values))
