"""Fixed overheads beside others: ``python -m tests.benchmarks.door [--rounds 3] [PART...]``.

Import, an eager gradient, a compiled call, closed-over arrays, first calls: each is measured in
fresh processes, in turns with the library that it is compared with. Prints medians, their ratio,
and the bound on the ratio. BLAS chooses its own kernels, whose names are printed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.__main__ import ENVIRONMENT, kernels, run_one
from tests.benchmarks.eager import in_turns
from tests.benchmarks.one import ALL

SECONDS = 1.0


class Row(NamedTuple):
    """A time beside another one (seconds, or a number of things), and the most it is to be."""

    name: str
    ours: float
    beside: str
    other: float
    most: float

    def __str__(self) -> str:
        ratio = self.ours / self.other if self.other else math.nan
        mark = "" if ratio <= self.most else "  above"
        ours, other = _amount(self.ours), _amount(self.other)
        return (
            f"{self.name:52} {ours:>10} {self.beside:22} {other:>10} {ratio:8.2f} "
            f"{self.most:7.2f}{mark}"
        )


def _amount(x: float) -> str:
    if x >= 1 and x == int(x):
        return f"{x:.0f}"
    return f"{x * 1e6:.2f} us" if x < 1e-3 else f"{x * 1e3:.1f} ms"


def fresh(code: str, **variables: str) -> Any:
    """What a new process prints as JSON in its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def medians(codes: dict[str, str], rounds: int) -> dict[str, float]:
    """The median of what each program prints, run in turns."""
    found: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(rounds):
        for name, code in codes.items():
            found[name].append(fresh(code))
    return {name: median(times) for name, times in found.items()}


# -- importing -------------------------------------------------------------------------------------

IMPORT = """
import json, sys
from time import perf_counter
{first}
start = perf_counter()
import {name}
print(json.dumps(perf_counter() - start))
"""

MODULES = """
import json, sys
import functrans
{then}
print(json.dumps(sum(name.partition(".")[0] == "functrans" for name in sys.modules)))
"""


def importing(rounds: int) -> Iterator[Row]:
    """Our import on top of NumPy's, beside NumPy's own."""
    names = {"numpy": "", "functrans": "import numpy", "autograd": "import numpy", "jax": ""}
    codes = {name: IMPORT.format(first=first, name=name) for name, first in names.items()}
    for code in codes.values():  # byte code is written and files are read once
        fresh(code)
    times = medians(codes, 5 * rounds)
    yield Row("import functrans, after numpy", times["functrans"], "numpy", times["numpy"], 0.5)
    for other in ("autograd", "jax"):
        yield Row(
            "import functrans, after numpy", times["functrans"], other, times[other], math.inf
        )
    yield Row("modules of ours", fresh(MODULES.format(then="")), "at most", 120.0, 1.0)
    gradient = "functrans.grad(lambda x: x * x)(1.0)"
    yield Row(
        "modules of ours, after a first eager gradient",
        fresh(MODULES.format(then=gradient)),
        "all of them",
        float(len(list(Path(import_module("functrans").__path__[0]).rglob("*.py")))),
        math.inf,
    )


# -- compiled calls --------------------------------------------------------------------------------


def per_call(functions: dict[str, Callable[[], Any]], seconds: float = SECONDS) -> list[float]:
    """The time of each function, of many calls in turns: best of blocks, then the median."""
    count = 200
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(count):
            function()
    end = perf_counter() + seconds * len(functions)
    while perf_counter() < end:
        for name, function in functions.items():
            start = perf_counter()
            for _ in range(count):
                function()
            times[name].append((perf_counter() - start) / count)
    return [median(record) for record in times.values()]


def calls(rounds: int) -> Iterator[Row]:
    """Compiled functions of numbers, arrays and pytrees, and within SciPy's solvers."""
    numba, optree, jax = (import_module(name) for name in ("numba", "optree", "jax"))
    functrans = import_module("functrans")
    jax.config.update("jax_enable_x64", True)

    def scalar(x: Any) -> Any:
        return x * x * x

    ours = functrans.jit(functrans.grad(scalar))
    theirs = jax.jit(jax.grad(scalar))
    by_hand = numba.njit(lambda x: 3 * x * x)
    first, second, third = per_call({
        "ours": lambda: ours(2.0),
        "numba": lambda: by_hand(2.0),
        "jax": lambda: jax.block_until_ready(theirs(2.0)),
    })  # fmt: skip
    yield Row("compiled gradient of a number", first, "Numba's dispatcher", second, 3.0)
    yield Row("compiled gradient of a number", first, "JAX", third, 1.0)

    x, y = np.arange(8.0), np.ones(8)
    both = functrans.jit(lambda x, y: x * y + 1.0)
    both_by_hand = numba.njit(lambda x, y: x * y + 1.0)
    first, second = per_call({"ours": lambda: both(x, y), "numba": lambda: both_by_hand(x, y)})
    yield Row("compiled function of two arrays", first, "Numba's dispatcher", second, 3.0)

    tree = {"a": x, "b": y}
    of_tree = functrans.jit(lambda t: t["a"] * t["b"])
    first, second = per_call({
        "ours": lambda: of_tree(tree),
        "optree": lambda: optree.tree_flatten(tree),
    })  # fmt: skip
    yield Row(
        "compiled function of a dict of two arrays", first, "optree's flattening", second, 2.0
    )
    yield from solvers()


def solvers() -> Iterator[Row]:
    """SciPy's own solvers, which call compiled functions from Python."""
    numba, functrans = import_module("numba"), import_module("functrans")
    optimize, integrate = import_module("scipy.optimize"), import_module("scipy.integrate")

    def rosenbrock(x: Any) -> Any:
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    @numba.njit
    def by_hand(x):
        value, slope = 0.0, np.zeros_like(x)
        for i in range(x.size - 1):
            a, b = x[i + 1] - x[i] ** 2, 1.0 - x[i]
            value += 100.0 * a * a + b * b
            slope[i] += -400.0 * a * x[i] - 2.0 * b
            slope[i + 1] += 200.0 * a
        return value, slope

    start = np.full(10, -1.2)
    compiled = functrans.jit(functrans.value_and_grad(rosenbrock))

    def minimised(f: Any) -> Callable[[], Any]:
        return lambda: optimize.minimize(f, start, jac=True, method="L-BFGS-B")

    np.testing.assert_allclose(minimised(compiled)().x, minimised(by_hand)().x, rtol=1e-4)
    first, second = in_turns([minimised(compiled), minimised(by_hand)], 30)
    yield Row("minimize, 10 parameters, with gradient", first, "Numba", second, 1.1)

    def lorenz(t: Any, y: Any) -> Any:
        return np.array(
            [10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
        )

    right, right_by_hand = functrans.jit(lorenz), numba.njit(lorenz)

    def solved(f: Any) -> Callable[[], Any]:
        return lambda: integrate.solve_ivp(f, (0.0, 5.0), np.ones(3), rtol=1e-6)

    np.testing.assert_allclose(solved(right)().y, solved(right_by_hand)().y, rtol=1e-4)
    first, second = in_turns([solved(right), solved(right_by_hand)], 20)
    yield Row("solve_ivp, a compiled right-hand side", first, "Numba", second, 1.1)


# -- arrays that a function closes over ------------------------------------------------------------


def closures(rounds: int) -> Iterator[Row]:
    """Arrays that are closed over, beside the same ones as arguments."""
    functrans = import_module("functrans")
    rng = np.random.default_rng(0)
    for megabytes in (0.001, 0.1, 160.0, 1000.0):
        yield one_number(rng.normal(size=int(megabytes * 125_000)), f"{megabytes:g} MB")
    features, targets = rng.normal(size=(1_000_000, 8)), rng.normal(size=1_000_000)
    weights = np.ones(8)

    def loss(w: Any, features: Any, targets: Any) -> Any:
        return np.sum((features @ w - targets) ** 2)

    for name, compiled in (("compiled", functrans.jit), ("eager", lambda f: f)):
        closed = compiled(functrans.grad(lambda w: loss(w, features, targets)))
        given = compiled(functrans.grad(loss))
        np.testing.assert_allclose(closed(weights), given(weights, features, targets), rtol=1e-9)
        pair = [lambda f=closed: f(weights), lambda f=given: f(weights, features, targets)]
        name = f"{name} gradient, a million rows closed over"
        yield Row(name, *_beside(in_turns(pair, 10), "argument"), 1.02)
    yield from peaks()


def one_number(table: Any, size: str) -> Row:
    """A function that uses one number of an array."""
    functrans = import_module("functrans")
    closed = functrans.jit(lambda w: np.sin(table[5]) * w)
    given = functrans.jit(lambda w, table: np.sin(table[5]) * w)
    pair = {"closed": lambda: closed(3.0), "given": lambda: given(3.0, table)}
    return Row(f"one number of {size} closed over", *_beside(per_call(pair, 0.3), "argument"), 1.02)


def _beside(pair: list[float], name: str) -> tuple[float, str, float]:
    return pair[0], f"as an {name}", pair[1]


PEAK = """
import json, re
import numpy as np, functrans
table = np.ones(20_000_000)
f = functrans.jit({function})
for _ in range(3):
    f({arguments})
text = open("/proc/self/status").read()
print(json.dumps(int(re.search(r"VmHWM:\\s+(\\d+)", text)[1]) // 1024))
"""


def peaks() -> Iterator[Row]:
    """Peak memory in MB of a process that has an array of 160 MB (Linux)."""
    # both compile: LLVM takes some 80 MB, and code that was found on disk would do without
    closed, given = (
        fresh(PEAK.format(function=function, arguments=arguments), FUNCTRANS_CACHE="0")
        for function, arguments in (
            ("lambda w: np.sum(table * w)", "2.0"),
            ("lambda w, t: np.sum(t * w)", "2.0, table"),
        )
    )
    yield Row(
        "peak memory, 160 MB closed over (MB)",
        float(closed),
        "as an argument",
        float(given),
        1.05,
    )


# -- eager gradients -------------------------------------------------------------------------------


def eager(rounds: int) -> Iterator[Row]:
    """Eager gradients beside HIPS autograd's, and Python's calls for each operation."""
    module = import_module("tests.benchmarks.eager")
    first, second = module.compare(4, 2)[::-1]
    yield Row("eager gradient: MLP, two layers of 4", first, "autograd", second, 0.8)


# -- first calls -----------------------------------------------------------------------------------

WARM = """
import json, sys
from time import perf_counter
import numpy as np, functrans
from functrans.scipy import special
rng = np.random.default_rng(0)
x, a = rng.normal(size=1000), rng.normal(size=(64, 64))
start = perf_counter()
functrans.jit(functrans.grad({function}))({argument})
print(json.dumps(perf_counter() - start))
"""

PROGRAMS = {
    "arithmetic": ("lambda x: np.sum(x * x)", "x"),
    "expit": ("lambda x: np.sum(special.expit(x))", "x"),
    "logaddexp": ("lambda x: np.sum(np.logaddexp(x, 1.0))", "x"),
    "gammaln": ("lambda x: np.sum(special.gammaln(x * x + 1.0))", "x"),
    "gammainc": ("lambda x: np.sum(special.gammainc(2.0, x * x + 1.0))", "x"),
    "a product by BLAS": ("lambda a: np.sum(a @ a @ a)", "a"),
    "solve": ("lambda a: np.sum(np.linalg.solve(a, a.T))", "a"),
}


def warm(rounds: int) -> Iterator[Row]:
    """First calls of a process that finds machine code on disk."""
    with tempfile.TemporaryDirectory() as cache:
        for name, (function, argument) in PROGRAMS.items():
            code = WARM.format(function=function, argument=argument)
            fresh(code, FUNCTRANS_CACHE_DIR=cache)
            times = [fresh(code, FUNCTRANS_CACHE_DIR=cache) for _ in range(2 * rounds + 1)]
            yield Row(f"first call, code on disk: {name}", median(times), "at most", 0.04, 1.0)


def first(rounds: int) -> Iterator[Row]:
    """First calls with nothing on disk, beside JAX's; and with the import, as a script has it."""
    calls, scripts = [], []
    for name in ALL:
        times: dict[str, list[dict[str, float]]] = {"functrans": [], "jax": []}
        with tempfile.TemporaryDirectory() as text:
            for number in range(rounds):
                for library, records in times.items():
                    cache = str(Path(text) / f"cache{number}")
                    records.append(run_one(name, library, 0.0, Path(text), cache))
        ours, theirs = (median(record["first"] for record in one) for one in times.values())
        row = Row(f"first call: {name}", ours, "JAX", theirs, 1.0)
        calls.append(row.ours / row.other)
        first, second = (
            median(record["import"] + record["first"] for record in one) for one in times.values()
        )
        scripts.append(first / second)
        yield row
    yield Row("first calls, geometric mean of the ratios", geometric(calls), "at most half", 1, 0.5)
    yield Row("import and first call, geometric mean", geometric(scripts), "JAX", 1, 0.5)


def geometric(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


PARTS = {
    "import": importing, "eager": eager, "calls": calls, "closures": closures, "warm": warm,
    "first": first,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(kernels())
    print(f"{'what':52} {'ours':>10} {'beside':22} {'other':>10} {'ratio':>8} {'at most':>7}")
    for name in given.parts or PARTS:
        for row in PARTS[name](given.rounds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
