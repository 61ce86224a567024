"""A truss, assembled bar by bar: its sag, differentiated by the cross-sections of its bars."""

import numpy as np

NODES = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [0.5, 0.8], [1.5, 0.8], [2.5, 0.8]])
BARS = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (0, 4), (4, 1), (1, 5), (5, 2), (2, 6), (6, 3)]
FREE = [i for i in range(14) if i not in (0, 1, 7)]
LOAD = np.zeros(14)
LOAD[[3, 5]] = -1.0


def displacements(areas):
    k = np.zeros((14, 14))
    for area, (i, j) in zip(areas, BARS, strict=True):
        d = NODES[j] - NODES[i]
        length = np.linalg.norm(d)
        c = np.outer(d, d) / length**3 * area
        for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            k[2 * a : 2 * a + 2, 2 * b : 2 * b + 2] += sign * c
    u = np.zeros(14)
    u[FREE] = np.linalg.solve(k[np.ix_(FREE, FREE)], LOAD[FREE])
    return u


def objective(areas):
    """The work of the loads."""
    return LOAD @ displacements(areas)


ARGUMENT = np.ones(len(BARS))


def draw(axes, gradient):
    moved = NODES + 0.05 * displacements(ARGUMENT).reshape(-1, 2)
    for (i, j), g in zip(BARS, gradient, strict=True):
        axes.plot(*NODES[[i, j]].T, color="0.8")
        axes.plot(*moved[[i, j]].T, "b", lw=0.5 + 4 * g / gradient.min())
    axes.set_title("width: what more material would save")
    axes.set_aspect("equal")
