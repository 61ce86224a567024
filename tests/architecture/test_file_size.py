"""The limit on the number of lines of a file."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 500
FILES = sorted(
    path for folder in ("functrans", "tests", "examples") for path in (ROOT / folder).rglob("*.py")
)


def test_there_are_files_to_look_at():
    assert Path(__file__) in FILES
    assert ROOT / "functrans" / "config.py" in FILES


def test_a_file_has_at_most_500_lines():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    long = {str(path.relative_to(ROOT)): n for path, n in lines.items() if n > LIMIT}
    assert not long, "split them"
