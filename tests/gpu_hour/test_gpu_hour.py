"""All parts on a stand-in for the GPU, so that no simple mistakes are left for a real one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from functrans.errors import DeviceError
from functrans.run.cuda import driver
from tests import amount
from tests.gpu_hour import basics, correctness, marked_tests, speed, thresholds
from tests.gpu_hour.__main__ import PARTS, unsettled
from tests.gpu_hour.cases import Cannot, Here
from tests.gpu_hour.programs import ORDER
from tests.gpu_hour.rows import ROWS
from tests.gpu_hour.worker import attempt
from tests.run.cuda.on_libcuda import printed_in_a_process

ROOT = Path(__file__).parents[2]

STAND_IN = Here(stand_in=True)

NOT_HERE = (
    "a stand-in ",
    "could not import 'jax'",
    "could not import 'torch'",
    "could not import 'cupy'",
    "could not import 'nvmath'",
    "ncu is not installed",
    "compute-sanitizer is not installed",
    "needs a C compiler",
    "needs the packages of functrans",
    "needs two GPUs",
    "it has no sample of this dtype",
    "none of its arguments has floats",
)
"""What a row may say that cannot run on a stand-in."""

TOOLS = {
    # runs the program, as the real ones do
    "compute-sanitizer": 'shift 2\n"$@"\necho "========= ERROR SUMMARY: 0 errors"\n',
    "ncu": (
        "shift 7\n"
        '"$@" > /dev/null\n'
        'echo "==PROF== Disconnected from process 7"\n'
        'echo \'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\'\n'
        'echo \'"0","nest0","gpu__time_duration.sum","ns","1,500"\'\n'
        'echo \'"0","nest0","launch__registers_per_thread","register/thread","32"\'\n'
    ),
}
"""Programs that play NVIDIA's."""


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    """The rows of all parts, from a process as one starts it, and what it printed."""
    folder, tools = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("tools")
    for name, text in TOOLS.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}")
        (tools / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "tests.gpu_hour", "--stand-in", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    rows = {
        part: [json.loads(each) for each in (folder / f"{part}.jsonl").read_text().splitlines()]
        for part in PARTS
    }
    return done, rows, folder


@pytest.mark.dear
@pytest.mark.skipif(sys.platform != "linux", reason="GPUs are used on Linux")
def test_each_row_is_right_or_says_why_it_cannot_run_here(hour):
    done, rows, _ = hour
    assert done.returncode == 0, done.stdout + done.stderr
    for row in (row for each in rows.values() for row in each):
        cannot = row["outcome"] == "cannot" and row["said"].startswith(NOT_HERE)
        without_kernel = row["outcome"] == "cannot" and "has no kernel for a GPU" in row["said"]
        assert row["outcome"] == "right" or cannot or without_kernel, row
    for part, each in rows.items():
        right = [row for row in each if row["outcome"] == "right"]
        assert len(right) >= 15, part
        # each is printed when it is there
        assert all(f"  {row['case']}" in done.stdout for row in each)


@pytest.mark.dear
@pytest.mark.skipif(sys.platform != "linux", reason="GPUs are used on Linux")
def test_the_tools_of_nvidia_are_read(hour):
    _, rows, folder = hour
    of = {row["case"]: row for each in rows.values() for row in each}
    assert of["compute-sanitizer racecheck"]["measured"] == {"cases": 1}
    seen = of["ncu, number 1 of the slowest"]["measured"]
    assert seen["row"] in ROWS and seen["0 nest0"] == "us 1.5, registers 32"
    table = (folder / "thresholds.txt").read_text()
    assert re.search(r"^block +256: 1\.000, 128: 1\.000, 512: 1\.000$", table, re.MULTILINE)


def finer():
    for module in (basics, correctness, speed, thresholds):
        for case in module.cases(STAND_IN):
            if case.finer:
                yield pytest.param(case, id=f"{module.__name__.rpartition('.')[2]}: {case.name}")


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="GPUs are used on Linux")
@pytest.mark.parametrize("case", list(finer()) if amount.FULL else [])
def test_so_is_each_that_there_is_no_time_for_in_the_quick_set(case):
    row = attempt(case, STAND_IN)
    if row["outcome"] == "cannot":
        assert row["said"].startswith(NOT_HERE) or "has no kernel for a GPU" in row["said"], row
    else:
        assert row["outcome"] == "right", row["trace"]


@pytest.mark.full
def test_nothing_but_numbers_is_wrong_on_our_libcuda(tmp_path):
    """What a stand-in leaves out: the real driver's calls, events and counts."""
    parts = [module.__name__ for module in (basics, correctness, speed, thresholds)]
    printed, _ = printed_in_a_process(tmp_path, "tests.gpu_hour.on_libcuda", str(tmp_path), *parts)
    failed = [json.loads(each) for each in printed.splitlines() if each.startswith('{"case"')]
    assert not failed
    assert printed.endswith('"done"\n')


@pytest.mark.dear
def test_without_a_gpu_it_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu_hour", "basics"],
        cwd=ROOT, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("there is nothing to be found out here: ")


def test_all_tests_for_a_gpu_are_among_the_cases():
    marked = {
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"mark\.gpu\b", path.read_text("utf-8"))
    }
    assert marked - {Path(__file__)} == {Path(each.__file__) for each in marked_tests.MODULES}


def test_a_wrong_number_is_wrong():
    row = ROWS["softmax"]
    x = speed.on_host(STAND_IN, row.operands[0])
    right = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    expected = speed.expected_of(STAND_IN, row)
    assert speed.error(STAND_IN, row, right, expected) < 1e-6
    for found in (right * 1.001, np.where(right == right[-1, -1], np.nan, right)):
        with pytest.raises(AssertionError, match="a relative error of"):
            speed.error(STAND_IN, row, found, expected)


def test_what_was_bad_or_left_out_is_run_again(tmp_path):
    rows = {"first: sum": "failed", "first: sort": "left out", "loop: donated": "right"}
    text = "".join(json.dumps({"case": case, "outcome": x}) + "\n" for case, x in rows.items())
    (tmp_path / "basics.jsonl").write_text(text)
    assert unsettled(tmp_path / "basics.jsonl") == {"first: sum", "first: sort"}
    assert unsettled(tmp_path / "speed.jsonl") == set()


def test_the_slowest_rows_are_those_farthest_from_a_copy(tmp_path):
    rows = [
        {"case": "softmax", "outcome": "right", "measured": {"of a copy": 0.4}},
        {"case": "sum", "outcome": "right", "measured": {"of a copy": 0.9}},
        {"case": "transpose", "outcome": "wrong", "measured": {}},
        {"case": "product float32", "outcome": "right", "measured": {"TFLOP/s": 6.0}},
    ]
    (tmp_path / "speed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = thresholds.slowest(Here(out=tmp_path))
    assert found[:3] == ["product float32", "softmax", "sum"]
    assert "transpose" not in found and len(found) == thresholds.SLOWEST


def test_the_sweep_tells_what_to_change(tmp_path):
    measured = {"usual": "32", "us 32": 10.0, "us 64": 8.0, "us 16": 12.0, "128": "as 64"}
    rows = [
        {"case": f"in_flight: {name}", "outcome": "right", "measured": measured} for name in "ab"
    ]
    (tmp_path / "thresholds.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = thresholds.table(Here(out=tmp_path))
    assert found == {"numbers": 1, "in_flight": "32 -> 64 (20% less time)"}
    with pytest.raises(Cannot, match="no --out FOLDER"):
        thresholds.table(STAND_IN)


def test_kernels_are_timed_behind_work_that_takes_longer_than_the_host(monkeypatch):
    order, clock = [], iter(range(100))
    monkeypatch.setattr(speed, "perf_counter", lambda: 1e-3 * next(clock))

    def by_events(call, count):
        order.append(f"{count} timed")
        for _ in range(count):
            call()
        return count * 1e-2

    monkeypatch.setattr(speed, "by_events", by_events)
    span = speed.behind(lambda: order.append("work"))
    assert span(lambda: order.append("call"), 20) == 20 * 1e-2
    # the host takes 1 ms for a call, 20 for all of them; the work takes 10 ms each time
    assert order == ["call", "1 timed", "work", *["work"] * 5, "20 timed", *["call"] * 20]


def test_all_that_is_swept_are_rows_and_numbers_of_a_target():
    for name, sweep in thresholds.SWEEPS.items():
        assert sweep.usual is not None, name
        assert set(sweep.rows) <= ROWS.keys(), name
        assert sweep.target(sweep.usual) == thresholds.CUDA or name.startswith("depth"), name
        assert len({sweep.target(value) for value in sweep.values}) == len(sweep.values), name
    assert set(thresholds.USUAL_SUSPECTS) <= ROWS.keys()
    names = {case.name for case in correctness.cases(Here())}
    assert set(correctness.SANITIZED) <= names
    assert len(ORDER) >= 25


def test_a_device_that_is_gone_is_noticed():
    with driver.using():
        case = basics.cases(Here())[0]
        row = attempt(case, Here())
    assert row["outcome"] == "failed" and row["said"].startswith(DeviceError.__name__)
    assert not row["well"]
