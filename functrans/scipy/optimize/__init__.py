"""`scipy.optimize`: roots, minima and fits, whose derivatives are those of what defines them."""

from functrans.scipy.inside import refused
from functrans.scipy.optimize.minimum import minimize, minimize_scalar
from functrans.scipy.optimize.scalar import (
    bisect,
    brenth,
    brentq,
    fixed_point,
    newton,
    root_scalar,
)
from functrans.scipy.optimize.squares import curve_fit, least_squares
from functrans.scipy.optimize.systems import fsolve, root

_GLOBAL = "find the region by it outside of the traced function, and start minimize there"
_DISCRETE = (
    "its result is a choice, with a derivative of 0: call it outside of the traced function, "
    "and index with what it gives"
)
_CONSTRAINED = (
    "solve it outside of the traced function; the derivative is that of the equations of the "
    "constraints that are active, by functrans.scipy.optimize.root"
)

_REFUSED = {
    "basinhopping": _GLOBAL,
    "brute": _GLOBAL,
    "differential_evolution": _GLOBAL,
    "direct": _GLOBAL,
    "dual_annealing": _GLOBAL,
    "shgo": _GLOBAL,
    "linear_sum_assignment": _DISCRETE,
    "quadratic_assignment": _DISCRETE,
    "milp": _DISCRETE,
    "isotonic_regression": _CONSTRAINED,
    "linprog": _CONSTRAINED,
    "lsq_linear": _CONSTRAINED,
    "nnls": _CONSTRAINED,
    "leastsq": "use least_squares",
    "ridder": "use brentq",
    "toms748": "use brentq",
}

__all__ = [
    "bisect", "brenth", "brentq", "curve_fit", "fixed_point", "fsolve", "least_squares", "minimize",
    "minimize_scalar", "newton", "root", "root_scalar", *_REFUSED,
]  # fmt: skip

globals().update(
    {name: refused(f"scipy.optimize:{name}", instead) for name, instead in _REFUSED.items()}
)
