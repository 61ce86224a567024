"""Bundle adjustment: camera poses and points in space, found from pictures of the points."""

import numpy as np
import scipy.optimize

from functrans import jacfwd, jit

CAMERAS, POINTS, NOISE, BASELINE = 4, 30, 1e-3, 0.4


def rotated(turn, x):
    """Rodrigues' formula: points turned by a rotation vector."""
    angle = np.sqrt(turn @ turn + 1e-20)
    axis = turn / angle
    return (
        x * np.cos(angle)
        + np.cross(axis, x) * np.sin(angle)
        + axis * (x @ axis)[..., None] * (1 - np.cos(angle))
    )


def picture(camera, points):
    """Where a camera, a rotation vector and a place, sees points."""
    seen = rotated(camera[:3], points) + camera[3:]
    return seen[:, :2] / seen[:, 2:]


def truth():
    rng = np.random.default_rng(3)
    points = rng.uniform(-1, 1, size=(POINTS, 3))
    cameras = np.zeros((CAMERAS, 6))
    cameras[:, 1] = np.linspace(-0.6, 0.6, CAMERAS)
    cameras[:, 3] = BASELINE * (np.arange(CAMERAS) - (CAMERAS - 1) / 2)
    cameras[:, 5] = 5.0
    return cameras, points


def errors(unknowns, pictures, first):
    """The errors in the pictures; the first camera, and how far off the next is, are known."""
    cameras = np.concatenate([first[None], unknowns[: 6 * (CAMERAS - 1)].reshape(-1, 6)])
    points = unknowns[6 * (CAMERAS - 1) :].reshape(POINTS, 3)
    off = np.stack([picture(c, points) for c in cameras]) - pictures
    scale = np.linalg.norm(cameras[1, 3:] - cameras[0, 3:]) - BASELINE
    return np.concatenate([off.reshape(-1), scale[None]])


def solution():
    """The points, those that were found, and the error in the pictures at the start and the end."""
    rng = np.random.default_rng(4)
    cameras, points = truth()
    pictures = np.stack([picture(c, points) for c in cameras])
    pictures = pictures + NOISE * rng.normal(size=pictures.shape)
    start = np.concatenate([
        (cameras[1:] + 0.03 * rng.normal(size=(CAMERAS - 1, 6))).reshape(-1),
        (points + 0.2 * rng.normal(size=points.shape)).reshape(-1),
    ])  # fmt: skip
    off = jit(errors)
    found = scipy.optimize.least_squares(
        off, start, jac=jit(jacfwd(errors)), args=(pictures, cameras[0])
    )
    rms = [np.sqrt(np.mean(off(x, pictures, cameras[0])[:-1] ** 2)) for x in (start, found.x)]
    return points, found.x[6 * (CAMERAS - 1) :].reshape(POINTS, 3), rms


def draw(axes):
    points, found, rms = solution()
    axes.plot(points[:, 0], points[:, 2], "o", mfc="none", color="0.5", label="points")
    axes.plot(found[:, 0], found[:, 2], "b.", label="found")
    axes.legend(loc="lower left", fontsize=7)
    axes.set_title(f"error in the pictures {rms[0]:.3f} → {rms[1]:.4f}")
