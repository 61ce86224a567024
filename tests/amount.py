"""Each-choice coverage: the quick set of tests has each parameter value once, `--full` has all.

The quick set has each value of each parameter of a test and of its fixtures once, and one sample of
each kind of a long list; all other calls have the marker `full`. Of the remaining calls of a test
the quick set has one in six, and at least one. Another one in six has the marker `each_change`,
as do a third of the tests marked `dear` and the part of the full calls that checks most about
numbers: `.ci/run` runs these for every change. Tests with the same parameter values leave out
different ones.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any
from zlib import crc32

import pytest

FULL = False
"""Whether all is tried: set by conftest.py, before any test is imported."""


SEVERAL = 6
"""Of so many calls of a test, or of fewer, the quick set has one, and each change another one."""

ELSEWHERE = ("full", "slow", "gpu", "emulated")
"""Markers of what is not in the quick set anyway."""

NUMBERS = tuple(f"tests/{name}/" for name in ("composition", "numpy", "primitives", "properties"))
"""Folders whose tests compare numbers, all of them alike."""

PARTS = 12
"""One of so many parts of what they draw finer is tried with each change."""

DEAR_PARTS = 3
"""The same for tests that are marked `dear`."""


def examples(count: int) -> int:
    """How many examples Hypothesis draws, of `count` with `--full`."""
    return count if FULL else max(3, count // 8)


def one_of_each(
    kind: Callable[[Any], Hashable], values: Iterable[Any], count: int = 1
) -> list[Any]:
    """Values for `parametrize`, of which the first of each kind are in the quick set."""
    seen: dict[Hashable, int] = {}
    found = []
    for value in values:
        of = kind(value)
        seen[of] = seen.get(of, 0) + 1
        found.append(value if seen[of] <= count else pytest.param(value, marks=pytest.mark.full))
    return found


def mark_finer(items: Iterable[pytest.Item]) -> None:
    """Give the marker `full` to what is off the diagonal of a test's parameters, or after a few.

    The diagonal of n and m values, in two decorators, has the pairs number (t mod n, t mod m). Of
    what is left, five of six have the marker `full`, and one of these `each_change`.
    """
    by_test: dict[Any, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and _markers(item).isdisjoint(ELSEWHERE):
            by_test.setdefault((item.parent, item.originalname), []).append(item)
    for alike in by_test.values():
        parameters = [_names(mark) for mark in alike[0].iter_markers("parametrize")]
        named = {name for names in parameters for name in names}
        # those of fixtures, which no decorator of the test names
        parameters += [[name] for name in alike[0].callspec.params if name not in named]
        if len(parameters) > 1 and len(alike) > 1:
            _mark_off_the_diagonal(alike, parameters)
        if few := alike[0].get_closest_marker("few"):
            for item in alike[few.args[0] :]:
                item.add_marker("full")
        _thin([item for item in alike if _markers(item).isdisjoint(("full", "dear"))])
    for item in items:
        markers = _markers(item)
        is_finer, is_dear = "full" in markers, "dear" in markers
        if is_dear:
            item.add_marker("full")
        is_chosen = is_dear and is_in_first(item.name, DEAR_PARTS)
        if is_finer:
            is_chosen = is_in_part(item.nodeid)
        if is_chosen and markers.isdisjoint(ELSEWHERE[1:]):
            item.add_marker("each_change")


def _markers(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def is_in_part(name: str) -> bool:
    """Whether a test of numbers that is drawn finer is tried with each change."""
    return name.startswith(NUMBERS) and is_in_first(name, PARTS)


def is_in_first(name: str, parts: int) -> bool:
    """Whether a test is in the first of so many parts of all tests.

    Its name decides: a period would leave out the same values of an inner parameter each time.
    """
    return crc32(name.encode()) % parts == 0


def kept_of(name: str, count: int) -> int:
    """The place, modulo `SEVERAL`, of the calls of a test that are in the quick set."""
    return sum(map(ord, name)) % min(SEVERAL, count)


def kept_with_each_change(name: str, count: int) -> int:
    """The place of those that `.ci/run` adds: another one, if the test has more calls than one."""
    return (kept_of(name, count) + 1) % min(SEVERAL, count)


def _thin(items: list[Any]) -> None:
    """Mark all of the calls of a test but one of six: of each six, the same one."""
    for place, item in enumerate(items):
        name, count = item.originalname, len(items)
        if place % SEVERAL == kept_of(name, count):
            continue
        item.add_marker("full")
        if place % SEVERAL == kept_with_each_change(name, count):
            item.add_marker("each_change")


def _names(mark: pytest.Mark) -> list[str]:
    names = mark.kwargs["argnames"] if "argnames" in mark.kwargs else mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _mark_off_the_diagonal(items: list[Any], parameters: list[list[str]]) -> None:
    numbers: list[dict[Any, int]] = [{} for _ in parameters]
    places = []
    for item in items:
        values = [tuple(id(item.callspec.params[name]) for name in names) for names in parameters]
        places.append(
            tuple(
                known.setdefault(value, len(known))
                for known, value in zip(numbers, values, strict=True)
            )
        )
    sizes = [len(known) for known in numbers]
    diagonal = {tuple(t % size for size in sizes) for t in range(max(sizes))}
    for item, place in zip(items, places, strict=True):
        if place not in diagonal:
            item.add_marker("full")
