"""Cases at small sizes on cuda.core with our stub of libcuda, in a process of its own.

Kernels do nothing there, so that all numbers are wrong, and nobody looks at them. What fails is a
call of ours. Prints what does, as lines of JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import functrans.run.cuda.launches
from functrans.run.cuda.compile import Cubin, function_name
from functrans.run.cuda.resources import Resources
from tests.emit.cuda import test_on_machines
from tests.gpu_hour import basics, correctness, speed, thresholds
from tests.gpu_hour.cases import Here, T
from tests.gpu_hour.worker import attempt
from tests.run.cuda import on_libcuda, test_on_gpu

ROOM = (1 << 30) - 1


class Small(Here):
    """A machine with a GPU, and with the sizes of a stand-in."""

    def size(self, large: T, small: T) -> T:
        return small


def not_compiled(source: str, signature: tuple[str, ...], *options: Any) -> Cubin:
    """What our libcuda takes for a kernel: its name, and the number of its arguments."""
    name = function_name(source)
    code = f"{name} {len(signature)}\n".encode()
    return Cubin(name, code, b"", "sm_90", Resources(0, 0, 0, 0, 0))


def main(library: str, folder: str, *parts: str) -> None:
    ctypes.CDLL(library).fake_machine(1, 13000, ROOM, 0)
    for module in (functrans.run.cuda.launches, test_on_machines):
        module.compile_cubin = not_compiled
    test_on_gpu.compiled = lambda architecture: on_libcuda.CUBIN
    for module in (basics, correctness, speed, thresholds):
        for name in ("error", "check", "expect", "agree"):
            if hasattr(module, name):
                setattr(module, name, lambda *_: 0.0)
    here = Small(False, Path(folder))
    for part in parts:
        thin = {case.name for case in import_module(part).cases(Here(True)) if not case.finer}
        for case in import_module(part).cases(here):
            if case.name in thin and "random " not in case.name:  # these have one size
                row = attempt(case, here)
                if row["outcome"] == "failed" or not row["well"]:
                    print(json.dumps(row), flush=True)
    print(json.dumps("done"))


if __name__ == "__main__":
    main(*sys.argv[1:])
