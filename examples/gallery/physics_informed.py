"""A physics-informed network: its own derivatives enter the differential equation it learns."""

import numpy as np

from functrans import grad, jit, lax, train, value_and_grad, vmap

WIDTH, STEPS = 20, 3000
POINTS = np.linspace(0.0, 1.0, 40)


def network(params, x):
    """A number of a number; zero at both ends, as the solution is."""
    first, second, last = params
    h = np.tanh(first[0] * x + first[1])
    h = np.tanh(second[0] @ h + second[1])
    return x * (1 - x) * (last @ h)


def residual(params, x):
    """What is left of u'' + 9 u = sin(7 x)."""
    second = grad(grad(network, argnums=1), argnums=1)(params, x)
    return second + 9.0 * network(params, x) - np.sin(7.0 * x)


def loss(params):
    return np.mean(vmap(residual, in_axes=(None, 0))(params, POINTS) ** 2)


def start():
    rng = np.random.default_rng(1)
    return (
        (3.0 * rng.normal(size=WIDTH), rng.normal(size=WIDTH)),
        (rng.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH), np.zeros(WIDTH)),
        rng.normal(size=WIDTH) / WIDTH,
    )


@jit
def trained(params):
    """The parameters after many steps of Adam, and the loss before each."""

    def step(carry, rate):
        params, state = carry
        optimiser = train.adam(rate)
        value, gradient = value_and_grad(loss)(params)
        updates, state = optimiser.update(gradient, state)
        return (train.apply_updates(params, updates), state), value

    # with a constant rate, steps of Adam grow again once gradients are small
    rates = np.linspace(3e-3, 0.0, STEPS, endpoint=False)
    (params, _), losses = lax.scan(step, (params, train.adam(0.0).init(params)), rates)
    return params, losses


def exact(x):
    forced = -np.sin(7.0 * x) / 40.0
    return forced + np.sin(7.0) / 40.0 * np.sin(3.0 * x) / np.sin(3.0)


def solution():
    """Places, what the network gives there, and the losses on the way."""
    params, losses = trained(start())
    x = np.linspace(0.0, 1.0, 101)
    return x, vmap(network, in_axes=(None, 0))(params, x), losses


def draw(axes):
    x, u, losses = solution()
    axes.plot(x, exact(x), "0.7", lw=4, label="exact")
    axes.plot(x, u, "b--", label="network")
    axes.legend(fontsize=7)
    axes.set_title(f"u'' + 9u = sin 7x, loss {losses[-1]:.0e}")
