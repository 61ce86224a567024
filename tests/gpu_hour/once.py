"""Calls each row of the speed table once, for profilers."""

from __future__ import annotations

import functools

import functrans
from tests.gpu_hour.cases import Case, Here
from tests.gpu_hour.rows import ROWS
from tests.gpu_hour.speed import ours, placed, set_up


def cases(here: Here) -> list[Case]:
    return [Case(name, functools.partial(once, here, name)) for name in ROWS]


def once(here: Here, name: str) -> None:
    """One call, waited for."""
    with set_up(ROWS[name]):
        result = ours(ROWS[name], placed(here, ROWS[name])).call()
        for leaf in functrans.tree.leaves(result):
            leaf.block_until_ready()
