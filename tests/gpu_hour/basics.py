"""The part *basics*: versions, first programs, loops, graphs, tests of driver and libraries."""

from __future__ import annotations

import functools
import gc
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrans
import functrans.scipy.linalg
from functrans import grad, jit, lax
from functrans.run.cuda.driver import driver
from tests.gpu_hour.cases import Case, Here
from tests.gpu_hour.machine import DEVICE
from tests.gpu_hour.marked_tests import marked_tests
from tests.gpu_hour.wheels import REPORTED, tools

RNG = np.random.default_rng(0)


def cases(here: Here) -> list[Case]:
    """What tells most comes first: whether there is a GPU, and whether anything runs on it."""
    return [
        Case("versions", functools.partial(versions, here)),
        *(Case(f"first: {name}", functools.partial(first, here, name)) for name in FIRST),
        *(Case(f"loop: {name}", functools.partial(loop, here, name)) for name in LOOPS),
        *(
            Case(
                f"graph: {name}",
                functools.partial(replayed, here, name),
                libraries=True,
                finer=name.startswith("gradient"),
            )
            for name in GRAPHS
        ),
        *marked_tests(here),
    ]


def versions(here: Here) -> dict[str, Any]:
    """What is installed, and which GPU there is."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in REPORTED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "-"
    there = driver(DEVICE)
    there.stream()
    about, state = there.properties, there.memory_state()
    found |= {f"gpu {name}": value for name, value in about._asdict().items()}
    found |= {"gpu memory": state.total, "gpu free": state.free, "cpus": os.cpu_count()}
    if not here.stand_in:
        api = sys.modules["cuda.bindings.driver"]
        found["driver"] = api.cuDriverGetVersion()[1]
    return found | tools()


# ---- first programs ------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


FIRST: dict[str, tuple[Callable[..., Any], tuple[tuple[int, int], ...]]] = {
    "elementwise": (lambda x: np.exp(-x * x) * x + np.float32(1), ((1000, 1001), (3, 7))),
    "sum": (np.sum, ((1000, 1001), (3, 7))),
    "softmax": (softmax, ((300, 4001), (2, 9))),
    "product": (lambda x: x @ x.T, ((513, 700), (9, 5))),
    "gradient": (grad(lambda x: np.sum(np.sin(x) ** 2)), ((1000, 1001), (3, 7))),
    "sort": (lambda x: np.sort(x, axis=1), ((100, 1001), (2, 9))),
}
"""Functions of a float32 matrix, with its shape on a GPU and on a stand-in."""


def first(here: Here, name: str) -> None:
    """A program, its arguments of the host and of the device."""
    function, shapes = FIRST[name]
    x = RNG.normal(size=here.size(*shapes)).astype(np.float32)
    expected = function(x.astype(np.float64))
    for there in (x, functrans.device_put(x, DEVICE)):
        found = jit(function, device=DEVICE)(there)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-3, atol=1e-3)


# ---- loops ---------------------------------------------------------------------------------------


class Loop(NamedTuple):
    """A loop as people write it.

    Parameters
    ----------
    step : callable
        From the state and the number of the step to the next state; is given a compiled function.
    function : callable
        What is compiled.
    donated : tuple of int
    """

    step: Callable[[Callable[..., Any], Any, int], Any]
    function: Callable[..., Any]
    donated: tuple[int, ...] = ()


def moved(p: Any, x: Any) -> Any:
    """Two kernels at least: a mean, and what is done with it."""
    return (p - np.mean(p)) * 0.999 + 0.1 * np.sin(x)


def trained(w: Any, x: Any) -> Any:
    return w - 0.01 * grad(lambda w: np.mean((np.tanh(w * x) - 0.5) ** 2))(w)


def counted(p: Any, k: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, y: y * 0.9 + k, p)


@functools.cache
def inputs(size: int) -> tuple[Any, Any]:
    """The same numbers on the host and on the device."""
    x = np.random.default_rng(1).normal(size=size)
    return x, functrans.device_put(x, DEVICE)


def constant(p: Any) -> Any:
    """The other operand of a step: where the state is."""
    return inputs(p.size)[not isinstance(p, np.ndarray)]


LOOPS = {
    "donated": Loop(lambda f, p, k: f(p, constant(p)), moved, (0,)),
    "not donated": Loop(lambda f, p, k: f(p, constant(p)), moved),
    "may fail": Loop(
        lambda f, p, k: f(p, np.int64(k % p.size)), lambda p, i: moved(p, p[i]) * 0.999
    ),
    "may fail, donated": Loop(
        lambda f, p, k: f(p, np.int64(k % p.size)), lambda p, i: moved(p, p[i]) * 0.999, (0,)
    ),
    "a number that changes": Loop(lambda f, p, k: f(p, 0.001 * k), moved),
    "a batch of the host": Loop(lambda f, p, k: f(p, inputs(p.size)[0] + 0.001 * k), moved),
    "looked at": Loop(
        lambda f, p, k: f(p, constant(p)) if k % 10 else p * (np.max(p) < float(np.sum(p)) + 1e9),
        moved,
    ),
    "eagerly": Loop(lambda f, p, k: (p - np.mean(p)) * 0.999 + constant(p), moved),
    "a step of training": Loop(lambda f, p, k: f(p, constant(p)), trained),
    "a loop inside": Loop(lambda f, p, k: f(p, 0.001 * k), counted),
}


KEPT = 40
"""Arrays of a loop that may be alive: a state that may fail keeps those that it was computed from
until somebody looks, 33 at most."""

COUNTED_STEPS = 3


def loop(here: Here, name: str) -> dict[str, Any]:
    """Many steps: NumPy's numbers, memory that does not grow, and what steps ask the driver for."""
    inputs.cache_clear()  # of another stand-in
    step, function, donated = LOOPS[name]
    size, steps = here.size((10_007, 1000), (19, 3))
    compiled = jit(function, donate_argnums=donated)
    expected = inputs(size)[0]
    there = driver(DEVICE)
    p, p_used, times = inputs(size)[1].copy(), 0, []
    for k in range(steps):
        start = perf_counter()
        p = step(compiled, p, k)
        times.append(perf_counter() - start)
        expected = step(function, expected, k)
        if k == steps // 4:
            p_used = used()
    np.testing.assert_allclose(np.asarray(p), expected, rtol=1e-9, atol=1e-9)
    grown = used() - p_used
    assert grown <= KEPT * p.nbytes + (1 << 16), f"{grown} bytes more after {steps} steps"
    with counting(there) as calls:
        for k in range(steps, steps + COUNTED_STEPS):
            p = step(compiled, p, k)
    inputs.cache_clear()
    return {
        "us a step": float(np.median(times) * 1e6),
        "grown": grown,
        f"calls in {COUNTED_STEPS}": ", ".join(f"{n} {what}" for what, n in calls.items() if n),
    }


def used() -> int:
    """Bytes of the device's memory in use, once all is done."""
    gc.collect()
    there = driver(DEVICE)
    there.stream()
    there.synchronize()
    return there.memory_state().used


COUNTED = ("launch", "capture", "replay", "synchronize", "copy_in", "copy_out", "allocate")


@contextmanager
def counting(there: Any) -> Iterator[dict[str, int]]:
    """How many times methods of a driver are called meanwhile."""
    calls, kind = dict.fromkeys(COUNTED, 0), type(there)

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls[name] += 1
            return method(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in COUNTED:
            patch.setattr(kind, name, counted(name, getattr(kind, name)))
        yield calls


# ---- graphs with calls of libraries --------------------------------------------------------------


GRAPHS: dict[str, Callable[..., Any]] = {
    "gemm": lambda a, b: (a @ b) @ b,
    "gemm and kernels": lambda a, b: np.maximum(a @ b, 0) @ b,
    "trsm": lambda a, b: functrans.scipy.linalg.solve_triangular(a, b @ b, lower=True),
    "gradient of trsm": grad(
        lambda a, b: np.sum(functrans.scipy.linalg.solve_triangular(a, b, lower=True) ** 2), (0, 1)
    ),
}
"""Programs of a lower triangular matrix and of another one."""


def replayed(here: Here, name: str) -> dict[str, Any]:
    """A program of library calls, again and again: the same numbers, whether a graph or not."""
    function, side = GRAPHS[name], here.size(519, 136)
    rng = np.random.default_rng(0)
    a = np.tril(rng.normal(size=(side, side))) / side + 2 * np.eye(side)
    b = rng.normal(size=(side, side)) / side
    expected = functrans.tree.leaves(function(a, b))
    given = functrans.device_put((a, b), DEVICE)
    compiled = jit(function)
    for _ in range(2):
        agree(compiled(*given), expected)
    with counting(driver(DEVICE)) as calls:
        for _ in range(here.size(6, 2)):
            agree(compiled(*given), expected)
    return {"replays": calls["replay"], "captures": calls["capture"], "launches": calls["launch"]}


def agree(found: Any, expected: list[Any]) -> None:
    for one, other in zip(functrans.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-8, atol=1e-10)
