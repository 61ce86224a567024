"""``functrans cache``: listing and clearing the disk cache."""

import subprocess
import sys
from pathlib import Path

import pytest

from functrans import config
from functrans.__main__ import main
from functrans.run.code.store import Store
from functrans.version import __version__


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(config, "cache_bytes", 3 << 20)
    return tmp_path / "cache"


def fill(folder):
    store = Store(folder, 1 << 30)
    store.put("0" * 64, bytes(5000))
    store.put("1" * 64, bytes(2 << 20))


def test_it_shows_where_and_how_much(folder, capsys):
    assert main(["cache"]) == 0
    fill(folder)
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}: 0 files, 0 KiB of at most 3.0 MiB",
        f"{folder}: 2 files, 2.0 MiB of at most 3.0 MiB",
    ]


def test_it_clears(folder, capsys):
    fill(folder)
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"removed 2 files, 2.0 MiB from {folder}\n"
    assert list(folder.iterdir()) == []


def test_it_says_if_nothing_is_kept(monkeypatch, capsys):
    monkeypatch.setattr(config, "cache", False)
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith("off: no compiled code is kept")


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX")
@pytest.mark.parametrize("options", [[], ["--clear"]])
def test_it_says_why_a_folder_is_not_used(folder, capsys, options):
    fill(folder)
    folder.chmod(0o777)
    assert main(["cache", *options]) == 1
    assert capsys.readouterr().err == f"{folder} is not used: other users may write to it\n"
    assert len(list(folder.iterdir())) == 2


def test_it_is_a_program():
    command = [sys.executable, "-m", "functrans", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"functrans {__version__}\n"
    done = subprocess.run([*command[:-1], "cash"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "invalid choice: 'cash'" in done.stderr


def test_it_says_of_a_file_that_it_is_no_folder(folder, capsys):
    folder.write_text("")
    assert main(["cache"]) == 1
    assert capsys.readouterr().err == f"{folder} is not used: it is no folder\n"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_it_says_of_a_folder_that_it_cannot_be_made(monkeypatch, capsys):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", Path("/proc/there-is-none"))
    assert main(["cache"]) == 1
    assert "it cannot be made (" in capsys.readouterr().err


SCRIPT = """
import numpy as np
from beside import scale

w, x = np.ones((3, 2)), np.ones((5, 3))

def loss(w, x, power=2):
    h = np.tanh(x @ w) * scale
    return np.sum(h**power)

if __name__ == "__main__":
    raise SystemExit("the script's own work")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "beside.py").write_text("scale = 0.5\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


@pytest.mark.parametrize(
    "options", [[], ["--args", "w, x[:2]"], ["--grad"], ["--args", "w, 2 * x, 3", "--grad"]]
)
def test_explain(script, capsys, options):
    assert main(["explain", f"{script}:loss", *options]) == 0
    shown = capsys.readouterr().out
    assert "script.py:8 (loss)  h = np.tanh(x @ w) * scale" in shown
    assert ("kept for the backward pass" in shown) == ("--grad" in options)


def test_explain_writes_a_page(script, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["explain", f"{script}:loss", "--save", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"written to {page}" in capsys.readouterr().out


def test_explain_says_what_is_missing(script, capsys):
    assert main(["explain", str(script)]) == 2
    assert "give a script and a function in it, script.py:name" in capsys.readouterr().err
    assert main(["explain", f"{script}:los"]) == 2
    assert f"{script} has no function 'los'" in capsys.readouterr().err
    script.write_text(SCRIPT.replace("w, x = ", "v, x = "))
    assert main(["explain", f"{script}:loss"]) == 2
    assert capsys.readouterr().err == (
        f"{script} has no variable 'w' for the parameter of loss: give the arguments, "
        "--args 'CODE, ...'\n"
    )
