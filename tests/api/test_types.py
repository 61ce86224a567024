"""Static types of transformed functions, as a type checker infers them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USER = Path(__file__).with_name("typed_by_a_user.py")


def wrong_lines():
    lines = USER.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# WRONG")]


def output_of(*command):
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.slow
def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    out = output_of(
        "mypy", "--strict", "--config-file=", "--follow-imports=silent", "--cache-dir",
        str(tmp_path), str(USER),
    )  # fmt: skip
    found = sorted({int(line) for line in re.findall(r"typed_by_a_user\.py:(\d+): error", out)})
    assert found == wrong_lines(), out


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("pyright"), reason="pyright is not installed")
def test_pyright():
    out = output_of("pyright", "--outputjson", str(USER))
    if not out.startswith("{"):
        pytest.skip("pyright has no Node to run on")
    errors = [e for e in json.loads(out)["generalDiagnostics"] if e["severity"] == "error"]
    assert sorted({e["range"]["start"]["line"] + 1 for e in errors}) == wrong_lines(), errors
