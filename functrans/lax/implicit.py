"""Implicit differentiation of solutions, which does not differentiate through the solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.api.arguments import aval_of_leaf, known_values
from functrans.api.custom import custom_jvp
from functrans.api.derivatives import jvp
from functrans.api.linear import linear_transpose
from functrans.errors import CustomRuleError, ShapeError, TreeMismatchError
from functrans.ir.primitive import current
from functrans.ir.types import describe, is_inexact
from functrans.lax.staging import Body, Tree, check_function, closed, converted, flattened, staged
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.control.linear_solve import Solver
from functrans.trace.stage import replay, stage
from functrans.tracebacks import boundary
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference

Function = Callable[..., Any]


@boundary
def custom_linear_solve(
    matvec: Function, b: Any, solve: Function, transpose_solve: Function | None = None,
    symmetric: bool = False, has_aux: bool = False,
) -> Any:  # fmt: skip
    """The solution of ``matvec(x) = b``, found by a solver that is not differentiated.

    The derivative with respect to ``b``, and to the values in the closure of ``matvec``, solves the
    same system again, and in reverse mode the transposed one. The method of the solver and its
    number of iterations do not matter.

    Parameters
    ----------
    matvec : callable
        A linear function; ``matvec(x)`` has the structure and types of ``b``.
    b : pytree of floats
    solve : callable
        ``solve(matvec, b)`` gives the solution.
    transpose_solve : callable, optional
        ``transpose_solve(vecmat, b)`` gives the solution of the transposed system; reverse mode
        needs it.
    symmetric : bool, optional
        Whether the system is symmetric, so that ``solve`` also solves the transposed one.
    has_aux : bool, optional
        Whether the solvers return ``(solution, aux)``, with auxiliary data without a derivative,
        such as the number of iterations.

    Returns
    -------
    pytree
        In the structure and types of ``b``; with ``has_aux``, ``(solution, aux)``.

    Raises
    ------
    TreeMismatchError, ShapeError
        If a result of ``matvec`` or of a solver has another structure or type than ``b``.
    NotDifferentiableError
        In reverse mode without ``transpose_solve`` or ``symmetric``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax
    >>> def solved(d, b):           # a diagonal system
    ...     solve = lambda matvec, b: b / matvec(np.ones_like(b))
    ...     return lax.custom_linear_solve(lambda x: d * x, b, solve, symmetric=True)
    >>> d, b = np.array([2.0, 4.0]), np.array([1.0, 1.0])
    >>> solved(d, b)
    array([0.5 , 0.25])
    >>> grad(lambda d: np.sum(solved(d, b)))(d)
    array([-0.25  , -0.0625])
    """
    check_function(matvec, "matvec", "custom_linear_solve")
    check_function(solve, "solve", "custom_linear_solve")
    if transpose_solve is not None:
        check_function(transpose_solve, "transpose_solve", "custom_linear_solve")
    if has_aux:
        return _linear_solve_with_aux(matvec, b, solve, transpose_solve, symmetric)
    right = flattened(b, "b")
    example = right.structure.unflatten(right.avals)

    def vecmat(x: Any) -> Any:
        return linear_transpose(matvec, example)(x)[0]

    if symmetric:
        transpose_solve, vecmat = solve, matvec
    parts: list[tuple[Function, str]] = [(matvec, "matvec"), (lambda y: solve(matvec, y), "solve")]
    if transpose_solve is not None:
        solver = transpose_solve
        parts += [(vecmat, "matvec"), (lambda y: solver(vecmat, y), "transpose_solve")]
    bodies = [_vector_function(function, right, what) for function, what in parts]
    (a, s, *transposed), captures = closed(bodies, [body.graph for body in bodies])
    solution = Solver(a, s, tuple(transposed), len(captures)).bind(captures, right.leaves)
    return right.structure.unflatten(solution)


def _linear_solve_with_aux(
    matvec: Function, b: Any, solve: Function, transpose_solve: Function | None, symmetric: bool
) -> Any:
    """The root of ``matvec(x) - b``, whose solver is called once for both results."""

    def without_aux(solver: Function | None) -> Function | None:
        return None if solver is None else lambda matvec, y: _pair(solver(matvec, y))[0]

    def tangent_solve(matvec: Function, y: Any) -> Any:
        first, transposed = without_aux(solve), without_aux(transpose_solve)
        assert first is not None
        return custom_linear_solve(matvec, y, first, transposed, symmetric)

    def residual(x: Any) -> Any:
        return tree.map(lambda ax, b: ax - b, matvec(x), b)

    return _root(residual, b, lambda f, _: solve(matvec, b), tangent_solve, "custom_linear_solve")


def _pair(result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TypeError(
            f"has_aux=True: a solver must return (solution, aux), and returned {describe(result)}"
        )
    return result


def _vector_function(function: Function, vector: Tree, what: str) -> Body:
    """A function from vectors to vectors, traced and checked to be one."""
    (argument,) = [tree.structure((vector.structure.unflatten(vector.leaves),))]
    body = staged(function, argument, vector.avals, "custom_linear_solve", what)
    label = f"{what} of custom_linear_solve"
    _check_like(vector, body.result, body.graph.out_avals, label, "b")
    return body


def _check_like(expected: Tree, structure: Structure, avals: Any, what: str, model: str) -> None:
    if structure != expected.structure:
        raise TreeMismatchError(
            f"{what} must return the structure of {model}: "
            f"{difference(expected.structure, structure)}"
        )
    paths = tree.paths(expected.structure.unflatten(expected.leaves))
    for path, wanted, found in zip(paths, expected.avals, avals, strict=True):
        if not wanted.same_array_type(found):
            raise ShapeError(
                f"{what} must return the types of {model}: {model}{path} is {wanted}, and it "
                f"returns {found}"
            )


@boundary
def custom_root(
    f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False
) -> Any:
    """The root of a function, found by a solver that is not differentiated.

    By the implicit function theorem, the derivative with respect to the values in the closure of
    ``f`` solves a linear system with the derivative of ``f`` at the root. Its memory does not
    depend on the number of iterations of the solver.

    Parameters
    ----------
    f : callable
        ``f(x)`` is zero at the root, and has the structure and types of ``x``. Its closure may
        contain other values, also traced ones.
    initial_guess : pytree of floats
        Where the solver starts; the root does not depend on it.
    solve : callable
        ``solve(f, initial_guess)`` gives the root.
    tangent_solve : callable
        ``tangent_solve(g, y)`` gives the solution of ``g(x) = y`` for a linear ``g``. For a scalar
        that is ``y / g(1.0)``, for vectors for example ``np.linalg.solve(jacfwd(g)(y), y)``. It
        must itself be traceable; reverse mode uses it for the transposed system, too.
    has_aux : bool, optional
        Whether ``solve`` returns ``(root, aux)``, with auxiliary data without a derivative, such as
        the number of iterations.

    Returns
    -------
    pytree
        The root, in the structure and types of ``initial_guess``; with ``has_aux``,
        ``(root, aux)``.

    Raises
    ------
    TreeMismatchError, ShapeError
        If a result of ``f`` or ``solve`` has another structure or type than ``initial_guess``.

    Examples
    --------
    >>> from functrans import grad, lax
    >>> def square_root(a):
    ...     def f(x):
    ...         return x * x - a
    ...     def newton(f, x):
    ...         step = lambda x: x - f(x) / grad(f)(x)
    ...         return lax.while_loop(lambda x: abs(f(x)) > 1e-12, step, x)
    ...     return lax.custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))
    >>> square_root(2.0), grad(square_root)(2.0)
    (np.float64(1.414213562), np.float64(0.353553391))
    """
    for function, role in ((f, "f"), (solve, "solve"), (tangent_solve, "tangent_solve")):
        check_function(function, role, "custom_root")

    def checked(g: Function, y: Any) -> Any:
        found, name = flattened(tangent_solve(g, y), "a solution"), "tangent_solve of custom_root"
        _check_like(flattened(y, "y"), found.structure, found.avals, name, "its second argument")
        return found.structure.unflatten(found.leaves)

    def derivative_solve(g: Function, y: Any) -> Any:
        return custom_linear_solve(g, y, checked, checked)

    found = _root(
        f, initial_guess, solve if has_aux else lambda f, x: (solve(f, x), ()), derivative_solve,
        "custom_root",
    )  # fmt: skip
    return found if has_aux else found[0]


def root_found(f: Function, root: Any, tangent_solve: Function) -> Any:
    """A root that has been found, with its derivative: `custom_root` without a solver.

    ``f`` is traced with the values of the root, so it may branch on them.
    """
    return _root(f, root, lambda _, x: (x, ()), tangent_solve, "custom_root", at_guess=True)[0]


def _root(
    f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, operation: str,
    at_guess: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """``(root, aux)``, as ``solve(f, initial_guess)`` finds them; ``operation`` is for messages.

    If ``at_guess``, ``f`` is traced with the values of the guess.
    """
    model = "initial_guess" if operation == "custom_root" else "b"
    aux_structure: list[Structure] = []
    guess = flattened(initial_guess, model)
    argument = tree.structure((initial_guess,))
    avals = [aval.update() for aval in guess.avals]
    like = guess._replace(avals=tuple(avals))
    for aval, path in zip(avals, tree.paths(initial_guess), strict=True):
        if not is_inexact(aval.dtype):
            raise CustomRuleError(f"{model}{path} of {operation} must be a float, not {aval}")
    # captured values of f become arguments, so that the rule receives their tangents
    at = converted(guess.leaves, avals) if at_guess else None
    body = staged(f, argument, avals, operation, "f", at=at)
    _check_like(like, body.result, body.graph.out_avals, f"f of {operation}", model)

    def residual(captures: Any, x: Any) -> Any:
        outs = replay(body.graph, [*tree.leaves(x), *captures])
        return guess.structure.unflatten(outs)

    def solved(*values: Any) -> list[Any]:
        captures, start = values[: len(body.captures)], values[len(body.captures) :]
        begin = guess.structure.unflatten(start)
        result, aux = _pair(solve(lambda x: residual(captures, x), begin))
        found = flattened(result, "the root")
        _check_like(like, found.structure, found.avals, f"solve of {operation}", model)
        extra = flattened(aux, "aux")
        aux_structure[:] = [extra.structure]
        return [*found.leaves, *extra.leaves]

    def unpacked(outs: Sequence[Any]) -> tuple[Any, Any]:
        return (
            guess.structure.unflatten(outs[: len(avals)]),
            aux_structure[0].unflatten(outs[len(avals) :]),
        )

    operands = [*body.captures, *converted(guess.leaves, avals)]
    if current.get() is None:
        return unpacked(solved(*operands))
    # so do captured values of the solver, which the rule runs again
    types = [aval_of_leaf(x) for x in operands]
    solver = stage(solved, types, kind=operation, values=known_values(operands))

    @custom_jvp
    def root(*values: Any) -> Any:
        return replay(solver.graph, values)

    @root.defjvp
    def root_jvp(primals: Any, tangents: Any) -> Any:
        outs = root(*primals)
        x = outs[: len(avals)]
        captures = list(primals[: len(body.captures)])

        def linear(v: Any) -> Any:
            at = guess.structure.unflatten(x)
            return jvp(lambda x: residual(captures, x), (at,), (v,))[1]

        moved = _tangent(
            lambda c: residual(c, guess.structure.unflatten(x)), captures, tangents[: len(captures)]
        )
        negative = tree.map(lambda t: -t, moved)
        solution = tree.leaves(tangent_solve(linear, negative))
        return outs, [*solution, *map(zeros_like, outs[len(avals) :])]

    return unpacked(root(*operands, *solver.captures))


def _tangent(function: Function, values: list[Any], tangents: Sequence[Any]) -> Any:
    """The tangent of a function of a list of values, of which only floats have tangents."""
    moving = [i for i, x in enumerate(values) if is_inexact(aval_of_leaf(x).dtype)]

    def of_floats(*floats: Any) -> Any:
        replaced = dict(zip(moving, floats, strict=True))
        return function([replaced.get(i, x) for i, x in enumerate(values)])

    return jvp(of_floats, [values[i] for i in moving], [tangents[i] for i in moving])[1]
