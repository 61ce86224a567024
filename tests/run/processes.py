"""Runs Python code in subprocesses with a separate cache."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A loop over many elements, which threads share, a sum, and one element: several kernels. It prints
# the bits of the results and what became of the kernels.
PROGRAM = """
import numpy as np
from functrans import grad, jit
from functrans.run.code import cache

x = np.linspace(-1.0, 2.0, 10_001)
value = jit(lambda x: np.sum(np.tanh(x) * x[2]))(x)
slope = jit(grad(lambda x: np.sum(np.tanh(x) * x[2])))(x)
print(value.hex(), float(slope.sum()).hex(), *cache.statistics())
"""

PROGRAMS = 2

# a shell has those that it starts in the background ignore interrupts
_INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def start(code, folder, **environment):
    """A process that keeps compiled code in a folder."""
    environment = {"FUNCTRANS_CACHE": "1", "FUNCTRANS_CACHE_DIR": str(folder), **environment}
    known = {k: v for k, v in os.environ.items() if environment.get(k, "") is not None}
    given = {k: v for k, v in environment.items() if v is not None}
    return subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTIBLE + code],
        cwd=ROOT,
        env={**known, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """What a process printed."""
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, err
    assert err == ""
    return out


def run(code, folder, **environment):
    return finish(start(code, folder, **environment))


def results_and_counts(output):
    """What `PROGRAM` printed: the results, and how much was compiled, from disk, and shared."""
    *results, compiled, from_disk, shared = output.split()
    return results, int(compiled), int(from_disk), int(shared)
