"""An adaptive Runge-Kutta method in twenty lines, and the sensitivities of what it solves.

The method of Dormand and Prince takes steps of order five, estimates their error by an embedded
method of order four, and makes its next step longer or shorter. So nobody knows beforehand how many
steps it takes: it is a `while_loop`, and `jacrev` differentiates it all the same.

Here it solves the Lotka-Volterra equations, and its derivatives with respect to the start and to
the parameters are compared with those that SciPy finds by solving the variational equations.

Run it with ``python examples/ode.py``.
"""

from time import perf_counter

import numpy as np
from scipy.integrate import solve_ivp

from functrans import jacfwd, jacrev, jit, lax, stop_gradient

# The tableau of Dormand and Prince (1980): the fifth order's weights are the last row of A.
A = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
C = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1]
FOURTH = [5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40]
ERROR = [a - b for a, b in zip([*A[-1], 0], FOURTH, strict=True)]


def step(field, t, y, h, first):
    """One step: where it leads, the slope there, and the estimate of its error."""
    slopes = [first]
    for row, c in zip(A[1:], C[1:], strict=True):
        following = y + h * combination(row, slopes)
        slopes.append(field(t + c * h, following))
    return following, slopes[-1], h * combination(ERROR, slopes)


def combination(weights, slopes):
    return sum(w * k for w, k in zip(weights, slopes, strict=True) if w)


def solve(field, y0, t0, t1, rtol=1e-8, atol=1e-8):
    """The solution of y' = field(t, y) from ``y0`` at ``t0`` to ``t1``, and the number of steps."""

    def unfinished(state):
        t, *_ = state
        return t < t1

    def advance(state):
        t, y, slope, h, steps = state
        last = t + h >= t1
        h = np.where(last, t1 - t, h)
        following, end_slope, error = step(field, t, y, h, slope)
        scale = atol + rtol * np.maximum(np.abs(y), np.abs(following))
        norm = np.sqrt(np.mean((error / scale) ** 2))
        accepted = norm <= 1.0
        factor = np.clip(0.9 * np.maximum(norm, 1e-10) ** -0.2, 0.2, 10.0)
        # how long the steps are makes no difference to the solution: only to its error
        following_h = stop_gradient(h * np.where(accepted, factor, np.minimum(factor, 1.0)))
        return (
            np.where(accepted, np.where(last, t1, t + h), t),
            np.where(accepted, following, y),
            np.where(accepted, end_slope, slope),
            following_h,
            steps + 1,
        )

    slope = field(t0, y0)
    start = (t0, y0, slope, 1e-3 * (t1 - t0), 0)
    _, y, _, _, steps = lax.while_loop(unfinished, advance, start)
    return y, steps


def solve_at(field, y0, times, **tolerances):
    """The solution at several times, the first of which is that of ``y0``."""

    def interval(y, ends):
        y, _ = solve(field, y, ends[0], ends[1], **tolerances)
        return y, y

    _, ys = lax.scan(interval, y0, (times[:-1], times[1:]))
    return np.concatenate([y0[None], ys])


# ---- prey and predators --------------------------------------------------------------------------

START = np.array([10.0, 5.0])
RATES = np.array([1.1, 0.4, 0.1, 0.4])


def lotka_volterra(rates):
    def field(t, y):
        prey, predators = y[0], y[1]
        return np.stack(
            [
                rates[0] * prey - rates[1] * prey * predators,
                rates[2] * prey * predators - rates[3] * predators,
            ]
        )

    return field


def populations(start, rates, end=10.0):
    return solve(lotka_volterra(rates), start, 0.0, end)[0]


def reference(start, rates, end=10.0):
    """The solution and its derivatives, by SciPy, from the variational equations."""
    n, m = len(start), len(rates)

    def field(t, state):
        y, by_start, by_rates = np.split(state, [n, n + n * n])
        dy = jacfwd(lambda y: lotka_volterra(rates)(t, y))(y)
        dr = jacfwd(lambda rates: lotka_volterra(rates)(t, y))(rates)
        return np.concatenate(
            [
                lotka_volterra(rates)(t, y),
                (dy @ by_start.reshape(n, n)).ravel(),
                (dy @ by_rates.reshape(n, m) + dr).ravel(),
            ]
        )

    state = np.concatenate([start, np.eye(n).ravel(), np.zeros(n * m)])
    final = solve_ivp(field, (0.0, end), state, "DOP853", rtol=1e-10, atol=1e-10).y[:, -1]
    y, by_start, by_rates = np.split(final, [n, n + n * n])
    return y, by_start.reshape(n, n), by_rates.reshape(n, m)


def main():
    final, steps = solve(lotka_volterra(RATES), START, 0.0, 10.0)
    print(f"after 10 years, in {steps} steps: {final[0]:.6f} prey, {final[1]:.6f} predators")

    sensitivities = jit(jacrev(populations, argnums=(0, 1)))
    by_start, by_rates = sensitivities(START, RATES)
    began = perf_counter()
    sensitivities(START, RATES)
    ours = perf_counter() - began
    began = perf_counter()
    _, expected_start, expected_rates = reference(START, RATES)
    theirs = perf_counter() - began

    print("d prey / d (prey, predators at the start)  ", by_start[0])
    print("d prey / d (birth, hunt, growth, death)    ", by_rates[0])
    worst = max(np.abs(by_start - expected_start).max(), np.abs(by_rates - expected_rates).max())
    print(f"largest difference from the variational equations: {worst:.1e}")
    print(f"by jacrev, compiled: {1e3 * ours:.1f} ms; by SciPy: {1e3 * theirs:.1f} ms")


if __name__ == "__main__":
    main()
