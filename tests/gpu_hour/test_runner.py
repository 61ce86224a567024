"""Cases that fail, hang or crash: each yields a row, and the others continue."""

import json
import sys

import pytest

from tests.gpu_hour import runner
from tests.gpu_hour.cases import Here
from tests.gpu_hour.runner import Report, line, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="GPUs are used on Linux")

PART = "tests.gpu_hour.misbehaving"


def rows_of(keep=lambda case: not case.finer, part=PART, **options):
    rows = []
    run(part, Here(stand_in=True), rows.append, keep, **options)
    return rows


@pytest.fixture(scope="module")
def rows():
    return {row["case"]: row for row in rows_of()}


@pytest.mark.dear
def test_each_case_has_a_row(rows):
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "first": "right",
        "wrong": "wrong",
        "dies": "crashed",
        "hangs": "hung",
        "cannot": "cannot",
        "leaves": "failed",
        "sleeps": "right",
        "last": "right",
    }
    assert rows["last"]["measured"]["stand-in"]


@pytest.mark.dear
def test_a_row_says_what_happened(rows):
    assert rows["wrong"]["said"] == "AssertionError: 3 and not 4"
    assert "in wrong" in rows["wrong"]["trace"]
    assert rows["dies"]["said"] == "the process ended with 7: a last word"
    assert rows["hangs"]["said"] == "no answer within 0 s"
    assert "in hangs" in rows["hangs"]["trace"]  # where it is
    assert rows["cannot"]["said"] == "not on a Tuesday"


@pytest.mark.dear
def test_what_comes_after_a_process_that_is_gone_runs_in_a_new_one(rows):
    assert rows["first"]["measured"]["pid"] != rows["last"]["measured"]["pid"]


@pytest.mark.dear
def test_what_is_left_when_the_time_is_up_is_said_to_be():
    names = ("hangs", "last")
    rows = rows_of(lambda case: case.name in names, seconds=0.0)
    assert [(row["case"], row["outcome"]) for row in rows] == [
        ("hangs", "left out"),
        ("last", "left out"),
    ]
    assert rows[0]["said"] == "the time was up"


@pytest.mark.dear
def test_what_still_runs_then_is_given_up(monkeypatch):
    worker = runner.Worker(PART, Here(stand_in=True))
    assert isinstance(worker.answer(runner.STARTING), list)
    row = worker.ask(runner.Waiting("hangs", 60.0, False), 0.1)
    worker.end()
    assert (row["outcome"], row["said"]) == ("left out", "it was running when the time was up")
    assert worker.process.returncode == -9


@pytest.mark.dear
def test_several_at_a_time():
    rows = rows_of(lambda case: case.name in ("sleeps", "last", "first"), workers=3)
    assert sorted(row["case"] for row in rows) == ["first", "last", "sleeps"]
    assert all(row["outcome"] == "right" for row in rows)


@pytest.mark.dear
def test_a_part_that_is_none_is_one_row():
    (row,) = rows_of(part="tests.gpu_hour.nothing")
    assert row["outcome"] == "crashed"
    assert "No module named 'tests.gpu_hour.nothing'" in row["said"]


def test_rows_are_printed_and_written_as_they_come(tmp_path, capsys):
    report = Report("basics", tmp_path / "out")
    report(
        {"case": "one", "outcome": "right", "seconds": 1.25, "measured": {"x": 0.1234567, "n": 3}}
    )
    assert capsys.readouterr().out == "right       1.2 s  one  x=0.1235  n=3\n"
    report({"case": "two", "outcome": "wrong", "seconds": 0.0, "said": "no"})
    report({"case": "three", "outcome": "left out", "said": "the time was up"})
    written = [json.loads(x) for x in (tmp_path / "out" / "basics.jsonl").read_text().splitlines()]
    assert [row["case"] for row in written] == ["one", "two", "three"]
    assert report.summary().splitlines() == [
        "basics: 1 right, 1 wrong, 1 left out",
        f"  {line(report.rows[1])}",
        "  left out: 1, of which the first is three",
    ]
    assert report.bad == [report.rows[1]]
