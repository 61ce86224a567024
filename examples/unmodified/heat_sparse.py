"""Heat in a rod, by a sparse solver: the temperature at a sensor, differentiated by the sources."""

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

POINTS = 60
LAPLACIAN = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(POINTS, POINTS))
STEP = (scipy.sparse.eye_array(POINTS) - 5.0 * LAPLACIAN).tocsc()
SENSOR = 15


def temperatures(sources, steps=20):
    u = np.zeros(POINTS)
    for _ in range(steps):
        u = scipy.sparse.linalg.spsolve(STEP, u + sources)
    return u - 0.1 * (LAPLACIAN @ u)


def objective(sources):
    """The temperature of the sensor."""
    return temperatures(sources)[SENSOR]


ARGUMENT = np.exp(-0.5 * ((np.arange(POINTS) - 40) / 3.0) ** 2)


def draw(axes, gradient):
    axes.plot(temperatures(ARGUMENT), label="temperature")
    axes.plot(gradient, "k--", label="what the sensor sees")
    axes.axvline(SENSOR, color="0.8")
    axes.legend()
