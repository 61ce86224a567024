"""SciPy's own solvers, called on the host with plain functions."""

from __future__ import annotations

from typing import Any

from functrans.api.closure import closure_convert
from functrans.api.host import callback
from functrans.api.recompute import stop_gradient
from functrans.numpy.arrays import known
from functrans.scipy.along_a_path import is_active, of_known_values
from functrans.scipy.optimize.vectors import Function


def on_the_host(solver: Function, functions: list[Function], start: Any, results: Any) -> Any:
    """Call a solver on the host with plain arrays, and with functions of plain arrays.

    Parameters
    ----------
    solver : callable
        ``solver(functions, start)`` with plain functions.
    functions : list of callable
        Functions of one vector, which may close over traced values.
    start : array
        The argument of the functions.
    results : pytree of Aval
        The types of the solver's results.
    """
    if is_active():
        plain = [of_known_values(function) for function in functions]
        for function in plain:
            function(known(start))  # raises here what SciPy might catch
        return solver(plain, known(start))
    converted = [closure_convert(function, start) for function in functions]

    def solve(start: Any, captures: Any) -> Any:
        def with_constants(function: Function, constants: Any) -> Function:
            return lambda x: function(x, *constants)

        functions = (function for function, _ in converted)
        return solver([*map(with_constants, functions, captures)], start)

    constants = [list(map(stop_gradient, found)) for _, found in converted]
    return callback(solve, out_types=results)(stop_gradient(start), constants)
