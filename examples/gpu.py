"""Sums of a million options on a GPU, if there is one: values and Greeks, computed where they are.

Each option is priced by Black and Scholes' formula; its delta, gamma and vega are derivatives of
that, and `vmap` gives them for all options at once. The arrays are put on the device once, and the
results stay there until somebody looks at them. Without a GPU the same lines run on the CPU, and
what would run on a GPU is shown all the same: its kernels, and how many bytes they move.

Run it with ``python examples/gpu.py``.
"""

from time import perf_counter

import numpy as np

import functrans
from functrans import grad, jit, vmap
from functrans.scipy.special import ndtr


def price(spot, volatility, strike, years, rate):
    """The value of a call."""
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation
    return spot * ndtr(d1) - strike * np.exp(-rate * years) * ndtr(d1 - deviation)


def greeks(spot, volatility, strike, years, rate):
    """The value of a call, its delta, gamma and vega."""
    at = (spot, volatility, strike, years, rate)
    delta = grad(price)
    return price(*at), delta(*at), grad(delta)(*at), grad(price, argnums=1)(*at)


def options(count):
    """Some options."""
    rng = np.random.default_rng(0)
    return (
        rng.uniform(80, 120, count),
        rng.uniform(0.1, 0.5, count),
        rng.uniform(80, 120, count),
        rng.uniform(0.1, 2.0, count),
        np.full(count, 0.03),
    )


def main(count=1_000_000):
    where = functrans.devices()[-1]
    book = functrans.device_put(options(count), where)
    of_all = jit(vmap(greeks))
    totals = jit(lambda *book: [np.sum(x) for x in vmap(greeks)(*book)])

    names = ("value", "delta", "gamma", "vega")
    found = dict(zip(names, map(float, totals(*book)), strict=True))
    start = perf_counter()
    [float(x) for x in totals(*book)]
    seconds = perf_counter() - start

    print(f"{count:,} options on {where}: {seconds * 1e3:.2f} ms")
    for name, total in found.items():
        print(f"  total {name:6} {total:18,.2f}")

    lowered = of_all.lower(*book, device="cuda")
    costs = lowered.cost().nests
    moved = sum(one.bytes_read + one.bytes_written for one in costs)
    print(
        f"on a GPU, all Greeks of all options: {len(costs)} kernel(s), {moved / 1e6:.0f} MB moved"
    )
    return found


if __name__ == "__main__":
    main()
