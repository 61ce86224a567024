"""Measures one workload with one library in a process of its own, and prints its times as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np

from tests.benchmarks.surface import SURFACE
from tests.benchmarks.workloads import WORKLOADS, Library


def functrans_library() -> tuple[Library, Any, Any]:
    """Our library; how to compile, and how to flatten a result to arrays."""
    import scipy.special

    import functrans
    from functrans import lax, tree

    library = Library(
        np,
        functrans.grad,
        functrans.value_and_grad,
        functrans.vmap,
        functrans.jvp,
        functrans.jacfwd,
        functrans.hessian,
        lax.scan,
        scipy.special.erf,
        lax,
        functrans.random,
        functrans.scipy.special,
        functrans.scipy.stats,
        functrans.scipy.linalg,
    )
    return library, functrans.jit, lambda result: [np.asarray(x) for x in tree.leaves(result)]


def jax_library(platforms: str | None = "cpu") -> tuple[Library, Any, Any]:
    """JAX, in double precision where asked for, waiting for results; where it likes, for None."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", platforms)
    library = Library(
        jax.numpy,
        jax.grad,
        jax.value_and_grad,
        jax.vmap,
        jax.jvp,
        jax.jacfwd,
        jax.hessian,
        jax.lax.scan,
        jax.scipy.special.erf,
        jax.lax,
        jax.random,
        jax.scipy.special,
        jax.scipy.stats,
        jax.scipy.linalg,
    )

    def compiled(function: Any) -> Any:
        run = jax.jit(function)
        return lambda *args: jax.block_until_ready(run(*args))

    return library, compiled, lambda result: [np.asarray(x) for x in jax.tree.leaves(result)]


ALL = WORKLOADS | SURFACE

LIBRARIES = {"functrans": functrans_library, "jax": jax_library}


def measure(name: str, library: str, seconds: float) -> tuple[dict[str, float], list[Any]]:
    """The times of a workload, in seconds, and its results."""
    start = time.perf_counter()
    lib, compiled, flat = LIBRARIES[library]()
    imported = time.perf_counter() - start
    job = ALL[name][0](lib)
    start = time.perf_counter()
    run = compiled(job.function)
    result = run(*job.arguments)
    first = time.perf_counter() - start
    for _ in range(3):
        run(*job.arguments)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 20_000):
        start = time.perf_counter()
        run(*job.arguments)
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = {
        "import": imported,
        "first": first,
        "median": float(np.median(times)),
        "peak_kib": float(peak),
    }
    return record, flat(result)


def main() -> None:
    name, library, seconds, path = sys.argv[1:]
    record, results = measure(name, library, float(seconds))
    np.savez(path, *results)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
