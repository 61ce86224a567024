"""`scipy.optimize`: roots, minima and fits, with implicit differentiation of the solutions."""

from functrans.scipy.entries import namespace as _namespace
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
_ROOTS = (
    "anderson broyden1 broyden2 diagbroyden excitingmixing linearmixing newton_krylov"
).split()
_MINIMA = (
    "fmin fmin_bfgs fmin_cg fmin_cobyla fmin_l_bfgs_b fmin_ncg fmin_powell fmin_slsqp fmin_tnc "
    "line_search"
).split()
_REFUSED = {
    **dict.fromkeys(_ROOTS, "use root"),
    **dict.fromkeys(_MINIMA, "use minimize"),
    **dict.fromkeys(("brent", "fminbound", "golden"), "use minimize_scalar"),
    **dict.fromkeys(("milp", "quadratic_assignment"), _DISCRETE),
    "approx_fprime": "use functrans.grad, or jacfwd",
    "bracket": "give minimize_scalar bounds, or a start",
    "brute": "use differential_evolution, or minimize from the best of the points",
    "check_grad": "use functrans.testing.check_grads",
}

__all__ = [
    "basinhopping", "bisect", "brenth", "brentq", "curve_fit", "differential_evolution", "direct",
    "dual_annealing", "fixed_point", "fsolve", "isotonic_regression", "least_squares", "leastsq",
    "linear_sum_assignment", "linprog", "lsq_linear", "minimize", "minimize_scalar", "newton",
    "nnls", "ridder", "root", "root_scalar", "rosen", "rosen_der", "rosen_hess", "rosen_hess_prod",
    "shgo", "toms748", *_REFUSED,
]  # fmt: skip

globals().update(all_refused("scipy.optimize", _REFUSED))

__getattr__, __dir__ = _namespace("optimize", __all__)
