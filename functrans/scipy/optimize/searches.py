"""Global minimisation: SciPy searches, and the result is differentiated like a local minimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.derivatives import value_and_grad
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import inexact
from functrans.scipy.inside import arguments, refuse_options, within_traces
from functrans.scipy.optimize.constrained import bounds_of, implicit_minimum, within
from functrans.scipy.optimize.host import on_the_host
from functrans.scipy.optimize.scalar import said_of
from functrans.scipy.optimize.vectors import Function, result_of, vector

_WITHIN_BOUNDS = ("differential_evolution", "direct", "dual_annealing", "shgo")


def _search(name: str, summary: str) -> Function:
    """The public function for one of SciPy's global searches."""
    scipys = lazy(f"scipy.optimize:{name}")
    bounded = name in _WITHIN_BOUNDS

    def public(func: Function, where: Any, *more: Any, **options: Any) -> Any:
        if bounded:
            given = more[0] if more else options.pop("args", ())
            more = ((), *more[1:]) if more else ()
        else:
            local = dict(options.pop("minimizer_kwargs", None) or {})
            given = local.pop("args", ())
            options["minimizer_kwargs"] = local
        given = arguments(given)
        constraints = options.get("constraints") or None
        refuse_options(f"scipy.optimize.{name}", [("constraints", constraints, "use minimize")])

        def function(x: Any) -> Any:
            return inexact(func(x, *given)).reshape(())

        if bounded:
            size = len(where.lb) if hasattr(where, "lb") else len(where)
            low, high = bounds_of(where, size)
            start = np.zeros(size)
        else:
            start = vector(where, one_axis=True)
            size = start.size
            low, high = bounds_of(None, size)

        def solver(functions: Any, start: Any) -> Any:
            value, *ends = functions
            place = start
            if bounded:
                place = list(zip(*(end(start) for end in ends), strict=True))
            found = scipys(lambda x: float(value(x)), place, *more, **options)
            # some searches report only the success of their last local minimisation
            done = found.success if "success" in found else found.lowest_optimization_result.success
            return np.asarray(found.x, float), np.asarray(bool(done))

        types = Aval((size,), float), Aval((), bool)
        ends = [lambda x: low, lambda x: high]
        found, success = on_the_host(solver, [function, *ends], start, types)
        x = implicit_minimum(function, found, within(low, high))
        value, slope = value_and_grad(function)(x)
        return result_of(
            x=x, fun=value, jac=slope, success=success,
            message=said_of(success, "The search ended.", "The search was not successful."),
        )  # fmt: skip

    example = "[(-3.0, 3.0)]" if bounded else "[1.0]"
    seed = "" if name in ("direct", "shgo") else ", rng=0"
    public.__doc__ = f"""{summary}

    SciPy searches, each time that the values are known, with its own options; the derivative is
    that of a minimum which stays where it is, by the implicit function theorem.

    Parameters
    ----------
    func : callable
        ``func(x)`` gives one number, and can be traced.
    {"bounds : sequence of pairs, or Bounds" if bounded else "x0 : array of shape (n,)"}
    *more, **options
        As SciPy's. Give a seed, as ``rng=0``, if there is one: equal calls may be made once.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``fun``, ``jac`` and ``success``.

    Examples
    --------
    >>> from functrans import grad
    >>> from functrans.scipy.optimize import {name}
    >>> f = lambda x, a: (x[0] ** 2 - 1.0) ** 2 + (x[0] - a) ** 2
    >>> lowest = lambda a: {name}(lambda x: f(x, a), {example}{seed}).x[0]
    >>> grad(lowest)(1.0).round(3)
    np.float64(0.2)
    """
    return within_traces(f"scipy.optimize:{name}")(public)


differential_evolution = _search(
    "differential_evolution", "A global minimum within bounds, by differential evolution."
)
direct = _search("direct", "A global minimum within bounds, by dividing rectangles.")
dual_annealing = _search("dual_annealing", "A global minimum within bounds, by annealing.")
shgo = _search("shgo", "A global minimum within bounds, by simplicial homology.")
basinhopping = _search("basinhopping", "A global minimum, by hops between local ones.")
