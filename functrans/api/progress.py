"""Progress bars of loops: an effect between the segments of a loop advances a tqdm bar."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.locks import lock
from functrans.ops.calls.effect import first_token, perform, tied
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree

MOST_SEGMENTS = 100
"""The most updates of a bar, since each interrupts the program."""

_tqdm = lazy("tqdm.auto:tqdm")


def titled(progress: object, what: str) -> str:
    """Check the title of a progress bar, and that tqdm is installed.

    Raises `TypeError` if the title is not a string. Raises `ImportError` if tqdm is not installed.
    """
    if not isinstance(progress, str):
        raise TypeError(
            f"progress of {what} is the title of a progress bar, a string: not {progress!r}"
        )
    try:
        _tqdm.resolve()
    except ImportError as error:
        error.add_note("Progress bars are drawn by tqdm: pip install tqdm")
        raise
    return progress


class Bar:
    """Shows the number of completed steps. Each thread that calls the program has its own bar."""

    def __init__(self, title: str, total: int | None = None) -> None:
        self._title = title
        self._total = total
        self._shown: dict[int, Any] = {}
        self._lock = lock()

    def moved(self, done: Any, results: Any) -> Any:
        """The number of completed steps, which the bar shows once the results are computed."""
        done = _after(results, done)
        perform(self, done)
        return done

    def __call__(self, done: Any) -> None:
        """Show the number of completed steps; the last step closes the bar."""
        thread, count = threading.get_ident(), int(done)
        with self._lock:
            shown = self._shown.get(thread)
            ends = self._total is not None and count >= self._total
            if shown is None and ends:
                return  # another example of a map has shown it, or there is one segment
            if shown is None or count < shown.n:  # an earlier call was interrupted
                if shown is not None:
                    shown.close()
                shown = self._shown[thread] = _tqdm(desc=self._title, total=self._total)
            shown.update(count - shown.n)
            if ends:
                self._shown.pop(thread).close()


def every(total: int) -> int:
    """The number of steps between two updates of a bar."""
    return max(-(-total // MOST_SEGMENTS), 1)


class Counter(Bar):
    """Shows the number of steps of a loop that ends by a condition, in a bar for each example."""

    def next_shown(self, done: Any) -> Any:
        """The count that is shown next: each of the first 64, then steps of a thirty-second part.

        So a slow loop shows each step, and a fast one is rarely interrupted.
        """
        return done + np.maximum(done // 32, 1)

    def ended(self, done: Any) -> None:
        """Close the bar."""
        perform(self._end, done)

    def _end(self, done: Any) -> None:
        with self._lock:
            if (shown := self._shown.pop(threading.get_ident(), None)) is not None:
                shown.close()


def _after(results: Any, value: Any) -> Any:
    """The value, with a data dependence on the results."""
    leaves = [x for x in tree.leaves(results) if isinstance(x, Tracer)]
    return tied(value, first_token(*leaves, lanes=()))[0] if leaves else value
