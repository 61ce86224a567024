"""Cases: the units of a part, each of which produces a row of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Cannot(Exception):
    """Why a case cannot run on this machine: no failure of ours."""


class Case(NamedTuple):
    """One row to come.

    Parameters
    ----------
    name : str
    run : callable
        Raises `AssertionError` where a number is wrong. What it gives is shown in the row.
    seconds : float
        After which it is given up.
    libraries : bool
        Whether NVIDIA's libraries have to be there.
    finer : bool
        Whether another case does for it on a stand-in, where time is short.
    """

    name: str
    run: Callable[[], Mapping[str, Any] | None]
    seconds: float = 60.0
    libraries: bool = False
    finer: bool = False


class Here(NamedTuple):
    """This machine.

    Parameters
    ----------
    stand_in : bool
    out : Path or None
        Where rows are written.
    """

    stand_in: bool = False
    out: Path | None = None

    def size(self, large: T, small: T) -> T:
        """What is large enough for a GPU, or small enough for the emulator."""
        return small if self.stand_in else large

    def needs_a_gpu(self, what: str) -> None:
        """Leave a case to real GPUs.

        Raises
        ------
        Cannot
            On a stand-in.
        """
        if self.stand_in:
            raise Cannot(f"a stand-in {what}")
