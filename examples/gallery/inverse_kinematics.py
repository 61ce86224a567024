"""Inverse kinematics: the angles of an arm that reaches many points, by Gauss-Newton."""

import numpy as np

from functrans import jacfwd, jit, lax, vmap

LENGTHS = np.array([1.0, 0.8, 0.6, 0.4])
START = np.array([0.5, 0.5, 0.5, 0.5])


def joints(angles):
    """Where the joints are, and at the end the hand: one row each."""
    direction = np.cumsum(angles)
    steps = LENGTHS[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


def reach(target):
    """The angles that bring the hand to a point, by damped Gauss-Newton steps."""

    def off(angles):
        return joints(angles)[-1] - target

    def step(i, angles):
        jacobian = jacfwd(off)(angles)
        normal = jacobian.T @ jacobian + 1e-3 * np.eye(len(angles))
        return angles - np.linalg.solve(normal, jacobian.T @ off(angles))

    return lax.fori_loop(0, 50, step, START)


def solution():
    """Targets on a circle, the angles for each, and how far each hand is off."""
    turns = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    targets = np.stack([1.2 + 0.7 * np.cos(turns), 0.9 + 0.7 * np.sin(turns)], axis=1)
    angles = jit(vmap(reach))(targets)
    hands = np.stack([joints(a)[-1] for a in angles])
    return targets, angles, np.linalg.norm(hands - targets, axis=1)


def draw(axes):
    targets, angles, off = solution()
    for a in angles[::3]:
        axes.plot(*joints(a).T, "o-", color="0.6", lw=1, ms=3)
    axes.plot(*targets.T, "b.", ms=5)
    axes.set_aspect("equal")
    axes.set_title(f"24 targets, at most {off.max():.0e} off")
