"""A sparsity pattern: which rates depend on which concentrations, found from the equations."""

import numpy as np
from scipy.integrate import solve_ivp

from functrans import jacobian, jit, sparsity

SIDE = 8


def reaction(t, state):
    """The Brusselator: two substances react and spread on a grid that is a torus."""
    u, v = state.reshape(2, SIDE, SIDE)

    def spread(w):
        sides = [np.roll(w, step, axis) for axis in (0, 1) for step in (-1, 1)]
        return sum(sides) - 4 * w

    du = 1 + u**2 * v - 4.4 * u + 0.2 * spread(u)
    dv = 3.4 * u - u**2 * v + 0.2 * spread(v)
    return np.concatenate([du.ravel(), dv.ravel()])


def solution():
    """The pattern, and the path by a method that takes the sparse Jacobian."""
    start = np.random.default_rng(0).uniform(0.5, 1.5, 2 * SIDE**2)
    pattern = sparsity(reaction, argnums=1)(0.0, start)
    slope = jit(jacobian(reaction, argnums=1, sparse=True))
    path = solve_ivp(jit(reaction), (0.0, 5.0), start, method="BDF", jac=slope, rtol=1e-6)
    return pattern, path


def draw(axes):
    pattern, path = solution()
    axes.spy(pattern, markersize=1.5, color="C0")
    axes.set_xticks([0, SIDE**2], ["u", "v"])
    axes.set_yticks([0, SIDE**2], ["du/dt", "dv/dt"])
    axes.set_title(f"{pattern.nnz} of {pattern.shape[0] ** 2:,} slopes, {path.nlu} factorisations")
