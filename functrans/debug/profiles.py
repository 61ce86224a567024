"""Profiles of programs while they run: the time of each kernel, thread and compiler stage."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from functrans.caches import cached_property
from functrans.debug.kernels import Described, described
from functrans.debug.lines import key_of
from functrans.debug.words import line_of, time, where
from functrans.records import NamedTuple
from functrans.run.call import timeline
from functrans.run.call.timeline import Event, Log
from functrans.spans import Span, now
from functrans.trace.source import Source

MOST_ROWS = 30

PAUSE = 0.02
"""The fewest milliseconds between two kernels that a drawing shows as idle."""


class Row(NamedTuple):
    """A row of a table.

    Parameters
    ----------
    seconds : float
    calls : int
        The number of calls.
    what : str
    sources : tuple of Source
        Your lines to which it belongs.
    """

    seconds: float
    calls: int
    what: str
    sources: tuple[Source, ...] = ()


class Rows(list[Row]):
    """A table of times, the longest first; prints as one."""

    def __init__(self, rows: Iterable[Row], whole: float) -> None:
        super().__init__(sorted(rows, key=lambda row: -row.seconds))
        self._whole = whole

    def divided(self, repeats: int) -> Rows:
        """The times of one of several repetitions."""
        rows = (
            row._replace(seconds=row.seconds / repeats, calls=row.calls // repeats) for row in self
        )
        return Rows(rows, self._whole / repeats)

    def __repr__(self) -> str:
        lines = [f"{'time':>8} {'share':>6} {'calls':>7}"]
        for row in self[:MOST_ROWS]:
            share = row.seconds / self._whole if self._whole else 0.0
            lines.append(f"{time(row.seconds):>8} {share:>6.1%} {row.calls:>7}  {row.what}")
        if len(self) > MOST_ROWS:
            lines.append(f"... and {len(self) - MOST_ROWS} more rows")
        return "\n".join(lines)


class Moment(NamedTuple):
    """The memory that a program needs while a kernel runs.

    Parameters
    ----------
    start, end : float
        Seconds since the profile began.
    nbytes : int
        Of its arguments and results, and of the intermediate values that are needed then.
    what : str
        The kernel.
    """

    start: float
    end: float
    nbytes: int
    what: str


class Profile:
    """A context in which compiled functions are timed, kernel by kernel; returned by `profile`.

    Attributes
    ----------
    seconds : float
        The duration of the context.
    """

    def __init__(self) -> None:
        self._log = Log([], 0, [], {})
        self._start = self._end = 0

    def __enter__(self) -> Self:
        timeline.open_log()
        self._start = now()
        return self

    def __exit__(self, *error: object) -> None:
        self._end = now()
        log = timeline.close_log()
        # threads that wrote an event of an earlier profile late
        events = [each for each in log.events if each.start >= self._start]
        self._log = log._replace(events=events)

    @property
    def seconds(self) -> float:
        return (self._end - self._start) * 1e-9

    def by_kernel(self) -> Rows:
        """The time of each kernel, and of each NumPy call for operations without kernels."""
        return self._rows(lambda kernel: [(kernel.what, 1.0)])

    def by_line(self) -> Rows:
        """The time of each of your lines.

        The time of a kernel that computes several lines is divided among them in proportion to
        their operations, which is an estimate.
        """
        return self._rows(lambda kernel: kernel.lines.items())

    def by_operation(self) -> Rows:
        """The time of each kind of operation, estimated as `by_line` is."""
        return self._rows(lambda kernel: kernel.operations.items())

    def by_stage(self) -> Rows:
        """The time of running, of tracing, and of each stage of the compiler.

        "trace" runs your function; "import" loads modules and LLVM; "print" generates LLVM IR;
        "load" loads machine code; "look up" searches for a program on disk; "the rest" is Python
        code. The time of a span excludes the spans inside.
        """
        own = dict(_own_times(self._log.spans))
        found: dict[str, list[float]] = {}
        for i, span in enumerate(self._log.spans):
            found.setdefault(span.kind, []).append(own[i])
        found["run"] = [each.end - each.start for each in self._whole()]
        rows = [Row(sum(times) * 1e-9, len(times), kind) for kind, times in found.items() if times]
        rest = self.seconds - sum(row.seconds for row in rows)
        return Rows([*rows, Row(max(rest, 0.0), 1, "the rest")], self.seconds)

    def by_thread(self) -> Rows:
        """The time that each of the library's threads spent in kernels."""
        found: dict[str, list[int]] = {}
        shared = {(each.program, each.step, each.caller) for each in self._shares()}
        for each in self._log.events:
            if each.share >= 0:
                name = "the caller" if each.share == 0 else f"thread {each.share}"
            elif (each.program, each.step, each.caller) not in shared:
                name = "the caller"
            else:
                continue
            found.setdefault(name, []).append(each.end - each.start)
        return Rows(
            (Row(sum(times) * 1e-9, len(times), name) for name, times in found.items()),
            self.seconds,
        )

    def memory(self) -> list[Moment]:
        """The memory that programs need, for each kernel."""
        return [
            Moment(
                (each.start - self._start) * 1e-9,
                (each.end - self._start) * 1e-9,
                kernel.nbytes,
                kernel.what,
            )
            for each in sorted(self._whole(), key=lambda each: each.start)
            for kernel in [self._kernel(each)]
        ]

    def plot_memory(self, axes: Any = None) -> Any:
        """Draw the memory that programs need over the time, by matplotlib.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.figure(figsize=(8, 3), layout="constrained").add_subplot()
        times: list[float] = []
        sizes: list[float] = []
        for moment in self.memory():
            start, end, size = 1e3 * moment.start, 1e3 * moment.end, moment.nbytes / 1e6
            if not times or start - times[-1] > PAUSE:
                times += [*times[-1:], start]
                sizes += [0.0] * (2 if sizes else 1)
            times += [start, end]
            sizes += [size, size]
        axes.fill_between(times, sizes, alpha=0.3)
        axes.plot(times, sizes, linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set(xlabel="time (ms)", ylabel="memory of programs (MB)")
        return axes

    def save_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Parameters
        ----------
        path : path
            Of the JSON file.
        """
        events = [
            {"name": f"{span.kind} {span.name}".strip(), "cat": "library", "ph": "X", "pid": 0,
             "tid": names, "ts": self._micro(span.start), "dur": (span.end - span.start) / 1e3}
            for span in self._log.spans
            for names in [self._thread(span.thread)]
        ]  # fmt: skip
        for each in self._log.events:
            kernel = self._kernel(each)
            events.append(
                {"name": kernel.what, "cat": "kernel", "ph": "X", "pid": 0,
                 "tid": self._thread(each.caller, each.share), "ts": self._micro(each.start),
                 "dur": (each.end - each.start) / 1e3,
                 "args": {"lines": [where(source) for source in kernel.sources]}}
            )  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")

    def save_speedscope(self, path: str | os.PathLike[str]) -> None:
        """Write a profile for speedscope (speedscope.app): your lines, and under them the kernels.

        Parameters
        ----------
        path : path
            Of the JSON file.
        """
        frames: dict[str, int] = {}
        samples: list[list[int]] = []
        weights: list[float] = []
        for kernel, seconds, _ in self._measured():
            for key, share in kernel.lines.items():
                stack = [key, kernel.what]
                samples.append([frames.setdefault(name, len(frames)) for name in stack])
                weights.append(seconds * share)
        profile = {
            "type": "sampled", "name": "functrans", "unit": "seconds", "startValue": 0,
            "endValue": sum(weights), "samples": samples, "weights": weights,
        }  # fmt: skip
        content = {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": [profile],
        }
        Path(path).write_text(json.dumps(content), encoding="utf-8")

    def __repr__(self) -> str:
        parts = [f"profile of {time(self.seconds)}", repr(self.by_stage())]
        if self._log.events or any(span.kind == "NumPy" for span in self._log.spans):
            parts += ["by line:", repr(self.by_line()), "by kernel:", repr(self.by_kernel())]
        if self._log.lost:
            parts.append(
                f"{self._log.lost} more kernel calls are not counted: a profile has room for "
                f"{timeline.MOST_EVENTS}"
            )
        return "\n\n".join(parts)

    # -- contents of the log -------------------------------------------------------------------

    def _whole(self) -> list[Event]:
        return [each for each in self._log.events if each.share < 0]

    def _shares(self) -> Iterator[Event]:
        return (each for each in self._log.events if each.share >= 0)

    @cached_property
    def _kernels(self) -> Mapping[int, list[Described]]:
        """The kernels of each program."""
        return {number: described(program) for number, program in self._log.programs.items()}

    def _kernel(self, event: Event) -> Described:
        kernels = self._kernels.get(event.program, [])
        return kernels[event.step] if event.step < len(kernels) else _GONE

    def _measured(self) -> Iterator[tuple[Described, float, int]]:
        """Each kernel, with its seconds and the number of its calls."""
        times: dict[tuple[int, int], list[int]] = {}
        ones: dict[tuple[int, int], Event] = {}
        for each in self._whole():
            times.setdefault((each.program, each.step), []).append(each.end - each.start)
            ones[each.program, each.step] = each
        for key, found in times.items():
            yield self._kernel(ones[key]), sum(found) * 1e-9, len(found)
        calls: dict[Any, list[tuple[float, Span]]] = {}
        own = dict(_own_times(self._log.spans))
        for i, span in enumerate(self._log.spans):
            if span.kind == "NumPy":
                source = span.source if isinstance(span.source, Source) else None
                calls.setdefault((span.name, key_of(source)), []).append((own[i] * 1e-9, span))
        for spans in calls.values():
            span = spans[0][1]
            source = span.source if isinstance(span.source, Source) else None
            lines, operations = {line_of(source): 1.0}, {span.name: 1.0}
            what = f"NumPy: {span.name}, line {source.line}" if source else f"NumPy: {span.name}"
            sources = () if source is None else (source,)
            kernel = Described(what, sources, lines, operations, 0)
            yield kernel, sum(seconds for seconds, _ in spans), len(spans)

    def _rows(self, shares: Callable[[Described], Iterable[tuple[str, float]]]) -> Rows:
        found: dict[str, Row] = {}
        for kernel, seconds, calls in self._measured():
            for what, share in shares(kernel):
                before = found.get(what, Row(0.0, 0, what))
                sources = tuple(dict.fromkeys((*before.sources, *kernel.sources)))
                found[what] = Row(
                    before.seconds + seconds * share, before.calls + calls, what, sources
                )
        return Rows(found.values(), sum(row.seconds for row in found.values()))

    def _micro(self, at: int) -> float:
        return (at - self._start) / 1e3

    def _thread(self, caller: int, share: int = -1) -> str:
        if share > 0:
            return f"thread {share}"
        name = next((t.name for t in threading.enumerate() if t.ident == caller), str(caller))
        return f"{name}: shares" if share == 0 else name


_GONE = Described("a program that is gone", (), {"(no line of yours)": 1.0}, {"unknown": 1.0}, 0)


def _own_times(spans: list[Span]) -> Iterator[tuple[int, int]]:
    """The time of each span without the spans inside, on the same thread."""
    by_thread: dict[int, list[int]] = {}
    for i, span in enumerate(spans):
        by_thread.setdefault(span.thread, []).append(i)
    for numbers in by_thread.values():
        open_: list[tuple[int, list[int]]] = []  # spans, and the time inside of each
        order = sorted(numbers, key=lambda i: (spans[i].start, -spans[i].end))
        for i in order:
            while open_ and spans[open_[-1][0]].end <= spans[i].start:
                number, inside = open_.pop()
                yield number, spans[number].end - spans[number].start - sum(inside)
            if open_:
                open_[-1][1].append(spans[i].end - spans[i].start)
            open_.append((i, []))
        for number, inside in open_:
            yield number, spans[number].end - spans[number].start - sum(inside)


def profile() -> Profile:
    """Time compiled functions while they run: each kernel, each thread, each stage of a first call.

    Returns
    -------
    Profile
        A context manager. After it, ``print`` shows the times, and
        `Profile.by_line`, `Profile.by_kernel`, `Profile.by_operation`, `Profile.by_thread`,
        `Profile.by_stage`, `Profile.memory`, `Profile.save_chrome_trace` and
        `Profile.save_speedscope` show it in other ways.

    Raises
    ------
    RuntimeError
        On entering, if another profile is active: a process can have one, for all threads.

    Notes
    -----
    During a profile, each kernel reads the clock twice (some 40 ns). A profile can hold a million
    kernel calls. `explain` times functions that are not compiled. Programs of the Numba backend and
    of CUDA are not recorded.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, grad, jit
    >>> @jit
    ... @grad
    ... def slope(w, x):
    ...     h = np.tanh(x @ w)
    ...     return np.sum(h**2)
    >>> w, x = np.ones((8, 4)), np.ones((100, 8))
    >>> with debug.profile() as seen:
    ...     for _ in range(10):
    ...         w = w - 0.1 * slope(w, x)
    >>> sorted(row.what.split("  ")[1] for row in seen.by_line())
    ['h = np.tanh(x @ w)', 'return np.sum(h**2)']
    >>> sum(row.calls for row in seen.by_stage() if row.what == "trace")
    1
    """
    return Profile()
