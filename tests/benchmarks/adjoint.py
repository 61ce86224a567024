"""The gradient of 2000 RK4 steps of Lorenz beside an adjoint that was written by hand for Numba.

``python -m tests.benchmarks.adjoint`` runs both in this process, in turns, and prints the medians.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

import numba
import numpy as np

import functrans
from tests.benchmarks.one import functrans_library
from tests.benchmarks.workloads import lorenz_gradient

STEPS, H = 2000, 0.001


@numba.njit(error_model="numpy", fastmath={"contract"})
def field(a, b, c, s, r, t):
    return s * (b - a), a * (r - c) - b, a * b - t * c


@numba.njit(error_model="numpy", fastmath={"contract"})
def pull_field(a, b, c, s, r, t, da, db, dc):
    """The cotangents of the state and of the parameters, from those of the field."""
    return (
        -s * da + (r - c) * db + b * dc,
        s * da - db + a * dc,
        -a * db - t * dc,
        (b - a) * da,
        a * db,
        -c * dc,
    )


@numba.njit(error_model="numpy", fastmath={"contract"})
def adjoint(y, p):
    """The gradient of the last state, squared and summed, by the first one and the parameters."""
    s, r, t = p[0], p[1], p[2]
    states = np.empty((STEPS + 1, 3))
    states[0] = y
    a, b, c = y[0], y[1], y[2]
    for i in range(STEPS):
        k1, l1, m1 = field(a, b, c, s, r, t)
        k2, l2, m2 = field(a + H / 2 * k1, b + H / 2 * l1, c + H / 2 * m1, s, r, t)
        k3, l3, m3 = field(a + H / 2 * k2, b + H / 2 * l2, c + H / 2 * m2, s, r, t)
        k4, l4, m4 = field(a + H * k3, b + H * l3, c + H * m3, s, r, t)
        a += H / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        b += H / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
        c += H / 6 * (m1 + 2 * m2 + 2 * m3 + m4)
        states[i + 1, 0], states[i + 1, 1], states[i + 1, 2] = a, b, c
    u, v, w = 2 * a, 2 * b, 2 * c
    ds = dr = dt = 0.0
    for i in range(STEPS - 1, -1, -1):
        a, b, c = states[i, 0], states[i, 1], states[i, 2]
        k1, l1, m1 = field(a, b, c, s, r, t)
        a2, b2, c2 = a + H / 2 * k1, b + H / 2 * l1, c + H / 2 * m1
        k2, l2, m2 = field(a2, b2, c2, s, r, t)
        a3, b3, c3 = a + H / 2 * k2, b + H / 2 * l2, c + H / 2 * m2
        k3, l3, m3 = field(a3, b3, c3, s, r, t)
        a4, b4, c4 = a + H * k3, b + H * l3, c + H * m3
        e, f, g = H / 6 * u, H / 6 * v, H / 6 * w
        x4, y4, z4, s4, r4, t4 = pull_field(a4, b4, c4, s, r, t, e, f, g)
        e3, f3, g3 = 2 * e + H * x4, 2 * f + H * y4, 2 * g + H * z4
        x3, y3, z3, s3, r3, t3 = pull_field(a3, b3, c3, s, r, t, e3, f3, g3)
        e2, f2, g2 = 2 * e + H / 2 * x3, 2 * f + H / 2 * y3, 2 * g + H / 2 * z3
        x2, y2, z2, s2, r2, t2 = pull_field(a2, b2, c2, s, r, t, e2, f2, g2)
        e1, f1, g1 = e + H / 2 * x2, f + H / 2 * y2, g + H / 2 * z2
        x1, y1, z1, s1, r1, t1 = pull_field(a, b, c, s, r, t, e1, f1, g1)
        u += x1 + x2 + x3 + x4
        v += y1 + y2 + y3 + y4
        w += z1 + z2 + z3 + z4
        ds += s1 + s2 + s3 + s4
        dr += r1 + r2 + r3 + r4
        dt += t1 + t2 + t3 + t4
    return np.array([u, v, w]), np.array([ds, dr, dt])


def compare(rounds: int = 400) -> tuple[float, float]:
    """The medians of the adjoint by hand and of functrans, after a check that they agree."""
    job = lorenz_gradient(functrans_library()[0])
    ours: Any = functrans.jit(job.function)
    for by_hand, found in zip(adjoint(*job.arguments), ours(*job.arguments), strict=True):
        np.testing.assert_allclose(found, by_hand, rtol=1e-10)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, record in zip((adjoint, ours), times, strict=True):
            start = perf_counter()
            function(*job.arguments)
            record.append(perf_counter() - start)
    return median(times[0]), median(times[1])


if __name__ == "__main__":
    hand, found = compare()
    print(f"by hand {hand * 1e6:.0f} us, functrans {found * 1e6:.0f} us: {found / hand:.2f} times")
