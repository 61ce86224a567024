"""Small programs, compiled and by NumPy itself, on one core: where plain NumPy is faster.

``python -m tests.benchmarks.against_numpy [WORD...]`` times each form whose name has one of the
words (all by default), and lists them by NumPy's time over ours, the worst first: minima of turns,
in microseconds. Results are compared, too. All 1400 forms take some minutes; BLAS should have one
thread (``OPENBLAS_NUM_THREADS=1``).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from functrans import config, jit

Form = tuple[str, Callable[..., Any], tuple[Any, ...]]
"""A name, a function of arrays, and its arguments."""

RNG = np.random.default_rng(0)
SIZES = (17, 300, 1000, 20_000, 1_000_000)
MATRICES = ((17, 17), (300, 300), (2000, 30), (30, 2000), (2000, 2000))
BLOCKS = ((60, 50, 70), (64, 128, 96))

REDUCTIONS = {
    "sum": "fdlD?", "prod": "d", "max": "fdlB", "min": "d", "mean": "fd", "std": "d", "any": "?",
    "all": "?", "ptp": "d", "count_nonzero": "d?", "nansum": "d", "nanmax": "d", "argmax": "fdl",
    "median": "d",
}  # fmt: skip


def drawn(shape: Any, kind: str) -> Any:
    """Random numbers of a type, by NumPy's character for it."""
    x = RNG.standard_normal(shape)
    if kind == "?":
        return x > 0
    if kind in "DF":
        return (x + 1j * RNG.standard_normal(shape)).astype(kind)
    return x.astype(kind) if kind in "fd" else RNG.integers(0, 100, shape).astype(kind)


def reductions() -> Iterator[Form]:
    for name, kinds in REDUCTIONS.items():
        for kind in kinds:
            for shape in (*MATRICES, *BLOCKS[:1]):
                axes = [None, *range(len(shape))]
                if len(shape) == 3 and name not in ("argmax", "median"):
                    axes += [(0, 1), (1, 2), (0, 2)]
                for axis in axes:
                    function = partial(getattr(np, name), axis=axis)
                    yield f"{name} along {axis}", function, (drawn(shape, kind),)


def running() -> Iterator[Form]:
    for kind in "fdlD":
        for shape in (*SIZES, *MATRICES):
            x = drawn(shape, kind)
            for axis in range(x.ndim):
                yield f"cumsum along {axis}", partial(np.cumsum, axis=axis), (x,)
    for size in SIZES:
        x, starts = drawn(size, "d"), np.arange(0, size, 50)
        yield "maximum.accumulate", np.maximum.accumulate, (x,)
        yield "diff", np.diff, (x,)
        yield "add.reduceat", lambda x, starts=starts: np.add.reduceat(x, starts), (x,)


def orders() -> Iterator[Form]:
    for kind in "fdil":
        for shape in (*SIZES, 100, 3000, *MATRICES[1:4]):
            x = drawn(shape, kind)
            for axis in range(x.ndim):
                for name in ("sort", "argsort"):
                    yield f"{name} along {axis}", partial(getattr(np, name), axis=axis), (x,)
            middle = x.shape[-1] // 2
            yield "partition", lambda x, k=middle: np.sort(np.partition(x, k)[..., :k]), (x,)
            yield "quantile", lambda x: np.quantile(x, 0.9), (x,)


def moves() -> Iterator[Form]:
    for kind in "fdBD":
        for shape in (*SIZES, *MATRICES[1:]):
            x = drawn(shape, kind)
            for axis in range(x.ndim + 1):
                yield f"stack along {axis}", lambda x, axis=axis: np.stack([x, x], axis), (x,)
            yield "concatenate", lambda x: np.concatenate([x, x], -1), (x,)
            yield "repeat", lambda x: np.repeat(x, 3), (x,)
            yield "roll", lambda x: np.roll(x, 3, -1), (x,)
            yield "pad", lambda x: np.pad(x, 2), (x,)
            yield "flip", lambda x: np.flip(x).copy(), (x,)
            if x.ndim == 2:
                yield "transpose", lambda x: np.ascontiguousarray(x.T), (x,)
                yield "rot90", lambda x: np.ascontiguousarray(np.rot90(x)), (x,)
                yield "tril", np.tril, (x,)
        for order in ((2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)):
            moved = partial(_transposed, order)
            yield f"transpose {order}", moved, (drawn(BLOCKS[1], kind),)


def _transposed(order: tuple[int, ...], x: Any) -> Any:
    return np.ascontiguousarray(x.transpose(order))


def _put(x: Any, index: Any, values: Any) -> Any:
    x = x.copy()
    x[index] = values
    return x


def _added(x: Any, index: Any, values: Any) -> Any:
    x = x.copy()
    np.add.at(x, index, values)
    return x


def gathers() -> Iterator[Form]:
    for kind in "fdD":
        for length, count in ((17, 17), (1000, 1000), (1000, 100_000), (1_000_000, 100_000)):
            x, values = drawn(length, kind), drawn(count, kind)
            index = RNG.integers(0, length, count)
            yield "x[i]", lambda x, i: x[i], (x, index)
            yield "x[i] = v", _put, (x, np.unique(index), values[: len(np.unique(index))])
            yield "add.at", _added, (x, index, values)
        for shape in MATRICES[1:]:
            x, rows = drawn(shape, kind), RNG.integers(0, shape[0], shape[0])
            columns = RNG.integers(0, shape[1], shape)
            yield "x[i] of rows", lambda x, i: x[i], (x, rows)
            yield "x[:, j]", lambda x, j: x[:, j], (x, columns[0])
            yield "take_along_axis", partial(np.take_along_axis, axis=1), (x, columns)


def elements() -> Iterator[Form]:
    for size in (17, 1000, 100_000, 4_000_000):
        for kind in "fdilBD":
            x, y = drawn(size, kind), drawn(size, kind)
            for name in ("add", "multiply", "equal"):
                yield name, getattr(np, name), (x, y)
            yield "square", lambda x: x**2, (x,)
            yield "abs", np.abs, (x,)
            if kind != "D":
                yield "maximum", np.maximum, (x, y)
                yield "clip", lambda x: np.clip(x, 0, 1), (x,)
            if kind in "fd":
                yield "exp", np.exp, (x,)
                yield "dot", np.dot, (x, y)
        yield "and", lambda x, y: x & y, (drawn(size, "?"), drawn(size, "?"))


FAMILIES = (reductions, running, orders, moves, gathers, elements)


def compare(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[float, float]:
    """The seconds of NumPy and of ours: minima of turns."""
    compiled = jit(function)
    for _ in range(3):
        found = compiled(*args)
    near = 1e-3 if found.dtype.char in "fF" else 1e-9
    np.testing.assert_allclose(found, function(*args), rtol=near, atol=near)
    best = [np.inf, np.inf]
    calls = function, compiled
    rounds = [max(1, int(1e-3 / _seconds(call, args, 1))) for call in calls]
    for _ in range(7):
        for i, call in enumerate(calls):
            best[i] = min(best[i], _seconds(call, args, rounds[i]))
    return best[0], best[1]


def _seconds(call: Callable[..., Any], args: tuple[Any, ...], rounds: int) -> float:
    start = perf_counter()
    for _ in range(rounds):
        call(*args)
    return (perf_counter() - start) / rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    words = parser.parse_args().words
    config.threads = 1
    found = []
    for family in FAMILIES:
        for name, function, args in family():
            if not words or any(word in name for word in words):
                own = " ".join(f"{'x'.join(map(str, x.shape))}{x.dtype.char}" for x in args[:1])
                found.append((*compare(function, args), f"{name}, {own}"))
    for theirs, ours, name in sorted(found, key=lambda each: each[0] / each[1]):
        print(f"{theirs / ours:8.2f} {1e6 * theirs:10.1f} {1e6 * ours:10.1f}  {name}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
