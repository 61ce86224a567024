"""The quick set has each value of each parameter, and a sample of each kind."""

import subprocess
import sys
from pathlib import Path

from tests import amount

ROOT = Path(__file__).parents[1]

FILE = """
import pytest
from tests import amount

@pytest.mark.parametrize("a", ["x", "y", "z"])
@pytest.mark.parametrize(("b", "c"), [(0, 1), (2, 3)])
def test_two(a, b, c):
    pass

@pytest.fixture(params=["s", "t"])
def made(request):
    return request.param

@pytest.mark.parametrize("n", range(2))
def test_made(made, n):
    pass

@pytest.mark.parametrize("n", amount.one_of_each(lambda n: n % 3, range(8)))
def test_kinds(n):
    pass

@pytest.mark.full
def test_finer():
    pass

@pytest.mark.parametrize("n", range(9))
def test_many(n):
    pass

@pytest.mark.parametrize("n", range(2))
def test_few(n):
    pass

@pytest.mark.dear
def test_of_seconds():
    pass

@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("n", range(2))
def test_each_takes_seconds(n):
    pass
"""


def collected(tmp_path, *options):
    """The names of the tests that would run."""
    path = tmp_path / "test_drawn.py"
    path.write_text(FILE)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "tests.conftest", "--rootdir", str(ROOT), *options, str(path)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split("::")[1] for line in done.stdout.splitlines() if "::" in line]


COVERING = {
    "test_two": ["0-1-x", "0-1-z", "2-3-y"],
    "test_made": ["s-0", "t-1"],
    "test_kinds": range(3),
    "test_many": range(9),
    "test_few": range(2),
}


def of_each(place):
    """The covering calls at one place of each few, by the name of a test and their number."""
    return {
        f"{name}[{call}]"
        for name, calls in COVERING.items()
        for number, call in enumerate(calls)
        if number % amount.SEVERAL == place(name, len(calls))
    }


DEAR = {"test_of_seconds", "test_each_takes_seconds[0]"}
CHOSEN = {name for name in DEAR if amount.is_in_first(name, amount.DEAR_PARTS)}
QUICK = of_each(amount.kept_of)
OTHERS = of_each(amount.kept_with_each_change) | CHOSEN
COVERED = {f"{name}[{call}]" for name, calls in COVERING.items() for call in calls}
FINER = (
    {"test_two[2-3-x]", "test_two[0-1-y]", "test_two[2-3-z]", "test_finer"}
    | {"test_made[s-1]", "test_made[t-0]"}
    | {f"test_kinds[{n}]" for n in range(3, 8)}
    | {"test_each_takes_seconds[1]"}
    | (COVERED - QUICK - OTHERS)
    | (DEAR - CHOSEN)
)


def test_each_value_once_or_all(tmp_path):
    assert QUICK.isdisjoint(OTHERS) and len(CHOSEN) == 1
    assert set(collected(tmp_path)) == QUICK
    assert set(collected(tmp_path, "--full")) == QUICK | FINER | OTHERS
    assert set(collected(tmp_path, "--full", "-m", "full")) == FINER | OTHERS
    assert set(collected(tmp_path, "--full", "-m", "each_change")) == OTHERS


def test_a_part_of_the_numbers_with_each_change():
    """Of all values of each parameter, wherever they come in the list."""
    calls = [(n, dtype) for n in range(60) for dtype in ("float32", "float64")]
    names = {call: f"tests/primitives/test_x.py::test_y[{call[0]}-{call[1]}]" for call in calls}
    part = [call for call, name in names.items() if amount.is_in_part(name)]
    assert 10 <= len(part) <= 30
    assert {dtype for _, dtype in part} == {"float32", "float64"}
    assert {n % 3 for n, _ in part} == {0, 1, 2}
    assert not any(amount.is_in_part(name.replace("primitives", "api")) for name in names.values())


def test_how_many_examples(monkeypatch):
    for full, count in ((False, 20), (True, 160)):
        monkeypatch.setattr(amount, "FULL", full)
        assert amount.examples(160) == count
