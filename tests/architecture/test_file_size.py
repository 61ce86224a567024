"""No file grows past what one person reads at one sitting."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 500
FILES = sorted(
    path for folder in ("functrans", "tests", "examples") for path in (ROOT / folder).rglob("*.py")
)


def test_there_are_files_to_look_at():
    assert Path(__file__) in FILES
    assert ROOT / "functrans" / "config.py" in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_at_most_500_lines(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LIMIT, f"{path.relative_to(ROOT)} has {lines} lines: split it"
