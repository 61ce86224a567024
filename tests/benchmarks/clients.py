"""Programs of autograd's clients, on it and on ours: ``python -m tests.benchmarks.clients``.

Each is run in processes of its own, with the real autograd and with `as_autograd` in its place; the
results have to agree. lifelines, autograd-gamma, surpyval, pymanopt and PennyLane have to be
installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import functrans
from functrans.trace.tracer import Tracer
from tests.benchmarks.as_autograd import install


def _lifelines_univariate(name: str) -> Any:
    import lifelines
    from lifelines.datasets import load_waltons

    data = load_waltons()

    def run() -> Any:
        fitter = getattr(lifelines, name)()
        fitter.fit(data["T"], data["E"])
        return fitter.params_.to_numpy()

    return run


def _lifelines_regression(name: str, *args: Any) -> Any:
    import lifelines
    from lifelines.datasets import load_rossi

    data = load_rossi()

    def run() -> Any:
        fitter = getattr(lifelines, name)(*args)
        fitter.fit(data, "week", "arrest")
        return fitter.params_.to_numpy()

    return run


def _pymanopt(kind: str) -> Any:
    import autograd.numpy as anp
    import pymanopt

    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20, 20))
    matrix = matrix + matrix.T
    optimizer = {"steepest": "SteepestDescent", "trust": "TrustRegions"}[kind]
    manifold = pymanopt.manifolds.Sphere(20)
    start = rng.normal(size=20)

    @pymanopt.function.autograd(manifold)
    def cost(x):
        return -anp.dot(x, anp.dot(matrix, x))

    def run() -> Any:
        problem = pymanopt.Problem(manifold, cost)
        solver = getattr(pymanopt.optimizers, optimizer)(verbosity=0)
        found = solver.run(problem, initial_point=start / np.linalg.norm(start))
        return np.array([found.cost])

    return run


def _surpyval(name: str) -> Any:
    import surpyval

    times = np.random.default_rng(0).weibull(2.0, 200) * 10.0 + 0.1

    def run() -> Any:
        return np.asarray(getattr(surpyval, name).fit(times).params)

    return run


def _gamma(name: str) -> Any:
    import autograd
    import autograd.numpy as anp
    import autograd_gamma

    function = getattr(autograd_gamma, name)
    x = np.linspace(0.1, 5.0, 50)

    def loss(parameters):
        return anp.sum(function(*parameters, x / 6.0 if "beta" in name else x))

    parameters = np.array([2.0, 1.5] if "beta" in name else [2.0])
    gradient = autograd.value_and_grad(loss)
    return lambda: np.concatenate([np.ravel(part) for part in gradient(parameters)])


def _pennylane(library: str) -> Any:
    """A circuit; PennyLane finds our functions by autoray, and keeps its own autograd."""
    import autoray
    import pennylane

    device = pennylane.device("default.qubit", wires=3)

    def circuit(w):
        for layer in range(2):
            for i in range(3):
                pennylane.RY(w[layer, i], wires=i)
            for i in range(2):
                pennylane.CNOT(wires=[i, i + 1])
        return pennylane.expval(pennylane.PauliZ(2))

    weights = np.linspace(0.1, 1.2, 6).reshape(2, 3)
    node = pennylane.QNode(circuit, device, interface="auto", diff_method="backprop")
    if library == "functrans":
        autoray.register_backend(Tracer, "functrans.numpy")
        gradient = functrans.grad(node)
        return lambda: gradient(weights)
    tensor = pennylane.numpy.array(weights, requires_grad=True)
    return lambda: np.asarray(pennylane.grad(node)(tensor))


BY_NAME = {"PennyLane, three qubits": _pennylane}
"""Programs that need nobody to stand in for autograd; they are given the library's name."""

PROGRAMS = {
    **{
        f"lifelines {name}": (_lifelines_univariate, name)
        for name in (
            "WeibullFitter", "LogNormalFitter", "LogLogisticFitter", "ExponentialFitter",
            "GeneralizedGammaFitter",
        )
    },
    **{
        f"lifelines {name}": (_lifelines_regression, name)
        for name in ("WeibullAFTFitter", "LogNormalAFTFitter", "LogLogisticAFTFitter",
                     "GeneralizedGammaRegressionFitter")
    },
    "lifelines PiecewiseExponential": (
        _lifelines_regression, "PiecewiseExponentialRegressionFitter", [20, 40]),
    **{f"surpyval {name}": (_surpyval, name) for name in ("Weibull", "Gamma", "LogNormal")},
    "pymanopt steepest descent": (_pymanopt, "steepest"),
    "pymanopt trust regions": (_pymanopt, "trust"),
    **{
        f"autograd-gamma {name}": (_gamma, name)
        for name in ("gammainc", "gammaincc", "gammaincln", "gammainccln", "betainc", "betaincln")
    },
}  # fmt: skip


def measure(library: str, name: str, rounds: int) -> dict[str, Any]:
    """What a program gives, and the median of its times."""
    make, *args = (BY_NAME[name], library) if name in BY_NAME else PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = make(*args)
        result = run()
        times = []
        for _ in range(rounds):
            start = perf_counter()
            run()
            times.append(perf_counter() - start)
    return {"result": np.asarray(result, float).tolist(), "time": median(times)}


def of(library: str, name: str, rounds: int) -> dict[str, Any] | str:
    """The measurement in a process of its own; the last line of its error if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.clients", "--one", library, name, str(rounds)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; all if none is given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        library, name, rounds = given.one
        if library == "functrans" and name not in BY_NAME:
            install()
        print(json.dumps(measure(library, name, int(rounds))))
        return
    print(f"{'program':48} {'autograd':>10} {'ours':>10} {'ratio':>7}")
    for name in [*BY_NAME, *PROGRAMS]:
        if given.names and not any(part in name for part in given.names):
            continue
        theirs, ours = (of(library, name, given.rounds) for library in ("autograd", "functrans"))
        if isinstance(theirs, str) or isinstance(ours, str):
            print(f"{name:48} autograd: {str(theirs)[:60]}; ours: {str(ours)[:200]}", flush=True)
            continue
        gap = np.max(np.abs(np.subtract(theirs["result"], ours["result"])))
        print(
            f"{name:48} {theirs['time'] * 1e3:7.1f} ms {ours['time'] * 1e3:7.1f} ms "
            f"{ours['time'] / theirs['time']:7.2f}  gap {gap:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
