"""Tomography: an image from projections, by the gradients of a misfit and of total variation."""

import numpy as np
import scipy.ndimage
import scipy.optimize

from functrans import jit, value_and_grad

SIDE, ANGLES = 32, 18


def phantom():
    x, y = np.meshgrid(*[np.linspace(-1, 1, SIDE)] * 2, indexing="ij")
    body = ((x / 0.8) ** 2 + (y / 0.6) ** 2 < 1) * 1.0
    hole = (x - 0.2) ** 2 + (y + 0.1) ** 2 < 0.05
    return body - 0.6 * hole + 0.5 * (np.hypot(x + 0.4, y) < 0.15)


def shadows(image):
    """Sums along rays, from each angle: how many there are of a Radon transform."""
    turned = [
        scipy.ndimage.rotate(image, angle, reshape=False, order=1)
        for angle in np.linspace(0, 180, ANGLES, endpoint=False)
    ]
    return np.stack([image.sum(axis=0) for image in turned])


def objective(flat, measured):
    image = flat.reshape(SIDE, SIDE)
    across, down = np.diff(image, axis=0)[:, :-1], np.diff(image, axis=1)[:-1]
    variation = np.sum(np.sqrt(across**2 + down**2 + 1e-4))
    return np.sum((shadows(image) - measured) ** 2) + 0.3 * variation


def solution():
    """The picture, its noisy shadows, and the picture that is found."""
    image = phantom()
    measured = shadows(image)
    measured = measured + 0.2 * np.random.default_rng(0).normal(size=measured.shape)
    found = scipy.optimize.minimize(
        jit(value_and_grad(objective)), np.zeros(SIDE * SIDE), args=(measured,), jac=True,
        method="L-BFGS-B", bounds=[(0, None)] * SIDE**2, options={"maxiter": 100},
    )  # fmt: skip
    return image, measured, found.x.reshape(SIDE, SIDE)


def draw(axes):
    image, _, found = solution()
    axes.imshow(np.hstack([image, found]), cmap="gray")
    axes.axis("off")
    error = np.linalg.norm(found - image) / np.linalg.norm(image)
    axes.set_title(f"a picture, and from {ANGLES} shadows (error {error:.0%})")
