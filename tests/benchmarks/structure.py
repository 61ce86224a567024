"""Structured derivatives: ``python -m tests.benchmarks.structure [--rounds 15]``.

Sparse Jacobians and Hessians are compared with as many evaluations of the function as there are
colours, and with JAX's dense ones where those fit into memory; the Laplacian of a network with the
trace of its Hessian; derivatives of higher orders with nested jvp.
All in turns; medians.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from functrans import (
    derivatives,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jit,
    jvp,
    laplacian,
    sparsity,
    vmap,
)
from functrans.transform.colouring import colour_columns, colour_star, count_colours

RNG = np.random.default_rng(0)


def brusselator(state: Any, np: Any = np) -> Any:
    """The right-hand side on a grid of 64 by 64, with periodic neighbours."""
    u, v = state.reshape(2, 64, 64)

    def spread(w: Any) -> Any:
        return np.roll(w, 1, 0) + np.roll(w, -1, 0) + np.roll(w, 1, 1) + np.roll(w, -1, 1) - 4 * w

    du = 1 + u**2 * v - 4.4 * u + 10 * spread(u)
    dv = 3.4 * u - u**2 * v + 10 * spread(v)
    return np.stack([du, dv]).reshape(-1)


def rosenbrock(x: Any, np: Any = np) -> Any:
    """The chained Rosenbrock function."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def banded(x: Any, np: Any = np) -> Any:
    """A function with five elements in a row of its Hessian."""
    return np.sum(np.exp(-(x[2:] ** 2)) * np.sin(x[1:-1]) * x[:-2])


CAMERAS, POINTS, BLOCKS = 200, 20_000, 100_000
SEES, SEEN = RNG.integers(0, CAMERAS, BLOCKS), RNG.integers(0, POINTS, BLOCKS)


def adjustment(p: Any, np: Any = np) -> Any:
    """Residuals like those of bundle adjustment: two for each time that a camera sees a point."""
    cameras = p[: 9 * CAMERAS].reshape(CAMERAS, 9)[SEES]
    points = p[9 * CAMERAS :].reshape(POINTS, 3)[SEEN]
    turned = points + np.cross(cameras[:, :3], points) + cameras[:, 3:6]
    flat = turned[:, :2] / (turned[:, 2:] + 5)
    square = np.sum(flat**2, axis=1, keepdims=True)
    return (
        cameras[:, 6:7] * flat * (1 + square * (cameras[:, 7:8] + cameras[:, 8:] * square))
    ).ravel()


class Workload(NamedTuple):
    """A function with a sparse derivative."""

    function: Callable[..., Any]
    transform: Any
    size: int
    dense: int
    """The size at which JAX's dense derivative is tried."""


WORKLOADS = {
    "Brusselator 64x64": Workload(brusselator, jacobian, 8192, 8192),
    "Rosenbrock": Workload(rosenbrock, hessian, 100_000, 4000),
    "banded": Workload(banded, hessian, 100_000, 4000),
    "bundle adjustment": Workload(adjustment, jacobian, 9 * CAMERAS + 3 * POINTS, 0),
}


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each call, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            start = perf_counter()
            call()
            if turn > 1:
                times[name].append(perf_counter() - start)
    return {name: median(taken) * 1e3 for name, taken in times.items()}


def compare(name: str, work: Workload, rounds: int) -> None:
    x = RNG.standard_normal(work.size)
    is_second = work.transform is hessian
    pattern = sparsity(grad(work.function) if is_second else work.function)(x)
    colours = count_colours((colour_star if is_second else colour_columns)(pattern))
    function, derivative = jit(work.function), jit(work.transform(work.function, sparse=True))
    start = perf_counter()
    derivative(x)
    first = perf_counter() - start
    times = in_turns({"f": lambda: function(x), "sparse": lambda: derivative(x)}, rounds)
    ratio = times["sparse"] / (colours * times["f"])
    print(
        f"{name:20} n {work.size:7,} colours {colours:3} f {times['f']:8.3f} ms, sparse "
        f"{times['sparse']:8.3f} ms = {ratio:5.2f} x colours x f, first call {first:5.2f} s"
    )
    if work.dense:
        beside_jax(work, x[: work.dense], min(rounds, 3))


def beside_jax(work: Workload, x: Any, rounds: int) -> None:
    """Our sparse derivative beside JAX's dense one, at a size where that fits."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return
    jax.config.update("jax_enable_x64", True)
    dense = jax.jit((jax.hessian if work.transform is hessian else jax.jacfwd)(
        lambda x: work.function(x, jnp)
    ))  # fmt: skip
    own = jit(work.transform(work.function, sparse=True))
    calls = {"own": lambda: own(x), "jax": lambda: dense(x).block_until_ready()}
    times = in_turns(calls, rounds)
    print(f"{'':20} n {len(x):7,} sparse {times['own']:8.3f} ms, JAX dense {times['jax']:9.1f} ms "
          f"= {times['jax'] / times['own']:7.0f} times")  # fmt: skip


LAYERS = [RNG.standard_normal(shape) / 8 for shape in ((30, 64), (64, 64), (64, 64), (64,))]


def network(x: Any, np: Any = np) -> Any:
    """30 inputs, three layers of 64, one number."""
    for weights in LAYERS[:-1]:
        x = np.tanh(x @ weights)
    return x @ LAYERS[-1]


def compare_laplacians(examples: int, rounds: int) -> None:
    xs = RNG.standard_normal((examples, 30))
    forward = jit(vmap(laplacian(network)))
    traced = jit(vmap(lambda x: np.trace(jacfwd(grad(network))(x))))
    calls = {"forward": lambda: forward(xs), "trace": lambda: traced(xs)}
    try:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        slope = jax.grad(lambda x: network(x, jnp))
        theirs = jax.jit(jax.vmap(lambda x: jnp.trace(jax.jacfwd(slope)(x))))
        calls["jax"] = lambda: theirs(xs).block_until_ready()
    except ImportError:
        pass
    times = in_turns(calls, rounds)
    rest = ", ".join(
        f"{name} {times[name]:8.3f} ms = {times[name] / times['forward']:5.2f} times"
        for name in calls
        if name != "forward"
    )
    print(f"Laplacian of {examples:4} examples {times['forward']:8.3f} ms; {rest}")


def nested(function: Callable[[Any], Any], order: int) -> Callable[[Any], Any]:
    """A derivative of a function of one number, by jvp of jvp."""
    for _ in range(order):
        function = partial(_pushed, function)
    return function


def _pushed(function: Callable[[Any], Any], t: Any) -> Any:
    return jvp(function, (t,), (1.0,))[1]


def compare_orders(order: int, rounds: int) -> None:
    """The derivatives of a network along a line, up to an order."""
    x, v = RNG.standard_normal((2, 100, 30))

    def along(t: Any) -> Any:
        return np.sum(network(x + t * v))

    series = jit(derivatives(along, order))
    highest = jit(nested(along, order))
    calls = {"taylor": lambda: series(0.1), "nested": lambda: highest(0.1)}
    try:
        import jax
        import jax.numpy as jnp
        from jax.experimental.jet import jet

        jax.config.update("jax_enable_x64", True)
        line = [1.0, *[0.0] * (order - 1)]
        # (a dot product of a matrix and a vector of JAX's has no rule there)
        last = [*LAYERS[:-1], LAYERS[-1][:, None]]

        def theirs(t: Any) -> Any:
            y = x + t * v
            for weights in last[:-1]:
                y = jnp.tanh(y @ weights)
            return (y @ last[-1]).sum()

        compiled = jax.jit(lambda t: jet(theirs, (t,), (line,)))
        calls["jax"] = lambda: jax.block_until_ready(compiled(0.1))
    except ImportError:
        pass
    times = in_turns(calls, rounds)
    rest = ", ".join(
        f"{name} {times[name]:8.3f} ms = {times[name] / times['taylor']:5.2f} times"
        for name in calls
        if name != "taylor"
    )
    print(f"derivatives to order {order} {times['taylor']:8.3f} ms; {rest}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    for name, work in WORKLOADS.items():
        compare(name, work, rounds)
    for examples in (1, 64, 1024):
        compare_laplacians(examples, rounds)
    for order in (1, 2, 4, 6, 8):
        compare_orders(order, rounds)


if __name__ == "__main__":
    main()
