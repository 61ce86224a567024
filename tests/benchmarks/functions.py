"""Each elementary function beside NumPy's or SciPy's: ``python -m tests.benchmarks.functions``.

Both run in this process on one thread, in turns, on an array that stays in the cache. Prints the
minimal time of each, and the speedup of the compiled function: as called, and after subtracting the
cost of a call on one number. Arguments are names of functions; without any, all of them run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import functrans

COUNT = 30_000
REPEATS = 5
"""Calls between two looks at the clock."""


class Row(NamedTuple):
    """A function and where the numbers that it is given lie, an interval for each operand."""

    function: Callable[..., Any]
    intervals: tuple[tuple[float, float], ...]


def row(function: Callable[..., Any], *intervals: tuple[float, float]) -> Row:
    return Row(function, intervals)


ROWS = {
    "exp": row(np.exp, (-10, 10)),
    "exp2": row(np.exp2, (-10, 10)),
    "expm1": row(np.expm1, (-3, 3)),
    "log": row(np.log, (0.01, 100)),
    "log2": row(np.log2, (0.01, 100)),
    "log10": row(np.log10, (0.01, 100)),
    "log1p": row(np.log1p, (-0.9, 10)),
    "sin": row(np.sin, (-10, 10)),
    "cos": row(np.cos, (-10, 10)),
    "tan": row(np.tan, (-10, 10)),
    "arcsin": row(np.arcsin, (-1, 1)),
    "arccos": row(np.arccos, (-1, 1)),
    "arctan": row(np.arctan, (-10, 10)),
    "arctan2": row(np.arctan2, (-3, 3), (-3, 3)),
    "sinh": row(np.sinh, (-5, 5)),
    "cosh": row(np.cosh, (-5, 5)),
    "tanh": row(np.tanh, (-5, 5)),
    "arcsinh": row(np.arcsinh, (-10, 10)),
    "arccosh": row(np.arccosh, (1, 10)),
    "arctanh": row(np.arctanh, (-1, 1)),
    "cbrt": row(np.cbrt, (-10, 10)),
    "hypot": row(np.hypot, (-3, 3), (-3, 3)),
    "power": row(np.power, (0.01, 10), (-3, 3)),
    "logaddexp": row(np.logaddexp, (-5, 5), (-5, 5)),
    "logaddexp2": row(np.logaddexp2, (-5, 5), (-5, 5)),
    "expit": row(scipy.special.expit, (-10, 10)),
    "logit": row(scipy.special.logit, (0.01, 0.99)),
    "erf": row(scipy.special.erf, (-3, 3)),
    "erfc": row(scipy.special.erfc, (-3, 3)),
    "log_ndtr": row(scipy.special.log_ndtr, (-3, 3)),
    "gammaln": row(scipy.special.gammaln, (0.1, 20)),
    "digamma": row(scipy.special.digamma, (0.1, 20)),
    "xlogy": row(scipy.special.xlogy, (-3, 3), (0.01, 100)),
}


def least_times(functions: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The least time of a call of each, in seconds; they take turns."""
    times = [float("inf")] * len(functions)
    for _ in range(rounds):
        for k, function in enumerate(functions):
            start = perf_counter()
            for _ in range(REPEATS):
                function()
            times[k] = min(times[k], (perf_counter() - start) / REPEATS)
    return times


def drawn(name: str, dtype: Any, count: int) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """Random operands."""
    rng = np.random.default_rng(0)
    return [rng.uniform(*interval, count).astype(dtype) for interval in ROWS[name].intervals]


def compare(name: str, dtype: Any, rounds: int) -> list[float]:
    """Times of the library's function and of the compiled one, with all numbers and with one each.

    Before, it is checked that they agree.
    """
    function = ROWS[name].function
    compiled = functrans.jit(function)
    many, one = drawn(name, dtype, COUNT), drawn(name, dtype, 1)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(compiled(*many), function(*many), rtol=32 * eps, atol=8 * eps)
    calls: list[Callable[[], Any]] = [
        partial(f, *x) for x in (many, one) for f in (function, compiled)
    ]
    return least_times(calls, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; all if none is given")
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    functrans.config.threads = 1
    print("function    dtype    theirs us  ours us  times as fast  without the call")
    for name in arguments.names or ROWS:
        for dtype in (np.float64, np.float32):
            theirs, ours, their_call, our_call = compare(name, dtype, arguments.rounds)
            print(
                f"{name:10}  {np.dtype(dtype)}  {theirs * 1e6:9.1f}  {ours * 1e6:7.1f}  "
                f"{theirs / ours:13.2f}  {(theirs - their_call) / (ours - our_call):16.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
