"""Rates of a chain of reactions, fitted to measurements through an ODE solver."""

import numpy as np
import scipy.integrate

TIMES = np.linspace(0.5, 8.0, 10)
TRUE = np.array([0.9, 0.4])


def reactions(t, y, fast, slow):
    a, b = y[:2]
    return np.array([-fast * a, fast * a - slow * b, slow * b])


def concentrations(rates, times=TIMES):
    solution = scipy.integrate.solve_ivp(
        reactions,
        (0.0, 8.0),
        [1.0, 0.0, 0.0],
        t_eval=times,
        args=tuple(rates),
        rtol=1e-8,
        atol=1e-8,
    )
    return solution.y


MEASURED = concentrations(TRUE) + 0.02 * np.random.default_rng(7).normal(size=(3, 10))


def objective(rates):
    """The sum of the squares of what does not fit."""
    return np.sum((concentrations(rates) - MEASURED) ** 2)


ARGUMENT = np.array([0.6, 0.6])


def draw(axes, gradient):
    fine = np.linspace(0, 8, 100)
    for y, seen, colour in zip(concentrations(ARGUMENT, fine), MEASURED, "bgr", strict=True):
        axes.plot(fine, y, colour)
        axes.plot(TIMES, seen, colour + ".")
    axes.set_title(f"gradient: {gradient[0]:.3f}, {gradient[1]:.3f}")
