"""The driver by cuda.core, on a libcuda that needs no GPU: cuda.core and cuda.bindings are real."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.cuda.on_libcuda import NAMES

SOURCE = Path(__file__).with_name("libcuda.c")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    pytest.importorskip("cuda.core", reason="needs the packages of functrans[cuda]")
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler, on Linux")
    folder = tmp_path_factory.mktemp("libcuda")
    library = folder / "libcuda.so.1"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-Wl,-soname,{library.name}"]
    subprocess.run([compiler, *options, "-o", library, SOURCE, "-lpthread"], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(ROOT)}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.run.cuda.on_libcuda", str(library)],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr  # such as exceptions where nobody could catch them
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_on_our_libcuda(outcomes, name):
    assert outcomes[name] is None, outcomes[name]
