"""A natural cubic spline: the length of the curve, differentiated by the heights of its knots."""

import numpy as np
import scipy.interpolate

KNOTS = np.array([0.0, 0.7, 1.5, 2.2, 3.1, 4.0])
HEIGHTS = np.array([0.0, 1.0, 0.2, -0.6, 0.3, 0.0])
FINE = np.linspace(0, 4, 200)


def curve(heights):
    return scipy.interpolate.CubicSpline(KNOTS, heights, bc_type="natural")


def objective(heights):
    """The length."""
    slope = curve(heights)(FINE, 1)
    return np.trapezoid(np.sqrt(1 + slope**2), FINE)


ARGUMENT = HEIGHTS


def draw(axes, gradient):
    axes.plot(FINE, curve(HEIGHTS)(FINE))
    axes.plot(KNOTS, HEIGHTS, "o")
    axes.quiver(KNOTS, HEIGHTS, np.zeros(6), -gradient, angles="xy", scale=20, width=0.006)
