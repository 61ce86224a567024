"""The table of modules in docs/scipy.md agrees with the modules that exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from functrans.scipy.from_source import FROM_SOURCE

PAGE = Path(__file__).parents[2] / "docs" / "scipy.md"
CELLS = re.compile(r"^\|( `[^|]+)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
TABLE = re.search(r"## Module by module\n(.*?)\n## ", PAGE.read_text(encoding="utf-8"), re.DOTALL)
ROWS = [tuple(re.findall("`([^`]+)`", cell) for cell in row) for row in CELLS.findall(TABLE[1])]
BY_REINTERPRETATION = {"spatial.transform": {"Rotation", "Slerp"}}


def supported(module):
    names = set(FROM_SOURCE.get(module, "").split()) | BY_REINTERPRETATION.get(module, set())
    try:
        ours = import_module(f"functrans.scipy.{module}")
    except ImportError:
        return names
    refused = {name for name, doc in docs(ours).items() if "plain arrays only" in doc}
    return names | set(ours.__all__) - refused


def docs(module):
    return {name: getattr(module, name).__doc__ or "" for name in module.__all__}


def test_the_table_is_read():
    assert len(ROWS) == 16


@pytest.mark.parametrize(
    ("modules", "there", "missing"), ROWS, ids=lambda cell: cell[0] if cell else ""
)
def test_a_row(modules, there, missing):
    for module in modules:
        scipys = import_module(f"scipy.{module}")
        names = supported(module)
        assert not [name for name in there if name not in names]
        assert not [name for name in missing if name in names]
        assert all(hasattr(scipys, name) for name in [*there, *missing])
