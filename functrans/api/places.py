"""Access paths (places): the holder, position and path at which a walk found an object."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from functrans.records import NamedTuple


class Place(NamedTuple):
    """The place of an array: its holder, its position there, and the path to it."""

    array: Any
    holder: int
    position: int
    path: int
    owner: Hashable
    key: Any
    presentable: bool
    line: int
    """The index of its entry in the signature."""


class Edge(NamedTuple):
    owner: Hashable
    value: Hashable
    presentable: bool


class Ways:
    """Numbers of paths to places, which stay the same from one walk to the next."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Any], int] = {}
        self._steps: list[tuple[int, Any]] = [(-1, "")]

    def step(self, path: int, label: Any) -> int:
        """The path that extends a path by one step."""
        number = self._numbers.get((path, label))
        if number is None:
            number = self._numbers[path, label] = len(self._steps)
            self._steps.append((path, label))
        return number

    def text(self, path: int) -> str:
        """A path as a Python expression, as far as possible."""
        labels: list[str] = []
        while path > 0 and len(labels) < 20:
            path, label = self._steps[path]
            if label and label[0] != "":
                labels.append(label if isinstance(label, str) else f"[{label[0]!r}]")
        return "".join(reversed(labels)).removeprefix(".")
