"""Option Greeks: the sensitivities of a price, from its formula and from simulated paths."""

import numpy as np
from scipy.special import ndtr

from functrans import grad, jit, value_and_grad, vmap

STRIKE, YEARS = 100.0, 1.0


def price(spot, volatility, rate):
    """The price of a European call by Black and Scholes."""
    spread = volatility * np.sqrt(YEARS)
    d = (np.log(spot / STRIKE) + rate * YEARS) / spread + spread / 2
    return spot * ndtr(d) - STRIKE * np.exp(-rate * YEARS) * ndtr(d - spread)


def simulated(spot, volatility, rate, noise):
    """The price from paths; its derivative is taken path by path."""
    drift = (rate - volatility**2 / 2) * YEARS
    end = spot * np.exp(drift + volatility * np.sqrt(YEARS) * noise)
    return np.exp(-rate * YEARS) * np.mean(np.maximum(end - STRIKE, 0.0))


delta = grad(price)
gamma = grad(delta)
vega = grad(price, argnums=1)


def solution():
    """Price, delta, vega and rho by the formula and by paths."""
    at = (105.0, 0.25, 0.03)
    noise = np.random.default_rng(0).normal(size=400_000)
    exact = jit(value_and_grad(price, argnums=(0, 1, 2)))(*at)
    by_paths = jit(value_and_grad(simulated, argnums=(0, 1, 2)))(*at, noise)
    return np.array([exact[0], *exact[1]]), np.array([by_paths[0], *by_paths[1]])


def draw(axes):
    spots = np.linspace(50.0, 170.0, 200)
    for name, greek, scale in (("delta", delta, 1), ("gamma", gamma, 30), ("vega", vega, 1 / 50)):
        values = jit(vmap(greek, in_axes=(0, None, None)))(spots, 0.25, 0.03)
        axes.plot(spots, scale * values, label=name if scale == 1 else f"{name} × {scale:g}")
    axes.legend(fontsize=7)
    axes.set_xlabel("spot")
    axes.set_title("Greeks of a call")
