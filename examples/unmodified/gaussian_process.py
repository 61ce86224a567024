"""A Gaussian process: the likelihood of data, differentiated by the scales of its kernel."""

import numpy as np

RNG = np.random.default_rng(4)
X = np.sort(RNG.uniform(0, 5, 20))
Y = np.sin(2 * X) + 0.1 * RNG.normal(size=20)
FINE = np.linspace(0, 5, 100)


def kernel(a, b, scale, height):
    return height**2 * np.exp(-0.5 * (a[:, None] - b[None, :]) ** 2 / scale**2)


def objective(log_scales):
    """The log-likelihood."""
    scale, height, noise = np.exp(log_scales)
    k = kernel(X, X, scale, height) + noise**2 * np.eye(len(X))
    lower = np.linalg.cholesky(k)
    weights = np.linalg.solve(lower.T, np.linalg.solve(lower, Y))
    return -0.5 * Y @ weights - np.sum(np.log(np.diag(lower))) - 10 * np.log(2 * np.pi)


def mean(log_scales):
    scale, height, noise = np.exp(log_scales)
    k = kernel(X, X, scale, height) + noise**2 * np.eye(len(X))
    return kernel(FINE, X, scale, height) @ np.linalg.solve(k, Y)


ARGUMENT = np.log([0.7, 1.0, 0.2])


def draw(axes, gradient):
    axes.plot(X, Y, "k.")
    axes.plot(FINE, mean(ARGUMENT))
    axes.plot(FINE, mean(ARGUMENT + 0.02 * gradient), "--")
    axes.set_title("the mean, and that after a step uphill")
