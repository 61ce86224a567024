"""A hidden Markov model: the likelihood of the observations, by the forward algorithm."""

import numpy as np

SEEN = np.array([0, 0, 1, 2, 2, 2, 1, 0, 0, 1, 2, 2, 1, 1, 0, 0, 0, 2, 2, 2])


def log_normalised(x):
    m = np.max(x, axis=-1, keepdims=True)
    return x - m - np.log(np.sum(np.exp(x - m), axis=-1, keepdims=True))


def forward(parameters):
    start = log_normalised(parameters[:2])
    turn = log_normalised(parameters[2:6].reshape(2, 2))
    emit = log_normalised(parameters[6:].reshape(2, 3))
    alpha = start + emit[:, SEEN[0]]
    alphas = [alpha]
    for o in SEEN[1:]:
        alpha = np.logaddexp(alpha[0] + turn[0], alpha[1] + turn[1]) + emit[:, o]
        alphas.append(alpha)
    return np.array(alphas)


def objective(parameters):
    """The log-likelihood."""
    last = forward(parameters)[-1]
    return np.logaddexp(last[0], last[1])


ARGUMENT = np.array([0.1, 0.0, 1.0, -1.0, -0.5, 0.8, 1.0, 0.2, -0.7, -1.0, 0.0, 0.9])


def draw(axes, gradient):
    axes.plot(np.exp(log_normalised(forward(ARGUMENT)))[:, 1], label="probability of state 1")
    axes.plot(SEEN / 2, "k.", label="seen / 2")
    axes.set_title(f"steepest: parameter {np.argmax(np.abs(gradient))}")
    axes.legend()
