"""`scipy.integrate`: differential equations, integrals of functions, integrals of samples."""

from functrans.scipy.entries import namespace as _namespace
from functrans.scipy.inside import all_refused
from functrans.scipy.integrate.initial_value import odeint, solve_ivp
from functrans.scipy.integrate.quadrature import dblquad, fixed_quad, nquad, quad, quad_vec, tplquad

_REFUSED = {
    "cubature": "use nquad",
    "nsum": "sum the terms that count by np.sum",
    "qmc_quad": "use nquad, or np.mean over points of functrans.random",
    "solve_bvp": "write the collocation equations down, and solve them by "
    "functrans.scipy.optimize.root",
    "tanhsinh": "use quad, or quad_vec",
}

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint",
    "quad", "quad_vec", "romb", "simpson", "solve_ivp", "tplquad", "trapezoid", *_REFUSED,
]  # fmt: skip

globals().update(all_refused("scipy.integrate", _REFUSED))

__getattr__, __dir__ = _namespace("integrate", __all__)
