"""Progress bars of loops: between the segments of a loop, an effect moves a bar of tqdm's."""

from __future__ import annotations

import threading
from typing import Any

from functrans.lazily import lazy
from functrans.locks import lock
from functrans.ops.calls.effect import first_token, perform, tied
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree

MOST_SEGMENTS = 100
"""How often a bar moves at most: the program stops for it."""

_tqdm = lazy("tqdm.auto:tqdm")


def bar(progress: object, total: int, what: str) -> Bar:
    """A bar for a loop of so many steps; ``progress`` is its title.

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
    return Bar(progress, total)


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
        now = done + count
        leaves = [x for x in tree.leaves(results) if isinstance(x, Tracer)]
        if leaves:
            (now,) = tied(now, first_token(*leaves, lanes=()))
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
