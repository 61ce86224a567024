"""First derivatives: grad, value_and_grad, vjp, jvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

from functrans import config
from functrans.api.arguments import Argnums, aval_of_leaf, check_callable, check_point, name_of
from functrans.api.linear_maps import Pullback
from functrans.api.problem import Problem, filled_tangents, forward_problem
from functrans.api.selection import Argnames, Which
from functrans.api.transformed import P, R, Transformed, checked, transform
from functrans.errors import DtypeError, NonScalarOutputError
from functrans.ir.types import is_complex, is_inexact
from functrans.tracebacks import boundary
from functrans.tree.compare import described


@transform
def grad(
    function: Callable[..., Any],
    /,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames = (),
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The gradient of a function that returns a scalar.

    Parameters
    ----------
    function : callable
        Takes arrays, numbers or pytrees of them; returns one real number, or ``(scalar, aux)``.
        Left out, a decorator is returned: ``@grad(argnums=1)``.
    argnums : int or sequence of int, optional
        The positional argument(s) to differentiate with respect to; negative ones count from the
        end. They must hold floats. The first, if neither this nor ``argnames`` is given.
    has_aux : bool, optional
        Whether the function also returns auxiliary data, which are passed on unchanged.
    holomorphic : bool, optional
        Whether the function takes and returns complex numbers and has a complex derivative, which
        is what is then returned.
    argnames : str or sequence of str, optional
        The argument(s) by name, in place of ``argnums``, whether they are passed by position or by
        keyword. The result is like that for ``argnums``.
    allow_int : bool, optional
        Whether the differentiated arguments may contain arrays of integers and bools. In place of
        their gradients you get arrays of dtype `float0`, which hold nothing.

    Returns
    -------
    callable
        With the arguments of ``function``. It returns the gradient, in the structure, shapes and
        dtypes of the argument (a tuple of gradients if ``argnums`` is a sequence); with
        ``has_aux``, ``(gradient, aux)``. Of a real function of ``z = x + 1j * y`` it is
        ``df/dx - 1j * df/dy``, whose conjugate is the direction of steepest ascent.

    Raises
    ------
    NonScalarOutputError
        If the function does not return a scalar.
    IntegerInputError
        If an argument to differentiate with respect to holds integers or bools.
    ArgnumsError
        If ``argnums`` does not fit the call.
    DtypeError
        If the result is complex without ``holomorphic``, or real with it.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0, 3.0]))
    array([ 3., 12., 27.])
    >>> grad(grad(np.sin))(0.5) == -np.sin(0.5)
    np.True_
    >>> grad(lambda z: np.abs(z) ** 2)(1.0 + 2.0j), grad(lambda z: z**2, holomorphic=True)(1j)
    (np.complex128(2-4j), np.complex128(2j))
    """
    check_callable(function, "grad")
    which = Which(function, argnums, argnames, allow_int)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        problem = which.problem(args, kwargs, has_aux, "grad")
        (_, aux), result = _value_and_gradient(problem, which, holomorphic)
        return (result, aux) if has_aux else result

    return gradient


@overload
def value_and_grad(
    function: Callable[P, R],
    /,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames = (),
    allow_int: bool = False,
) -> Transformed[P, tuple[R, Any]]: ...


@overload
def value_and_grad(
    *,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = (),
    allow_int: bool = False,
) -> Callable[[Callable[P, R]], Transformed[P, tuple[R, Any]]]: ...


@transform
def value_and_grad(
    function: Callable[..., Any],
    /,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames = (),
    allow_int: bool = False,
) -> Any:
    """The value of a function that returns a scalar, together with its gradient.

    Parameters
    ----------
    function, argnums, has_aux, argnames, allow_int
        As for `grad`.

    Returns
    -------
    callable
        It returns ``(value, gradient)``; with ``has_aux``, ``((value, aux), gradient)``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import value_and_grad
    >>> value_and_grad(lambda w, x: np.sum(w * x), argnums=0)(2.0, np.array([1.0, 3.0]))
    (np.float64(8.0), np.float64(4.0))
    """
    check_callable(function, "value_and_grad")
    which = Which(function, argnums, argnames, allow_int)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        problem = which.problem(args, kwargs, has_aux, "value_and_grad")
        (value, aux), result = _value_and_gradient(problem, which, holomorphic)
        return ((value, aux) if has_aux else value), result

    return value_and_gradient


def _value_and_gradient(
    problem: Problem, which: Which, holomorphic: bool
) -> tuple[tuple[Any, Any], Any]:
    check_holomorphic_arguments(problem, holomorphic)
    point = problem.point()
    _check_scalar(problem)
    check_holomorphic_results(problem, holomorphic)
    seed = point.graph.outputs[0].aval.dtype.type(1)
    cotangents = [seed] + [None] * (len(point.graph.outputs) - 1)
    outputs, results = point.pull(cotangents)
    derivative = problem.derivative(results, point)
    return problem.unpack(outputs), derivative[0] if which.is_one else derivative


def _check_scalar(problem: Problem) -> None:
    is_one = problem.out_count == 1 and problem.out_structure.is_leaf()
    aval = aval_of_leaf(problem.outs[0]) if is_one else None
    if aval is not None and aval.shape == () and is_inexact(aval.dtype):
        return
    name = name_of(problem.function)
    if aval is None:
        if problem.out_count == 0:
            fix = "is its return statement missing?"
        elif problem.has_aux:
            fix = "for the derivative of each array, use jacrev or jacfwd"
        else:
            fix = (
                "if the rest is auxiliary data, write has_aux=True; for the derivative of each "
                "array, use jacrev or jacfwd"
            )
        raise NonScalarOutputError(
            f"{problem.transform} needs a function that returns one number, but {name} returned "
            f"{described(problem.out_structure)}: {fix}"
        )
    if aval.shape != ():
        raise NonScalarOutputError(
            f"{problem.transform} needs a function that returns one number, but {name} returned an "
            f"array of shape {aval.shape}: sum or average it (.sum(), .mean()), or use jacrev or "
            "jacfwd for the derivative of each element"
        )
    raise NonScalarOutputError(
        f"{problem.transform} needs a function that returns a float, but {name} returned "
        f"{aval.dtype}, which has no derivative"
    )


def check_holomorphic_arguments(problem: Problem, holomorphic: bool) -> None:
    """Raise if a function cannot be holomorphic because of its argument types."""
    if not holomorphic:
        return
    for i, x in enumerate(problem.leaves):
        dtype = aval_of_leaf(x).dtype
        if not is_complex(dtype):
            raise DtypeError(
                f"{problem.transform} of a holomorphic function needs complex arguments, but "
                f"{problem.leaf_name(i)} has dtype {dtype}: pass it as complex "
                "(.astype(complex)), or leave holomorphic=True out"
            )


def check_holomorphic_results(problem: Problem, holomorphic: bool) -> None:
    """Raise unless the results are complex for a holomorphic function, and real otherwise."""
    for x in problem.outs:
        dtype = aval_of_leaf(x).dtype
        if is_complex(dtype) == bool(holomorphic):
            continue
        name = name_of(problem.function)
        if holomorphic:
            raise DtypeError(
                f"{problem.transform} of a holomorphic function needs complex results, but {name} "
                f"returned {dtype}: leave holomorphic=True out"
            )
        raise DtypeError(
            f"{problem.transform} needs a function that returns real numbers, but {name} "
            f"returned {dtype}: return its real part, or abs(...), or write "
            f"{problem.transform}(..., holomorphic=True) if {name} has a complex derivative"
        )


@boundary
def vjp(
    function: Callable[..., Any], /, *primals: Any, has_aux: bool = False, allow_int: bool = False
) -> Any:
    """The value of a function, and its pullback from cotangents of results to those of arguments.

    Parameters
    ----------
    function : callable
    *primals : pytrees of floats
        Where to differentiate.
    has_aux : bool, optional
        Whether the function returns ``(result, aux)``.
    allow_int : bool, optional
        Whether the primals may contain arrays of integers and bools. Their cotangents are arrays of
        dtype `float0`, which hold nothing.

    Returns
    -------
    result
        ``function(*primals)``.
    pullback : callable
        Takes a cotangent, in the structure of the result, and returns a tuple with the cotangent
        of each primal. It may be called any number of times. None for a part of the cotangent
        stands for zeros. It is a pytree of its residuals, so a jitted function may return it.
    aux
        With ``has_aux`` only.

    Raises
    ------
    TreeMismatchError, ShapeError
        By ``pullback``, if the cotangent does not have the structure and shapes of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import vjp
    >>> y, pullback = vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 0.0]))
    (array([2., 0.]),)
    """
    check_point(function, "vjp", primals)
    problem = forward_problem(function, primals, has_aux, "vjp", allow_int)
    point = problem.point()
    linear = point.linear
    result, aux = problem.unpack(linear.outputs)

    pullback = Pullback(problem.form(linear), linear.residuals)
    if config.check_values is not None:
        checked(function, primals, {}, result)
        again = partial(vjp, function, has_aux=has_aux, allow_int=allow_int)
        pullback.origin = lambda *x: again(*x[:-1])[1](x[-1]), primals
    return (result, pullback, aux) if has_aux else (result, pullback)


@boundary
def jvp(
    function: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    /,
    has_aux: bool = False,
) -> Any:
    """The value of a function, and its derivative along a tangent (Jacobian-vector product).

    Parameters
    ----------
    function : callable
    primals : tuple or list
        The arguments.
    tangents : tuple or list
        The direction, with the structure, shapes and dtypes of the primals. That of an integer is
        None, or an array of dtype `float0`.
    has_aux : bool, optional
        Whether the function returns ``(result, aux)``.

    Returns
    -------
    result, tangent
        Both with the structure of the result; with ``has_aux``, ``aux`` is a third value.

    Raises
    ------
    TreeMismatchError, ShapeError
        If the tangents do not fit the primals.

    Examples
    --------
    >>> from functrans import jvp
    >>> jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
    (np.float64(6.0), np.float64(3.0))
    """
    check_callable(function, "jvp")
    problem = forward_problem(function, primals, has_aux, "jvp", allow_int=True)
    moving = problem.moving(tangents)
    point = problem.point()
    outputs, dots = point.push(moving)
    result, aux = problem.unpack(outputs)
    tangent = filled_tangents(problem, dots, point, moving)
    if config.check_values is not None:
        again = partial(jvp, function, has_aux=has_aux)
        checked(again, (primals, tangents), {}, (result, tangent))
    return (result, tangent, aux) if has_aux else (result, tangent)
