"""A Kalman filter: the likelihood of noisy positions, differentiated by the noise levels."""

import numpy as np

RNG = np.random.default_rng(3)
TIMES = np.arange(30)
POSITIONS = np.cumsum(np.cumsum(0.1 * RNG.normal(size=30))) + RNG.normal(size=30)


def filtered(log_noise):
    process, measured = np.exp(log_noise)
    f = np.array([[1.0, 1.0], [0.0, 1.0]])
    h = np.array([1.0, 0.0])
    x, p = np.zeros(2), 10 * np.eye(2)
    likelihood, path = 0.0, np.zeros(30)
    for t, z in enumerate(POSITIONS):
        x = f @ x
        p = f @ p @ f.T + process * np.array([[0.25, 0.5], [0.5, 1.0]])
        s = h @ p @ h + measured
        gain = p @ h / s
        rest = z - h @ x
        likelihood -= 0.5 * (np.log(2 * np.pi * s) + rest**2 / s)
        x = x + gain * rest
        p = p - np.outer(gain, h @ p)
        path[t] = x[0]
    return likelihood, path


def objective(log_noise):
    """The log-likelihood."""
    return filtered(log_noise)[0]


ARGUMENT = np.array([-3.0, 0.5])


def draw(axes, gradient):
    axes.plot(TIMES, POSITIONS, "k.", label="measured")
    axes.plot(TIMES, filtered(ARGUMENT)[1], label="filtered")
    axes.set_title(f"by process and measurement: {gradient[0]:.2f}, {gradient[1]:.2f}")
    axes.legend()
