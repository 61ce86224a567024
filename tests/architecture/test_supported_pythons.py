"""The metadata and the CI configuration name the same supported versions of Python."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def named():
    """The versions that the metadata name, oldest first."""
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [m[1] for c in PROJECT["project"]["classifiers"] if (m := pattern.fullmatch(c))]


def test_the_oldest_is_the_one_that_is_required():
    oldest = named()[0]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")


def test_every_one_is_in_the_matrix():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (row,) = re.findall(r"^ +python: \[(.*)\]$", text, re.MULTILINE)
    assert re.findall(r'"([^"]+)"', row) == named()


BYTECODE, LAYOUTS = "functrans/trace/bytecode.py", "functrans/run/call/layouts.py"
OPCODE = r"\b(?:import dis|opcode|co_positions|(?:LOAD|STORE|DELETE|CALL|BUILD)_[A-Z_]+)\b"
ADDRESS = r"\b(?:from_address|_word|string_at)\(.*\bid\("


@pytest.mark.parametrize(("pattern", "place"), [(OPCODE, BYTECODE), (ADDRESS, LAYOUTS)])
def test_one_file_knows_the_interpreter(pattern, place):
    """Opcodes in one, what objects look like in memory in another: see docs/recipes."""
    sources = ((path, path.read_text("utf-8")) for path in (ROOT / "functrans").rglob("*.py"))
    knowing = {path.relative_to(ROOT).as_posix() for path, x in sources if re.search(pattern, x)}
    assert knowing == {place}
