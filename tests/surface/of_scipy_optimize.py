"""Calls of `scipy.optimize`'s functions."""

import scipy.optimize

import functrans.scipy.optimize

NAME = "scipy.optimize"
THEIRS = {"optimize": scipy.optimize}
SLOW = True
OURS = {"optimize": functrans.scipy.optimize}

_ROOTS = "bisect brenth brentq ridder toms748"
_MINIMA = """fmin fmin_bfgs fmin_cg fmin_cobyla fmin_l_bfgs_b fmin_ncg fmin_powell fmin_slsqp
fmin_tnc"""
_SYSTEMS = """anderson broyden1 broyden2 diagbroyden excitingmixing linearmixing
newton_krylov"""
_WELLS = "lambda u: np.sum((u - y[:1]) ** 2)"

CALLS = f"""
optimize.approx_fprime(y[:2], lambda u: u[0] * y[3] ** u[1])
optimize.basinhopping({_WELLS}, [0.5], niter=1, rng=0).x
optimize.bracket(lambda u: (u - y[0]) ** 2)  optimize.brent(lambda u: (u - y[0]) ** 2)
optimize.brute({_WELLS}, [(0, 1)])  optimize.check_grad(np.sum, np.cos, y)
optimize.curve_fit(lambda t, a, b: a + b * t, np.arange(5.0), y)[0]
optimize.differential_evolution({_WELLS}, [(0, 1)], rng=0).x
optimize.direct({_WELLS}, [(0, 1)]).success  optimize.dual_annealing({_WELLS}, [(0, 1)], rng=0).x
optimize.fixed_point(lambda u: np.cos(y[0] * u), 0.5, xtol=1e-12)
optimize.fminbound(lambda u: (u - y[0]) ** 2, 0, 1)
optimize.fsolve(lambda u: u**2 - y[:1], [1.0], xtol=1e-12)
optimize.golden(lambda u: (u - y[0]) ** 2)  optimize.isotonic_regression(x).x
optimize.least_squares(lambda u: u**2 - y[:2], [1.0, 1.0], xtol=1e-13, ftol=1e-15, gtol=1e-15).x
optimize.leastsq(lambda u: u**2 - y[:2], [1.0, 1.0], xtol=1e-13, ftol=1e-15)[0]
optimize.line_search(np.sum, np.cos, y, y)  optimize.linear_sum_assignment(m)
optimize.linprog(-y, np.eye(5), p).x
optimize.lsq_linear(m.T, y[:4], bounds=(-0.1, 0.2)).x  optimize.milp(y)
optimize.minimize({_WELLS}, [0.5], bounds=[(0, 1)], tol=1e-12).x
optimize.minimize_scalar(lambda u: (u - y[0]) ** 2, tol=1e-12).x
optimize.newton(lambda u: u**2 - y, np.ones(5), tol=1e-12)  optimize.nnls(m.T, y[:4])[0]
optimize.quadratic_assignment(s, s)
optimize.root(lambda u: u**2 - y[:1], [1.0], tol=1e-12).x
optimize.root_scalar(lambda u: u**2 - y[0], bracket=(0, 2)).root
optimize.rosen(x)  optimize.rosen_der(x)  optimize.rosen_hess(x)  optimize.rosen_hess_prod(x, y)
optimize.shgo({_WELLS}, [(0, 1)]).x
"""
CALLS += "\n".join(
    [f"optimize.{name}(lambda u: u**2 - y[0], 0.0, 2.0) + 0 * y" for name in _ROOTS.split()]
    + [f"optimize.{name}({_WELLS}, [0.5])" for name in _MINIMA.split()]
    + [f"optimize.{name}(lambda u: u**2 - y, p)" for name in _SYSTEMS.split()]
)
NO_ARRAYS = ""


def public():
    """What has a form of its own for traced values, or says what to write."""
    return sorted(functrans.scipy.optimize.__all__)
