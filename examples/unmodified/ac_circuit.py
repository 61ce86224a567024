"""A ladder filter by nodal analysis with complex impedances, and its sensitivities."""

import numpy as np

FREQUENCIES = np.geomspace(1e2, 1e5, 60)
VALUES = np.array([100.0, 1e-6, 150.0, 4.7e-7, 10e-3, 1e3])  # r1, c1, r2, c2, l, load


def gains(values):
    r1, c1, r2, c2, inductance, load = values
    result = []
    for f in FREQUENCIES:
        s = 2j * np.pi * f
        y = np.zeros((3, 3), complex)
        y[0, 0] = 1 / r1 + s * c1 + 1 / r2
        y[0, 1] = y[1, 0] = -1 / r2
        y[1, 1] = 1 / r2 + s * c2 + 1 / (s * inductance)
        y[1, 2] = y[2, 1] = -1 / (s * inductance)
        y[2, 2] = 1 / (s * inductance) + 1 / load
        currents = np.array([1 / r1, 0, 0])
        result.append(np.abs(np.linalg.solve(y, currents)[2]))
    return np.array(result)


def objective(log_values):
    """The distance to a filter that halves everything above a kilohertz."""
    wanted = np.where(FREQUENCIES < 1e3, 0.8, 0.2)
    return np.sum((gains(np.exp(log_values)) - wanted) ** 2)


ARGUMENT = np.log(VALUES)


def draw(axes, gradient):
    axes.loglog(FREQUENCIES, gains(VALUES), label="gain")
    better = np.exp(ARGUMENT - 0.05 * gradient / np.linalg.norm(gradient) * 4)
    axes.loglog(FREQUENCIES, gains(better), "--", label="after a step down")
    axes.set_xlabel("Hz")
    axes.legend()
