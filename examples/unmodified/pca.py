"""Principal components by the SVD: the unexplained variance, differentiated by the data."""

import numpy as np

RNG = np.random.default_rng(6)
DATA = RNG.normal(size=(30, 2)) @ np.array([[2.0, 0.8], [0.0, 0.5]]) + np.array([1.0, -1.0])


def components(data):
    centred = data - np.mean(data, axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    return sizes**2 / len(data), axes


def objective(data):
    """The share of the variance that the first component does not have."""
    variances, _ = components(data)
    return variances[1] / np.sum(variances)


ARGUMENT = DATA


def draw(axes, gradient):
    axes.plot(*DATA.T, "k.")
    axes.quiver(*DATA.T, *gradient.T, color="b", width=0.004)
    middle = DATA.mean(axis=0)
    variances, directions = components(DATA)
    for size, d in zip(np.sqrt(variances), directions, strict=True):
        axes.plot(*np.stack([middle, middle + 2 * size * d]).T, "r")
    axes.set_aspect("equal")
