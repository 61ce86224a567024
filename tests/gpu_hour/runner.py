"""Distributes cases to worker processes within a time limit; each case yields a row in any event.

A worker that exceeds a case's time limit is killed with its children; a worker that dies, or whose
device refuses further work, is replaced. Cases left at the end of the time are reported as such.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import Any, NamedTuple

from tests.gpu_hour.cases import Here

ROOT = Path(__file__).parents[2]

STARTING = 120.0
"""Seconds in which a worker must have imported what it needs."""

STARTS = 3
"""So many workers that do not start, one after the other, and no more is tried."""

BAD = ("wrong", "failed", "crashed", "hung")
"""Outcomes of which there should be none."""

Row = dict[str, Any]


class Waiting(NamedTuple):
    """What is known here of a case: the worker has it."""

    name: str
    seconds: float
    finer: bool


class NothingToRunOn(Exception):
    """What there is none of, in words."""


class Worker:
    """A process that runs cases of a part."""

    def __init__(self, part: str, here: Here) -> None:
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-m", "tests.gpu_hour.worker", part, "--pipe"]
        command += [str(theirs.fileno()), *(["--stand-in"] if here.stand_in else [])]
        command += ["--out", str(here.out)] if here.out is not None else []
        self.log = TemporaryFile()  # it lives as long as the process
        self.process = subprocess.Popen(
            command, cwd=ROOT, pass_fds=[theirs.fileno()], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        theirs.close()

    def answer(self, seconds: float) -> Any:
        """What it sends next, or the row of one that sends nothing."""
        try:
            if self.pipe.poll(max(seconds, 0)):
                return self.pipe.recv()
        except (EOFError, OSError):
            self._wait()
            tail = self._said()
            last = tail.strip().rpartition("\n")[2]
            said = f"the process ended with {self.process.returncode}: {last}"
            return {"outcome": "crashed", "said": said, "trace": tail}
        return {
            "outcome": "hung", "said": f"no answer within {seconds:.0f} s", "trace": self._stacks(),
        }  # fmt: skip

    def ask(self, case: Waiting, seconds: float) -> Row:
        """The row of a case."""
        with suppress(OSError):  # it has died: there will be no answer
            self.pipe.send(case.name)
        start = monotonic()
        found = self.answer(min(case.seconds, seconds))
        if found["outcome"] == "hung" and seconds < case.seconds:
            found = {"outcome": "left out", "said": "it was running when the time was up"}
        return {"case": case.name, "seconds": round(monotonic() - start, 3), **found}

    def end(self) -> None:
        """End it, and what it has started."""
        self.pipe.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._wait()
        self.log.close()

    def _stacks(self) -> str:
        """Where its threads are: on the host, or waiting for the device."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
            sleep(0.5)
        return self._said()

    def _said(self) -> str:
        """The end of what it has written."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), 2000, max(size - 2000, 0)).decode(errors="replace")

    def _wait(self) -> None:
        """Wait for its end, but not for ever: a device that hangs may hold on to it."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)


def run(
    part: str,
    here: Here,
    report: Callable[[Row], object],
    keep: Callable[[Waiting], bool] = lambda case: True,
    seconds: float = 600.0,
    workers: int = 1,
) -> None:
    """Run the cases of a part in order, as many at a time as there are workers.

    Parameters
    ----------
    part : str
        The module whose function ``cases`` gives them, in a worker.
    here : Here
    report : callable
        Is given each row as soon as it is there, by one thread at a time.
    keep : callable
        Which cases are wanted.
    seconds : float
        After which no case is begun, and those that run are given up.
    workers : int

    Raises
    ------
    NothingToRunOn
        If there is no GPU, or something is missing.
    """
    end, lock, failed_starts = monotonic() + seconds, threading.Lock(), 0
    first = Worker(part, here)
    found = first.answer(STARTING)
    if isinstance(found, dict):
        first.end()
        if found["outcome"] == "nothing":
            raise NothingToRunOn(found["said"])
        report({"case": part, **found})
        return
    waiting = deque(case for each in found if keep(case := Waiting(*each)))

    def tell(row: Row) -> None:
        with lock:
            report(row)

    def next_case() -> Waiting | None:
        with lock:
            return waiting.popleft() if waiting and monotonic() < end else None

    def serve(worker: Worker | None) -> None:
        nonlocal failed_starts
        while failed_starts < STARTS and (case := next_case()) is not None:
            if worker is None:
                worker = Worker(part, here)
                started = worker.answer(min(STARTING, end - monotonic()))
                if isinstance(started, dict):
                    worker.end()
                    worker = None
                    failed_starts += 1
                    tell({"case": case.name, **started})
                    continue
                failed_starts = 0
            row = worker.ask(case, end - monotonic())
            is_well = row.pop("well", False)
            tell(row)
            if not is_well:
                worker.end()
                worker = None
        if worker is not None:
            worker.end()

    threads = [
        threading.Thread(target=serve, args=(None if number else first,))
        for number in range(max(min(workers, len(waiting)), 1))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # somebody does not want to wait
        waiting.clear()
        raise
    why = "workers do not start" if failed_starts >= STARTS else "the time was up"
    for case in waiting:
        report({"case": case.name, "outcome": "left out", "said": why})


def line(row: Mapping[str, Any]) -> str:
    """A row as it is printed."""
    measured = "  ".join(f"{name}={short(x)}" for name, x in row.get("measured", {}).items())
    took = f"{row['seconds']:6.1f} s" if "seconds" in row else " " * 8
    text = f"{row['outcome']:9}{took}  {row['case']}"
    return "  ".join(each for each in (text, measured, row.get("said", "")) if each)


def short(x: Any) -> str:
    """A measured number, with as many digits as mean something."""
    return f"{x:.4g}" if isinstance(x, float) else str(x)


class Report:
    """Rows, printed and written as they come.

    Parameters
    ----------
    name : str
        Of the part: of the file, too.
    out : Path or None
    """

    def __init__(self, name: str, out: Path | None) -> None:
        self.name = name
        self.rows: list[Row] = []
        self._path = None if out is None else out / f"{name}.jsonl"
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("")

    def __call__(self, row: Row) -> None:
        self.rows.append(row)
        if row["outcome"] != "left out":
            print(line(row), flush=True)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"part": self.name, **row}, default=str) + "\n")

    @property
    def bad(self) -> list[Row]:
        """The rows of which there should be none."""
        return [row for row in self.rows if row["outcome"] in BAD]

    def summary(self) -> str:
        """How many of which outcome, what is bad, and what was left out."""
        counts = Counter(row["outcome"] for row in self.rows)
        lines = [f"{self.name}: " + ", ".join(f"{n} {what}" for what, n in counts.items())]
        lines += [f"  {line(row)}" for row in self.bad]
        left = [row["case"] for row in self.rows if row["outcome"] == "left out"]
        lines += [f"  left out: {len(left)}, of which the first is {left[0]}"] if left else []
        return "\n".join(lines)
