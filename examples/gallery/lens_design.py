"""Lens design: two surfaces that focus parallel rays, found by derivatives of refraction."""

import numpy as np
import scipy.optimize

from functrans import jacfwd, jit

GLASS, THICKNESS, SCREEN = 1.5, 1.0, 11.0
HEIGHTS = np.linspace(-2.0, 2.0, 41)


def surface(shape, y):
    """How far a surface is ahead of its vertex: a parabola and a term of fourth order."""
    return shape[0] * y**2 + shape[1] * y**4


def met(shape, vertex, x, y, slope):
    """Where a ray meets a surface, by steps of Newton's method."""
    at = vertex + surface(shape, y)
    for _ in range(8):
        height = y + slope * (at - x)
        f = vertex + surface(shape, height) - at
        rate = (2 * shape[0] * height + 4 * shape[1] * height**3) * slope - 1
        at = at - f / rate
    return at, y + slope * (at - x)


def refracted(shape, y, slope, before, after):
    """The slope of a ray behind a surface, by Snell's law in vectors."""
    tilt = 2 * shape[0] * y + 4 * shape[1] * y**3
    normal = np.stack([-np.ones_like(tilt), tilt]) / np.sqrt(1 + tilt**2)
    ray = np.stack([np.ones_like(slope), slope]) / np.sqrt(1 + slope**2)
    ratio = before / after
    cos = -np.sum(normal * ray, axis=0)
    ray = ratio * ray + (ratio * cos - np.sqrt(1 - ratio**2 * (1 - cos**2))) * normal
    return ray[1] / ray[0]


def traced(shapes):
    """The corners of the paths of rays: places along the axis, and heights."""
    start = np.full_like(HEIGHTS, -2.0)
    x1, y1 = met(shapes[:2], 0.0, start, HEIGHTS, np.zeros_like(HEIGHTS))
    inside = refracted(shapes[:2], y1, np.zeros_like(HEIGHTS), 1.0, GLASS)
    x2, y2 = met(shapes[2:], THICKNESS, x1, y1, inside)
    behind = refracted(shapes[2:], y2, inside, GLASS, 1.0)
    end = np.full_like(HEIGHTS, SCREEN)
    return np.stack([start, x1, x2, end]), np.stack([HEIGHTS, y1, y2, y2 + behind * (end - x2)])


def heights(shapes):
    """Where the rays meet the screen: a sharp lens has them all in one place."""
    return traced(shapes)[1][-1]


START = np.array([0.02, 0.0, -0.02, 0.0])


def solution():
    """The shapes that were found, and the size of the spot at the start and the end."""
    found = scipy.optimize.least_squares(jit(heights), START, jac=jit(jacfwd(heights)), xtol=1e-12)
    return found.x, [np.sqrt(np.mean(heights(shapes) ** 2)) for shapes in (START, found.x)]


def draw(axes):
    shapes, sizes = solution()
    x, y = traced(shapes)
    axes.plot(x[:, ::4], y[:, ::4], "b", lw=0.6)
    h = np.linspace(-2.2, 2.2, 100)
    for vertex, shape in ((0.0, shapes[:2]), (THICKNESS, shapes[2:])):
        axes.plot(vertex + surface(shape, h), h, "k")
    axes.set_title(f"the spot: {sizes[0]:.2f} → {sizes[1]:.0e}")
