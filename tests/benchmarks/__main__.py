"""Every workload beside JAX, interleaved: ``python -m tests.benchmarks [--quick] [NAME...]``.

Each measurement runs in a fresh process. ``--quick`` runs each workload once, without JAX, and
only checks that it works. "First" is the first call with nothing on disk, "warm" that of a process
which finds our machine code there. BLAS runs on its own choice of kernels, which are printed, or on
those for the level of x86-64 that the variable `FUNCTRANS_CPU` names.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

import functrans
from tests.benchmarks.one import ALL

LEFT_OUT = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE"}

LEVELS = {"x86-64-v2": "Nehalem", "x86-64-v3": "Haswell", "x86-64-v4": "SkylakeX"}
"""OpenBLAS's kernels for a level of x86-64 that `FUNCTRANS_CPU` compiles for: so code without
AVX-512 is compared with BLAS without AVX-512."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
if os.environ.get("FUNCTRANS_CPU") in LEVELS:
    ENVIRONMENT["OPENBLAS_CORETYPE"] = LEVELS[os.environ["FUNCTRANS_CPU"]]
"""Where the measurements run: with the kernels that BLAS chooses for this machine, or for the level
that functrans compiles for, and with byte code on disk, as an installed package has it."""


def enter_environment(module: str) -> None:
    """Start the program anew if its variables differ: BLAS reads them once, as it is loaded."""
    if os.environ != ENVIRONMENT:
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], ENVIRONMENT)


def kernels() -> str:
    """What NumPy's and SciPy's BLAS say that they run on."""
    done = subprocess.run(
        [sys.executable, "-m", "threadpoolctl", "--import", "numpy", "scipy.linalg"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    libraries = [x for x in json.loads(done.stdout) if x["user_api"] == "blas"]
    return ", ".join(
        f"{x['internal_api']} {x['version']} {x['architecture']}, {x['num_threads']} threads"
        for x in libraries
    )


def run_one(name: str, library: str, seconds: float, folder: Path, cache: str) -> dict[str, float]:
    """One measurement in a process of its own."""
    environment = {**ENVIRONMENT, "FUNCTRANS_CACHE_DIR": cache}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.benchmarks.one"),
            *(name, library, str(seconds), str(folder / f"{library}.npz")),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} with {library}:\n{done.stderr[-3000:]}")
    record: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return record


def difference(folder: Path) -> float:
    """The largest difference of the results, relative to the largest number in each."""
    ours, theirs = np.load(folder / "functrans.npz"), np.load(folder / "jax.npz")
    worst = 0.0
    for key in theirs.files:
        scale = max(float(np.max(np.abs(theirs[key]), initial=0)), 1e-30)
        gap = float(np.max(np.abs(ours[key] - theirs[key]), initial=0))
        worst = max(worst, gap / scale)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads; all if none is given")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    names = arguments.names or list(ALL)
    speedups, cold, warm = [], [], []
    if not arguments.quick:
        # as pip does for what it installs, JAX among it
        compileall.compile_dir(Path(functrans.__file__).parent, quiet=2)
        print(kernels())
        head = ("workload", "ours", "JAX", "speed-up", "bar", "first", "warm", "JAX's", "gap", "MB")
        print("{:24} {:>10} {:>10} {:>8} {:>5} {:>8} {:>8} {:>8} {:>8} {:>11}".format(*head))
    for name in names:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            if arguments.quick:
                record = run_one(name, "functrans", 0.0, folder, text)
                print(f"{name:24} {record['median'] * 1e6:10.1f} us")
                continue
            ours, theirs, cached = [], [], []
            for number in range(arguments.rounds):
                fresh = str(folder / f"cache{number}")
                ours.append(run_one(name, "functrans", arguments.seconds, folder, fresh))
                theirs.append(run_one(name, "jax", arguments.seconds, folder, fresh))
                cached.append(run_one(name, "functrans", 0.0, folder, fresh))
            row = [median(r[key] for r in side) for key in ("median", "first", "peak_kib")
                   for side in (ours, theirs)]  # fmt: skip
            again = median(r["first"] for r in cached)
            speedups.append(row[1] / row[0])
            cold.append(row[3] / row[2])
            warm.append(row[3] / again)
            print(
                f"{name:24} {row[0] * 1e6:8.1f}us {row[1] * 1e6:8.1f}us {speedups[-1]:7.2f}x "
                f"{ALL[name][1]:5} {row[2]:7.3f}s {again:7.3f}s {row[3]:7.3f}s "
                f"{difference(folder):8.1e} {row[4] / 1024:5.0f}/{row[5] / 1024:.0f}",
                flush=True,
            )
    if speedups:
        print("geometric means: speed-up {:.2f}x, first call {:.2f}x, warm {:.2f}x".format(
            *(math.exp(sum(map(math.log, x)) / len(x)) for x in (speedups, cold, warm))
        ))  # fmt: skip


if __name__ == "__main__":
    main()
