"""Hamiltonian Monte Carlo: a hundred chains sample a distribution, guided by its gradient."""

import numpy as np

from functrans import grad, jit, lax, random, vmap

STEP, LEAPS, DRAWS, CHAINS = 0.15, 12, 400, 100


def log_density(x):
    """A banana: x[0] is normal with variance 1, and x[1] is normal around x[0]^2 - 1."""
    return -0.5 * x[0] ** 2 - 2.0 * (x[1] - x[0] ** 2 + 1.0) ** 2


def leapfrog(x, p):
    """A path of constant energy, nearly."""
    p = p + 0.5 * STEP * grad(log_density)(x)

    def leap(i, state):
        x, p = state
        x = x + STEP * p
        return x, p + STEP * grad(log_density)(x)

    x, p = lax.fori_loop(0, LEAPS, leap, (x, p))
    return x, p - 0.5 * STEP * grad(log_density)(x)


def chain(key):
    """Draws of one chain, and whether each proposal was taken."""

    def draw_one(x, key):
        of_momentum, of_choice = random.split(key)
        p = random.normal(of_momentum, (2,))
        y, q = leapfrog(x, p)
        gain = log_density(y) - log_density(x) - 0.5 * (q @ q - p @ p)
        taken = np.log(random.uniform(of_choice)) < gain
        x = np.where(taken, y, x)
        return x, (x, taken)

    return lax.scan(draw_one, np.zeros(2), random.split(key, DRAWS))[1]


def solution():
    """All draws but the first hundred of each chain, and the rate of proposals that were taken."""
    draws, taken = jit(vmap(chain))(random.split(random.key(0), CHAINS))
    return draws[:, 100:].reshape(-1, 2), taken.mean()


def draw(axes):
    draws, rate = solution()
    axes.plot(*draws[::10].T, "b.", ms=1)
    axes.set_title(f"{len(draws)} draws, {rate:.0%} taken")
