"""MPI processes: `on_ranks.py` under mpiexec, and the behaviour of failing programs."""

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


def started(count, *command, limit=180, **variables):
    """What some processes print, and how they end."""
    whole = [MPIEXEC, "-n", str(count), sys.executable, *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        whole, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
    )


QUICK = "gradients or differ or own or extremes or order"
LESS = pytest.param(2, QUICK, marks=pytest.mark.dear)
MORE = [pytest.param(2, "", marks=pytest.mark.full), pytest.param(3, "", marks=pytest.mark.full)]
MORE += [pytest.param(4, "two_axes", marks=pytest.mark.full)]
FILES = [f"tests/distributed/{name}.py" for name in ("on_ranks", "on_ranks_compiled")]


@pytest.mark.parametrize(("count", "which"), [LESS, *MORE])
def test_processes_compute_what_simulated_ones_do(count, which):
    only = ["-k", which] if which else []
    amount = [] if which == QUICK else ["--full"]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *only, *amount]
    plugin = ["-p", "tests.distributed.ends_together"]
    ran = started(count, "-m", "pytest", *plugin, *options, *FILES)
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


KEPT = """
import sys
import numpy as np
from functrans import jit, lax, load, save
from functrans.distributed import Mesh, P, shard_map
from functrans.run.code import cache
file = f"{sys.argv[1]}.{Mesh({'data': 2}, engine='mpi').rank}"
if sys.argv[2] == "without":
    try:
        load(file)(np.ones(8))
        sys.exit("it has sent to nobody")
    except RuntimeError as error:
        assert "this process has not made: call Mesh(..., engine='mpi')" in str(error)
mesh = Mesh({"data": 2, "other": 1}, engine="mpi")
f = jit(shard_map(lambda x: lax.psum(x * 2, "data"), mesh, P("data"), P()))
assert (f(np.ones(8)) == 4.0).all()
if sys.argv[2] == "first":
    save(f, file, np.ones(8))
else:
    assert (load(file)(np.ones(8)) == 4.0).all()
    assert cache.statistics().compiled == 0
"""


@pytest.mark.full
def test_code_that_is_kept_finds_the_handles_of_another_process(tmp_path):
    program, file = tmp_path / "program.py", tmp_path / "f.functrans"
    program.write_text(KEPT)
    folder = {"FUNCTRANS_CACHE": "1", "FUNCTRANS_CACHE_DIR": str(tmp_path / "cache")}
    for which in ("first", "second", "without"):
        ran = started(2, str(program), str(file), which, limit=60, **folder)
        assert ran.returncode == 0, ran.stderr
