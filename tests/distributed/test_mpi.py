"""Real processes: `on_ranks.py` under mpiexec, and what a program does that fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")
BESIDE = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec here")

ROOT = Path(__file__).parents[2]


def started(count, *command, limit=180):
    """What some processes print, and how they end."""
    whole = [MPIEXEC, "-n", str(count), sys.executable, *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        whole, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
    )


QUICK = "gradients or differ or own or extremes"
MORE = [pytest.param(2, "", marks=pytest.mark.full), pytest.param(3, "", marks=pytest.mark.full)]
MORE += [pytest.param(4, "two_axes", marks=pytest.mark.full)]


@pytest.mark.parametrize(("count", "which"), [(2, QUICK), *MORE])
def test_processes_compute_what_simulated_ones_do(count, which):
    only = ["-k", which] if which else []
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *only]
    plugin = ["-p", "tests.distributed.ends_together"]
    ran = started(count, "-m", "pytest", *plugin, *options, "tests/distributed/on_ranks.py")
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout


FAILS = """
import numpy as np
from functrans import lax
from functrans.distributed import Mesh, P, shard_map
mesh = Mesh({"data": 2}, engine="mpi")
if mesh.rank == 1:
    raise ValueError("the file of process 1 is not there")
shard_map(lambda x: lax.psum(x, "data"), mesh, P("data"), P())(np.ones(2))
"""


def test_one_that_fails_ends_all_with_its_message(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FAILS)
    ran = started(2, str(program), limit=60)
    assert ran.returncode != 0
    assert "ValueError: the file of process 1 is not there" in ran.stderr
