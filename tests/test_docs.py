"""Python examples on all pages of the documentation run, and links are valid."""

import doctest
import linecache
import re
from pathlib import Path

import pytest

from functrans import config

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")


def run_page(text, name):
    """Run a page's Python from top to bottom, in one namespace.

    A block with a prompt in it is a doctest; any other is a program.
    """
    # Errors of ours quote the user's line, and look for it here.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"__name__": "__docs__"}
    for block in PYTHON.finditer(text):
        line = text.count("\n", 0, block.start(1))
        if ">>>" in block[1]:
            run_doctest(block[1], namespace, name, line)
        else:
            # Blank lines in front: a traceback then has the page's line numbers.
            exec(compile("\n" * line + block[1], name, "exec"), namespace)


def run_doctest(code, namespace, name, line):
    flags = doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(code, namespace, name, name, line)
    test.globs = namespace  # get_doctest copied it; later blocks use what this one defines
    runner = doctest.DebugRunner(optionflags=flags, verbose=False)
    try:
        runner.run(test, clear_globs=False)
    except doctest.DocTestFailure as failure:
        at = line + failure.example.lineno + 1
        raise AssertionError(
            f"{name}:{at}: {failure.example.source.strip()}\n"
            f"says   {failure.example.want!r}\nprints {failure.got!r}"
        ) from None
    except doctest.UnexpectedException as failure:
        raise failure.exc_info[1] from None


BY_NUMBA = {"backends.md"}
"""Pages whose programs Numba compiles, which takes some ten seconds."""

TO_RUN = [pytest.param(x, marks=pytest.mark.dear) if x.name in BY_NUMBA else x for x in PAGES]


@pytest.mark.parametrize("path", TO_RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_python_on_a_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a page writes does not stay, nor what it switches
    for name in config._SWITCHES:
        monkeypatch.setattr(config, name, getattr(config, name))
    run_page(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pages_links_lead_somewhere(path):
    links = LINK.findall(path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_page_is_in_the_index():
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"index.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


def test_the_readme_has_the_two_commands_each_on_one_line():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = dict(
        re.findall(r"<!-- command: (\w+) -->\n```sh\n(python3 -m venv [^\n]+)\n```", readme)
    )
    assert list(commands) == ["example", "tests"]
    assert "examples/digits.py" in commands["example"]
    assert "pytest" in commands["tests"]
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [c for c in commands.values() if f"\n{c}\n" not in contributing] == []


# ---- the runner itself ---------------------------------------------------------------------------


def page(*blocks):
    return "\n".join(f"text\n\n```python\n{block}\n```" for block in blocks)


def test_blocks_share_their_names():
    run_page(page("x = 1", ">>> x + 1\n2\n>>> y = 5", "assert y == 5"), "page")


def test_a_block_that_fails_is_a_failure_with_the_pages_line():
    text = page("x = 1", "y = 2\nx / 0")
    with pytest.raises(ZeroDivisionError) as error:
        run_page(text, "page")
    assert text.splitlines()[error.traceback[-1].lineno] == "x / 0"


def test_a_wrong_output_is_a_failure_with_the_pages_line():
    with pytest.raises(AssertionError, match=r"page:5: 1 \+ 1\nsays   '3\\n'\nprints '2\\n'"):
        run_page(page("\n>>> 1 + 1\n3"), "page")


def test_an_exception_passes_where_it_is_expected():
    traceback = "Traceback (most recent call last):\n...\nZeroDivisionError: division by zero"
    run_page(page(f">>> 1 / 0\n{traceback}"), "page")
    with pytest.raises(ZeroDivisionError):
        run_page(page(">>> 1 / 0"), "page")
