"""Progress bars of loops: between the segments of a loop, an effect moves a bar of tqdm's."""

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
"""How often a bar moves at most: the program stops for it."""

_tqdm = lazy("tqdm.auto:tqdm")


def bar(progress: object, total: int, what: str) -> Bar:
    """A bar for a loop of so many steps; ``progress`` is its title. It raises as `titled` does."""
    return Bar(titled(progress, what), total)


def titled(progress: object, what: str) -> str:
    """The title of a progress bar, once it is one and there is something that draws it.

    Raises
    ------
    TypeError
        If the title is no string.
    ImportError
        If there is no tqdm.
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
    """Draws how many steps are done. Calls of one program in several threads have a bar each."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._shown: dict[int, Any] = {}
        self._lock = lock()

    @property
    def every(self) -> int:
        """How many steps there are between two moves."""
        return max(-(-self._total // MOST_SEGMENTS), 1)

    def moved(self, done: Any, count: int, results: Any) -> Any:
        """The number of steps done, with some more, which the bar shows once there are results."""
        now = _after(results, done + count)
        perform(self, now)
        return now

    def __call__(self, done: Any) -> None:
        """Show that so many steps are done; with the last one the bar ends."""
        thread, count = threading.get_ident(), int(done)
        with self._lock:
            shown = self._shown.get(thread)
            if shown is None and count >= self._total:
                return  # another example of a map has been here, or there is one segment
            if shown is None or count < shown.n:  # an earlier call was broken off
                if shown is not None:
                    shown.close()
                shown = self._shown[thread] = _tqdm(desc=self._title, total=self._total)
            shown.update(count - shown.n)
            if count >= self._total:
                self._shown.pop(thread).close()


class Counter:
    """Draws how many steps a loop has done that ends by a condition; each example has a bar."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shown: dict[int, Any] = {}
        self._lock = lock()

    def next_shown(self, done: Any) -> Any:
        """The count that is shown next: each of the first 64 steps, then every thirty-second part.

        So a slow loop shows each step, and a fast one hardly stops for it.
        """
        return done + np.maximum(done // 32, 1)

    def moved(self, done: Any, results: Any) -> Any:
        """The number of steps done, which the bar shows once there are results."""
        done = _after(results, done)
        perform(self, done)
        return done

    def ended(self, done: Any) -> None:
        """The bar ends."""
        perform(self._end, done)

    def __call__(self, done: Any) -> None:
        """Show that so many steps are done."""
        thread, count = threading.get_ident(), int(done)
        with self._lock:
            shown = self._shown.get(thread)
            if shown is None or count < shown.n:  # an earlier call was broken off
                if shown is not None:
                    shown.close()
                shown = self._shown[thread] = _tqdm(desc=self._title)
            shown.update(count - shown.n)

    def _end(self, done: Any) -> None:
        with self._lock:
            if (shown := self._shown.pop(threading.get_ident(), None)) is not None:
                shown.close()


def _after(results: Any, value: Any) -> Any:
    """The value, once there are the results."""
    leaves = [x for x in tree.leaves(results) if isinstance(x, Tracer)]
    return tied(value, first_token(*leaves, lanes=()))[0] if leaves else value
