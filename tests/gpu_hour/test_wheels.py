"""Missing packages are found from those that are installed."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.gpu_hour import wheels


@pytest.fixture
def installed(monkeypatch):
    """The versions that a machine has: all that are asked for at first."""
    there = {one.name: "13.0.5" for one in wheels.requirements()}

    def version(name):
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(wheels.metadata, "version", version)
    monkeypatch.setattr(wheels, "tools", lambda: {"nvcc": ""})
    there |= {"cuda-core": "1.4", "nvmath-python": "1.1"}
    return there


def test_a_machine_that_has_all(installed, capsys):
    assert wheels.lacked() == []
    assert wheels.main([]) == 0
    assert capsys.readouterr().out.endswith("lacking: nothing\n")


def test_what_is_missing_and_what_is_too_old(installed, capsys):
    del installed["optree"]
    installed["cuda-core"] = "1.1.0"
    assert sorted(one.name for one in wheels.lacked()) == ["cuda-core", "optree"]
    assert wheels.main([]) == 1
    said = capsys.readouterr().out
    assert "1.1.0, not so" in said and "lacking: optree>=0.18, cuda-core<2,>=1.2" in said


def test_a_toolkit_does_for_its_parts(installed, monkeypatch):
    del installed["nvidia-nvvm"]
    assert [one.name for one in wheels.lacked()] == ["nvidia-nvvm"]
    monkeypatch.setattr(wheels, "tools", lambda: {"nvcc": "/usr/bin/nvcc"})
    assert wheels.lacked() == []


def test_a_toolkit_is_found_by_its_compiler(monkeypatch, tmp_path):
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    monkeypatch.setattr(wheels.shutil, "which", lambda name: str(nvcc))
    assert wheels.toolkit() == {}
    (tmp_path / "cuda" / "nvvm").mkdir(parents=True)
    assert wheels.toolkit() == {"CUDA_HOME": str(tmp_path / "cuda")}
    monkeypatch.setenv("CUDA_PATH", "elsewhere")
    assert wheels.toolkit() == {}


def test_what_pyproject_asks_for_is_asked_for():
    names = {one.name for one in wheels.requirements()}
    assert {"numpy", "optree", "cuda-core", "nvmath-python", "nvidia-nvvm", "pytest"} <= names
    assert not names & {"functrans", "cuda-toolkit"}


def test_only_what_is_lacked_is_installed(installed, monkeypatch, tmp_path, capsys):
    del installed["opt_einsum"]
    for name in ("opt_einsum-3.4.0-py3-none-any.whl", "pytest-9.0.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    run = []
    monkeypatch.setattr(wheels.subprocess, "run", lambda command, check: run.append(command))
    wheels.main(["--install", str(tmp_path), "--target", "there"])
    assert capsys.readouterr().out == "installed 1 wheels in there\n"
    (command,) = run
    assert "--no-index" in command and command[-1].endswith("opt_einsum-3.4.0-py3-none-any.whl")


@pytest.mark.dear
def test_it_needs_no_package_of_ours():
    """It says what is missing where nothing is installed."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('numpy', 'functrans', 'pytest')))\n"
        "from tests.gpu_hour.__main__ import main; main(['wheels'])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "lacking: " in done.stdout
