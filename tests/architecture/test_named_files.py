"""Files, folders and modules named in pages, docstrings and comments exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [".ci", ".github", "docs", "examples", "functrans", "tests"]
SOURCES = {".py", ".md", ".ll", ".c", ".cu"}

SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:[\w.-]+/)*(?:[\w-]+/|[\w-]+\.(?:py|md|ll|toml|yml))")
FOLDER = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})(?:/[\w.-]+)+")
MODULE = re.compile(r"functrans(?:\.\w+)+")
NOT_OURS = {"site-packages/"}


def paths():
    """Every file and folder below the root, each with a slash in front."""
    inside = (path for name in FOLDERS for path in (ROOT / name).rglob("*"))
    shown = [*ROOT.glob("*.*"), *(ROOT / name for name in FOLDERS), *inside]
    return frozenset("/" + path.relative_to(ROOT).as_posix() for path in shown)


def sources():
    folders = (ROOT / "functrans", ROOT / "docs", ROOT / "tests")
    yield from (x for folder in folders for x in sorted(folder.rglob("*")) if x.suffix in SOURCES)
    yield from ROOT.glob("*.md")


def stale(text, known):
    """The names in a text's code spans that nothing has, each with its line.

    A file may be named from any folder on, as `lower/plan.py` is.
    """
    for span in SPAN.finditer(text):
        line = text.count("\n", 0, span.start()) + 1
        for word in span[1].split():
            if (FILE.fullmatch(word) or FOLDER.fullmatch(word)) and word not in NOT_OURS:
                ending = "/" + word.rstrip("/")
                if not any(path.endswith(ending) for path in known):
                    yield line, word
            elif MODULE.fullmatch(word) and not is_there(word):
                yield line, word


def is_there(name):
    """Whether a dotted name is that of a module of ours, or of something in one."""
    parts = name.split(".")
    count = next(n for n in range(len(parts), 0, -1) if is_module(parts[:n]))
    found = importlib.import_module(".".join(parts[:count]))
    for attribute in parts[count:]:
        if attribute in getattr(found, "__annotations__", ()):
            return True
        if not hasattr(found, attribute):
            return False
        found = getattr(found, attribute)
    return True


def is_module(parts):
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_what_is_named_is_there():
    known = paths()
    found = [
        f"{path.relative_to(ROOT)}:{line}: there is no {name}"
        for path in sources()
        for line, name in stale(path.read_text("utf-8"), known)
    ]
    assert not found, "\n".join(found)


REAL = ("lower/plan.py", "functrans/ir", "emit/", "plan.py", "functrans.ir.graph.Graph", "a/b")
WRONG = (
    "lower/plans.py",
    "functrans/it",
    "plans/",
    "functrans.ir.graphs",
    "functrans.ir.graph.Tree",
)


@pytest.mark.parametrize("name", REAL)
def test_what_is_there_is_not_reported(name):
    assert not list(stale(f"see `{name}`", paths()))


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_there_is_reported(name):
    assert list(stale(f"one\nsee `pytest {name}`", paths())) == [(2, name)]
