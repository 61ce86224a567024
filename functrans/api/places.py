"""Places: where a walk over state has found an object, and how to read it again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where an array is: in which holder, at which position, and how one comes there."""

    array: Any
    holder: int
    position: int
    path: int
    owner: Hashable
    key: Any
    presentable: bool
    line: int
    """Which line of the signature speaks of it."""


class Edge(NamedTuple):
    owner: Hashable
    value: Hashable
    presentable: bool


class Ways:
    """Numbers for the ways to places, which stay the same from one walk to the next."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Any], int] = {}
        self._steps: list[tuple[int, Any]] = [(-1, "")]

    def step(self, path: int, label: Any) -> int:
        """The path that goes one step on."""
        number = self._numbers.get((path, label))
        if number is None:
            number = self._numbers[path, label] = len(self._steps)
            self._steps.append((path, label))
        return number

    def text(self, path: int) -> str:
        """A path as Python would write it, as far as it goes."""
        labels: list[str] = []
        while path > 0 and len(labels) < 20:
            path, label = self._steps[path]
            if label:
                labels.append(label if isinstance(label, str) else f"[{label[0]!r}]")
        return "".join(reversed(labels)).removeprefix(".")
