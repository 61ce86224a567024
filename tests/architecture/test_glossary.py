"""No file uses a retired word for a term of docs/glossary.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SUFFIXES = {".py", ".md", ".ll", ".c"}


def retired(glossary):
    """What to say instead, by the retired phrase."""
    section = glossary.partition("\n## Retired words\n")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return {phrase: instead for phrase, instead in rows if phrase != "Retired"}


def found(text, words):
    """The line of each retired phrase, which may go on in the next line, or the next comment."""
    for phrase, instead in words.items():
        pattern = r"\b" + r"\s+(?:[#;*]+\s+)?".join(map(re.escape, phrase.split())) + r"\b"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()) + 1, phrase, instead


def files():
    folders = (ROOT / "functrans", ROOT / "docs")
    yield from (x for folder in folders for x in folder.rglob("*") if x.suffix in SUFFIXES)
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


@pytest.mark.dear
def test_no_file_uses_a_retired_word():
    words = retired(GLOSSARY.read_text("utf-8"))
    uses = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}; say {instead!r} (docs/glossary.md)"
        for path in files()
        if path != GLOSSARY
        for line, phrase, instead in found(path.read_text("utf-8"), words)
    ]
    assert not uses, "\n".join(uses)


@pytest.mark.parametrize(
    "text",
    ["x\nof Every so manieth row", "x\nevery so\nmanieth row", "x\n# every so\n    # manieth row"],
)
def test_a_phrase_is_found_across_lines(text):
    assert list(found(text, {"every so manieth": "strided"})) == [
        (2, "every so manieth", "strided")
    ]


def test_the_glossary_lists_retired_words():
    assert retired(GLOSSARY.read_text("utf-8"))["every so manieth"].startswith("strided")
    assert not list(found("not at handles", {"at hand": "given"}))
