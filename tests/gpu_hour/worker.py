"""A worker process that runs cases; there may be several, and one that hangs or dies is replaced.

Through a pipe, it lists its cases, receives their names, and returns their rows. With ``--print``
and names, it runs only these and prints the rows, for tools that profile a process.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from functrans.errors import DeviceError
from functrans.run.cuda.compile import require_compiler
from functrans.run.cuda.driver import driver
from tests.gpu_hour.cases import Cannot, Case, Here
from tests.gpu_hour.machine import DEVICE, device, is_well

WORDS = 300
"""Characters of what a failure says that a row shows; the file has more of it."""


def attempt(case: Case, here: Here) -> dict[str, Any]:
    """The row of a case: whatever it raises, there is one."""
    start = time.perf_counter()
    row: dict[str, Any] = {"case": case.name, "outcome": "right"}
    measured: dict[str, Any] = {}
    try:
        with device(here, case.libraries):
            measured = dict(case.run() or {})
            there = driver(DEVICE)
            there.stream()
            there.synchronize()  # what a kernel has done to the device is this case's
    except (Cannot, pytest.skip.Exception) as reason:
        row |= {"outcome": "cannot", "said": str(reason)}
    except BaseException as error:
        outcome = "wrong" if isinstance(error, AssertionError) else "failed"
        said = " ".join(f"{type(error).__name__}: {error}".split())
        row |= {"outcome": outcome, "said": said[:WORDS]}
        row["trace"] = traceback.format_exc()[-6000:]
    row["seconds"] = round(time.perf_counter() - start, 3)
    row["measured"] = measured
    row["well"] = here.stand_in or row["outcome"] in ("right", "cannot") or is_well()
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", help="the module that has the cases")
    parser.add_argument("--pipe", type=int, help="its descriptor")
    parser.add_argument("--print", nargs="*", default=[], metavar="NAME", dest="names")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    faulthandler.register(signal.SIGUSR1)  # the runner asks one that hangs where it is
    here = Here(asked.stand_in, asked.out)
    cases = {case.name: case for case in import_module(asked.part).cases(here)}
    gc.freeze()  # garbage is collected often here: not among what was imported
    for name in asked.names:
        print(json.dumps(attempt(cases[name], here)), flush=True)
    if asked.pipe is None:
        return
    pipe = Connection(asked.pipe)
    try:
        if not here.stand_in:
            driver(DEVICE)
            require_compiler()
    except DeviceError as error:
        pipe.send({"outcome": "nothing", "said": str(error)})
        return
    pipe.send([(case.name, case.seconds, case.finer) for case in cases.values()])
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        pipe.send(attempt(cases[name], here))


if __name__ == "__main__":
    main(sys.argv[1:])
