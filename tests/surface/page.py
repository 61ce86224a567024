"""Generates docs/numpy-coverage.md: each public function, and whether it supports traced values.

``python -m tests.surface.page`` rewrites the page.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

from tests.surface.calls import NO_ARRAYS, REFUSED, Row, row

PAGE = Path(__file__).parents[2] / "docs" / "numpy-coverage.md"
ORDER = (
    "numpy", "linalg", "fft", "scipy_special", "scipy_linalg", "scipy_stats", "scipy_integrate",
    "scipy_interpolate", "scipy_optimize",
)  # fmt: skip
"""The namespaces of which there are tables, in the order of the page."""

START = """# What of NumPy and SciPy works

This page lists each public function and whether it works on traced values. Functions that work were
called on traced values without known elements, as under `jit`, and gave the same results as on
arrays; if the results are floats, the derivatives agreed with finite differences. Refused functions
raise an error that gives the reason listed here. `python -m tests.surface.page` writes this page,
and the tests check it.

The results of functions *with `size=`* have a size that depends on the elements. Under `grad` they
work as in NumPy; under `jit` and `vmap` you pass `size=` to the function of `functrans.numpy`. The
tables about SciPy are about `functrans.scipy`.
"""


def namespaces() -> list[ModuleType]:
    """The modules with the tables."""
    found = {path.stem.removeprefix("of_") for path in Path(__file__).parent.glob("of_*.py")}
    assert found <= set(ORDER), f"name {found - set(ORDER)} in ORDER"
    return [importlib.import_module(f"tests.surface.of_{name}") for name in ORDER if name in found]


def section(namespace: ModuleType, rows: list[Row]) -> str:
    """The page's part on a namespace: what works in a paragraph, the rest in a table."""
    about = [r for r in rows if r.status != NO_ARRAYS]
    works = [r for r in about if r.status != REFUSED]
    lines = [
        f"## {namespace.NAME}\n",
        f"{len(works)} of {len(about)} functions of arrays work ({len(works) / len(about):.0%}).\n",
        "| Function | Status | |",
        "|---|---|---|",
        *(f"| `{r.name}` | {r.status} | {r.note.replace('|', chr(92) + '|')} |" for r in rows),
    ]
    return "\n".join(lines) + "\n"


def written() -> dict[str, dict[str, Row]]:
    """What the page says, by namespace and function."""
    page = PAGE.read_text(encoding="utf-8")
    said: dict[str, dict[str, Row]] = {}
    for part in page.split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", part, re.MULTILINE)
        said[part.split("\n")[0]] = {
            name: Row(name, status, note.replace("\\|", "|").strip()) for name, status, note in rows
        }
    return said


def main() -> None:
    sections = [section(n, [row(n, name) for name in n.public()]) for n in namespaces()]
    PAGE.write_text("\n".join([START, *sections]), encoding="utf-8")


if __name__ == "__main__":
    main()
