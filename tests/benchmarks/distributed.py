"""Messages of compiled programs beside mpi4py's own, and weak scaling.

    mpiexec -n 2 python -m mpi4py -m tests.benchmarks.distributed

Each figure is the median of rounds in which the two take turns.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
from mpi4py import MPI

from functrans import grad, jit, lax
from functrans.distributed import Mesh, P, shard_map

WORLD = MPI.COMM_WORLD
N = WORLD.Get_size()
STEPS = 200


def timed(call, rounds=1):
    """Seconds of a call that all processes begin together."""
    WORLD.Barrier()
    start = perf_counter()
    for _ in range(rounds):
        call()
    return (perf_counter() - start) / rounds


def turns(calls, count=15):
    """The median time of each call, in turns."""
    for call in calls:
        call()
    rows = [[timed(call) for call in calls] for _ in range(count)]
    return [median(column) for column in zip(*rows, strict=True)]


def say(*words):
    if WORLD.Get_rank() == 0:
        print(*words, flush=True)


def sums():
    """A loop of sums in a compiled program, and in Python by mpi4py."""
    mesh = Mesh({"data": N}, engine="mpi")
    for count in (4, 128, 16_384, 131_072):
        x = np.ones(count)
        steps = STEPS if count < 10_000 else 20

        def part(x, steps=steps):
            def step(c, _):
                return lax.pvary(lax.psum(c, "data"), "data") * (1 / N), None

            return lax.scan(step, lax.pvary(x, "data"), None, length=steps)[0]

        ours = jit(shard_map(part, mesh, P(), P("data"), local=True))
        out = np.empty_like(x)

        def raw(x=x, out=out, steps=steps):
            c = x.copy()
            for _ in range(steps):
                WORLD.Allreduce(c, out)
                np.multiply(out, 1 / N, out=c)

        a, b = turns([partial(ours, x), raw])
        say(
            f"psum of {8 * count:8d} bytes: {a / steps * 1e6:8.2f} us, mpi4py "
            f"{b / steps * 1e6:8.2f} us: {(a - b) / steps * 1e6:+.2f} us, {a / b:.3f}"
        )


def scaling():
    """A step of training on a part of its own: with the other processes, and without."""
    together = Mesh({"data": N}, engine="mpi")
    alone = Mesh({"data": 1})
    rng = np.random.default_rng(WORLD.Get_rank())
    for rows in (200, 1000, 2000, 5000):
        x, y = rng.normal(size=(rows, 64)), rng.normal(size=rows)
        w1, w2 = rng.normal(size=(64, 64)) / 8, np.ones(64) / 8

        def step(params, x, y):
            def loss(params):
                w1, w2 = params
                return lax.pmean(np.mean((np.tanh(x @ w1) @ w2 - y) ** 2), "data")

            g1, g2 = grad(loss)(params)
            return params[0] - 0.01 * g1, params[1] - 0.01 * g2

        specs = (P(), P("data"), P("data"))
        many = jit(shard_map(step, together, specs, P(), local=True))
        one = jit(shard_map(step, alone, specs, P()))
        params = (w1, w2)
        # both processes compute at the same time, with and without messages
        given = params, x, y
        a, b = turns([partial(many, *given), partial(one, *given)], 41)
        say(f"a step of {b * 1e3:6.2f} ms by itself, {a * 1e3:6.2f} ms with {N}: {b / a:.1%}")


if __name__ == "__main__":
    sums()
    scaling()
