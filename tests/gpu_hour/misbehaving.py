"""Cases that hang, crash or fail as a broken kernel might, for the tests of the runner."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.gpu_hour.cases import Cannot, Case, Here


def cases(here: Here) -> list[Case]:
    def wrong() -> None:
        raise AssertionError("3 and not 4")

    def dies() -> None:
        print("a last word", flush=True)
        os._exit(7)

    def hangs() -> None:
        time.sleep(600)

    def cannot() -> None:
        raise Cannot("not on a Tuesday")

    def leaves() -> None:
        raise SystemExit(3)

    return [
        Case("first", lambda: {"pid": os.getpid(), "ratio": 0.123456}),
        Case("wrong", wrong),
        Case("dies", dies),
        Case("hangs", hangs, seconds=0.5),
        Case("cannot", cannot),
        Case("leaves", leaves),
        Case("sleeps", lambda: time.sleep(0.3)),
        Case("last", lambda: {"pid": os.getpid(), "stand-in": here.stand_in}),
        Case("never", lambda: Path("never").read_text(), finer=True),
    ]
