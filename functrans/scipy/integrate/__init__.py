"""`scipy.integrate`: differential equations, integrals of functions, integrals of samples."""

from functrans.scipy.inside import refused
from functrans.scipy.integrate.initial_value import odeint, solve_ivp
from functrans.scipy.integrate.quadrature import dblquad, fixed_quad, nquad, quad, quad_vec, tplquad
from functrans.scipy.integrate.samples import (
    cumulative_simpson,
    cumulative_trapezoid,
    romb,
    simpson,
    trapezoid,
)

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint",
    "quad", "quad_vec", "romb", "simpson", "solve_bvp", "solve_ivp", "tplquad", "trapezoid",
]  # fmt: skip

solve_bvp = refused(
    "scipy.integrate:solve_bvp",
    "write the collocation equations down, and solve them by functrans.scipy.optimize.root",
)
