"""docs/errors.md has every error, as its docstring has it.

``python tests/errors/test_page.py`` writes the page's catalogue anew.
"""

import inspect
import re
import textwrap
from pathlib import Path

from functrans import errors

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
MARK = "<!-- From here on the page is written by tests/errors/test_page.py. -->\n"


def entry(cls):
    """A class as a section of the page: what it is, code that fails, code that does not."""
    text, fails, fix = re.split(r"^(?:Fails|Fix)::$", inspect.cleandoc(cls.__doc__), flags=re.M)
    builtins = [f"`{base.__name__}`" for base in cls.__mro__ if base.__module__ == "builtins"]
    return "\n\n".join(
        [
            f"## {cls.__name__}",
            text.replace("``", "`").strip(),
            f"It is a {builtins[0]} too." if cls is not errors.FunctransError else "",
            f"Fails:\n\n```py\n{textwrap.dedent(fails).strip()}\n```",
            f"Works:\n\n```py\n{textwrap.dedent(fix).strip()}\n```",
        ]
    ).replace("\n\n\n\n", "\n\n")


def catalogue():
    classes = [
        c for c in vars(errors).values() if isinstance(c, type) and c.__name__ in errors.__all__
    ]
    return MARK + "\n" + "\n\n".join(map(entry, classes)) + "\n"


def written():
    """The page's own text, and its catalogue."""
    page = PAGE.read_text(encoding="utf-8")
    at = page.index(MARK)
    return page[:at], page[at:]


def test_the_page_has_every_error_as_its_docstring_has_it():
    assert written()[1] == catalogue(), "run python tests/errors/test_page.py"


if __name__ == "__main__":
    PAGE.write_text(written()[0] + catalogue(), encoding="utf-8")
