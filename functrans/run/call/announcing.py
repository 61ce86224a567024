"""Notices of slow compilations, for interactive users at a terminal or in a notebook."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

from functrans import config
from functrans.locks import library_threads

PATIENCE = 1.0
"""Seconds after which a notice is printed."""


@contextmanager
def announced() -> Iterator[None]:
    """If the block takes long, print that a program is compiled, and afterwards the time."""
    if not config.announce_compiles or not _is_interactive():
        yield
        return
    start, over = perf_counter(), threading.Event()

    def announce() -> None:
        library_threads.add(threading.get_ident())
        try:
            if not over.wait(PATIENCE):
                said.append(True)
                _say("functrans: compiling ...")
        finally:
            library_threads.discard(threading.get_ident())

    said: list[bool] = []
    waiting = threading.Thread(target=announce, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        over.set()
        waiting.join()
        if said:
            _say(f" {perf_counter() - start:.1f} s\n")


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # a terminal may be closed at any time
        print(text, end="", file=sys.stderr, flush=True)


def _is_interactive() -> bool:
    """Whether standard error is a terminal or a notebook."""
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # it is missing or closed
        return False
