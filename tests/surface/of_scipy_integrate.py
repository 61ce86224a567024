"""Calls of `scipy.integrate`'s functions."""

import scipy.integrate

import functrans.scipy.integrate

NAME = "scipy.integrate"
THEIRS = {"integrate": scipy.integrate}
SLOW = True
OURS = {"integrate": functrans.scipy.integrate}

CALLS = """
integrate.cumulative_simpson(y)  integrate.cumulative_trapezoid(y)
integrate.cubature(lambda t: np.exp(y[0] * t[:, 0]), [0.0], [1.0])
integrate.dblquad(lambda u, v: u * v * y[0], 0.0, y[1], 0.0, 1.0)[0] + 0 * y
integrate.fixed_quad(np.cos, 0.0, y[0])[0]  integrate.lebedev_rule(y)
integrate.nquad(lambda u, v: u * v * y[0], [[0.0, y[1]], [0.0, 1.0]])[0] + 0 * y
integrate.nsum(lambda k: y[0] ** k, 0, 3)
integrate.odeint(lambda u, t: -y[0] * u, y[1:3], [0.0, 1.0], rtol=1e-9, atol=1e-10)
integrate.qmc_quad(lambda t: y[0] * t[0], [0.0], [1.0])
integrate.quad(lambda t: y[0] ** t, 0, y[1])[0] + 0 * y
integrate.quad_vec(lambda t: y**t, 0.0, 1.0)[0]  integrate.romb(y)  integrate.simpson(y)
integrate.solve_bvp(lambda t, u: u, lambda a, b: a - y[0], p, q[None])
integrate.solve_ivp(lambda t, u: -y[0] * u, (0, 1), y[1:3], t_eval=[1.0]).y
integrate.tanhsinh(lambda t: y[0] * t, 0.0, 1.0)
integrate.tplquad(lambda u, v, w: u * v * w * y[0], 0, y[1], 0, 1, 0, 1)[0] + 0 * y
integrate.trapezoid(y)
"""
NO_ARRAYS = "newton_cotes lebedev_rule"


def public():
    """Its functions."""
    found = ((name, getattr(scipy.integrate, name)) for name in scipy.integrate.__all__)
    return sorted(name for name, f in found if callable(f) and not isinstance(f, type))
