"""Meta-learning (MAML): initial parameters that adapt in one step, by gradients of gradients."""

import numpy as np

from functrans import grad, jit, lax, random, train, value_and_grad, vmap

WIDTH, TASKS, STEPS, INNER = 32, 16, 2500, 0.02


def network(params, x):
    (a, b), (c, d), (e, f) = params
    h = np.tanh(np.outer(x, a) + b)
    return np.tanh(h @ c + d) @ e + f


def error(params, x, y):
    return np.mean((network(params, x) - y) ** 2)


def adapted(params, x, y):
    """The parameters after a step on a few points of a task."""
    gradient = grad(error)(params, x, y)
    return tuple(
        tuple(p - INNER * g for p, g in zip(ps, gs, strict=True))
        for ps, gs in zip(params, gradient, strict=True)
    )


def task(key):
    """Points of a sine of some size and phase: ten to learn from, and ten to judge by."""
    of_size, of_phase, of_places = random.split(key, 3)
    size = random.uniform(of_size, minval=0.5, maxval=3.0)
    phase = random.uniform(of_phase, minval=0.0, maxval=np.pi)
    x = random.uniform(of_places, (20,), minval=-4.0, maxval=4.0)
    y = size * np.sin(x + phase)
    return x[:10], y[:10], x[10:], y[10:]


def after_a_step(params, key):
    x, y, x_new, y_new = task(key)
    return error(adapted(params, x, y), x_new, y_new)


def loss(params, keys):
    return np.mean(vmap(after_a_step, in_axes=(None, 0))(params, keys))


def start():
    rng = np.random.default_rng(0)
    return (
        (rng.normal(size=WIDTH), rng.normal(size=WIDTH)),
        (rng.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH), np.zeros(WIDTH)),
        (rng.normal(size=WIDTH) / np.sqrt(WIDTH), np.float64(0.0)),
    )


@jit
def trained(params):
    optimiser = train.adam(3e-3)

    def step(carry, key):
        params, state = carry
        value, gradient = value_and_grad(loss)(params, random.split(key, TASKS))
        updates, state = optimiser.update(gradient, state)
        return (train.apply_updates(params, updates), state), value

    keys = random.split(random.key(0), STEPS)
    (params, _), losses = lax.scan(step, (params, optimiser.init(params)), keys)
    return params, losses


def solution():
    """The parameters, and the error on new tasks after a step: from them, and from the start."""
    params, _ = trained(start())
    keys = random.split(random.key(7), 200)
    return params, [float(jit(loss)(p, keys)) for p in (start(), params)]


def draw(axes):
    params, errors = solution()
    x, y, _, _ = task(random.key(5))
    dense = np.linspace(-4, 4, 100)
    axes.plot(x, y, "k.", label="ten points")
    axes.plot(dense, network(params, dense), "0.7", label="before")
    axes.plot(dense, network(adapted(params, x, y), dense), "b", label="after one step")
    axes.legend(fontsize=7)
    axes.set_title(f"error after a step {errors[0]:.1f} → {errors[1]:.2f}")
