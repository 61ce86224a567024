"""The table of folders in docs/architecture.md is complete and in import order."""

import re
from pathlib import Path

from tests.architecture.test_imports import ORDER

ROOT = Path(__file__).parents[2]
UNLISTED = {"__init__", "__main__", "version"}


def rows():
    """The folders and files at the start of each row of the table, and the whole row."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("\n| Folder | What it holds |\n|---|---|\n")[2].partition("\n\n")[0]
    for row in table.splitlines():
        names = re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1])
        yield names, row


def test_the_table_has_what_the_package_has_in_the_order_of_imports():
    named = [name for names, _ in rows() for name in names]
    rank = {name: number for number, names in enumerate(ORDER) for name in names}
    assert sorted(named) == sorted(rank.keys() - UNLISTED)
    assert [rank[name] for name in named] == sorted(rank[name] for name in named)


def test_a_row_names_the_folders_inside_of_its_own():
    row_of = {name: row for names, row in rows() for name in names}
    inside = {path.parent for path in (ROOT / "functrans").glob("*/*/*.py")}
    missing = [
        f"{folder.parent.name}/{folder.name}"
        for folder in sorted(inside)
        if not re.search(rf"`(?:\w+/)?{folder.name}/`", row_of[folder.parent.name])
    ]
    assert not missing, f"name them in the table of docs/architecture.md: {missing}"
