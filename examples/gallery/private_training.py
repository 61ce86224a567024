"""Differentially private training: each gradient is clipped, and noise is added (DP-SGD)."""

import numpy as np

from functrans import grad, jit, lax, random, train

COUNT, CLIP, NOISE, STEPS, RATE = 400, 0.5, 8.0, 200, 0.5


def data():
    """Two clouds of points in the plane, and which one each is of."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, COUNT)
    x = rng.normal(size=(COUNT, 2)) + np.where(label, 1.2, -1.2)[:, None] * [1.0, 0.6]
    return np.hstack([x, np.ones((COUNT, 1))]), label * 2.0 - 1.0


def loss(w, x, y):
    """Logistic loss of one example."""
    return np.logaddexp(0.0, -y * (x @ w))


@jit(static_argnames="is_private")
def trained(x, y, is_private):
    """The weights after each step, by all gradients together or by private ones."""
    clip = CLIP if is_private else np.inf
    gradient = train.per_sample_clipped(grad(loss), clip)

    def step(w, key):
        noise = CLIP * NOISE / COUNT * random.normal(key, (3,)) if is_private else 0.0
        w = w - RATE * (gradient(w, x, y) + noise)
        return w, w

    return lax.scan(step, np.zeros(3), random.split(random.key(1), STEPS))[1]


def solution():
    """The data, and the accuracy after each step: private, and not."""
    x, y = data()
    paths = [trained(x, y, is_private=flag) for flag in (True, False)]
    return x, y, paths, [np.mean((x @ w.T > 0) == (y > 0)[:, None], axis=0) for w in paths]


def draw(axes):
    x, y, paths, accuracy = solution()
    for label, color in ((1.0, "tab:blue"), (-1.0, "tab:orange")):
        axes.plot(*x[y == label][:, :2].T, ".", ms=3, color=color)
    for w, style in zip((path[-1] for path in paths), ("k", "k:"), strict=True):
        across = np.array([-4.0, 4.0])
        axes.plot(across, -(w[0] * across + w[2]) / w[1], style)
    axes.set_xlim(-4, 4)
    axes.set_ylim(-4, 4)
    axes.set_title(f"accuracy {accuracy[0][-1]:.1%}, without privacy {accuracy[1][-1]:.1%}")
