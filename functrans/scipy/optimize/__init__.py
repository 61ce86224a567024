"""`scipy.optimize`: roots, minima and fits, with implicit differentiation of the solutions."""

from typing import Any

from functrans.scipy.entries import of_scipys as _of_scipys
from functrans.scipy.inside import all_refused
from functrans.scipy.optimize.guesses import fixed_point, newton, root_scalar
from functrans.scipy.optimize.linear import (
    isotonic_regression,
    linear_sum_assignment,
    linprog,
    lsq_linear,
    nnls,
)
from functrans.scipy.optimize.minimum import minimize, minimize_scalar
from functrans.scipy.optimize.scalar import bisect, brenth, brentq, ridder, toms748
from functrans.scipy.optimize.searches import (
    basinhopping,
    differential_evolution,
    direct,
    dual_annealing,
    shgo,
)
from functrans.scipy.optimize.squares import curve_fit, least_squares, leastsq
from functrans.scipy.optimize.systems import fsolve, root

_DISCRETE = (
    "its result is a choice, with a derivative of 0: call it outside of the traced function, "
    "and index with what it gives"
)
_REFUSED = {
    "anderson": "use root",
    "approx_fprime": "use functrans.grad, or jacfwd",
    "bracket": "give minimize_scalar bounds, or a start",
    "broyden1": "use root",
    "broyden2": "use root",
    "brute": "use differential_evolution, or minimize from the best of the points",
    "check_grad": "use functrans.testing.check_grads",
    "diagbroyden": "use root",
    "excitingmixing": "use root",
    "fmin": "use minimize",
    "fmin_bfgs": "use minimize",
    "fmin_cg": "use minimize",
    "fmin_cobyla": "use minimize",
    "fmin_l_bfgs_b": "use minimize",
    "fmin_ncg": "use minimize",
    "fmin_powell": "use minimize",
    "fmin_slsqp": "use minimize",
    "fmin_tnc": "use minimize",
    "fminbound": "use minimize_scalar",
    "brent": "use minimize_scalar",
    "golden": "use minimize_scalar",
    "line_search": "use minimize",
    "linearmixing": "use root",
    "milp": _DISCRETE,
    "newton_krylov": "use root",
    "quadratic_assignment": _DISCRETE,
}

__all__ = [
    "basinhopping", "bisect", "brenth", "brentq", "curve_fit", "differential_evolution", "direct",
    "dual_annealing", "fixed_point", "fsolve", "isotonic_regression", "least_squares", "leastsq",
    "linear_sum_assignment", "linprog", "lsq_linear", "minimize", "minimize_scalar", "newton",
    "nnls", "ridder", "root", "root_scalar", "rosen", "rosen_der", "rosen_hess", "rosen_hess_prod",
    "shgo", "toms748", *_REFUSED,
]  # fmt: skip

globals().update(all_refused("scipy.optimize", _REFUSED))


def __getattr__(name: str) -> Any:
    return _of_scipys("optimize", name)
