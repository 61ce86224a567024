"""The target of this process: the machine that it runs on."""

from __future__ import annotations

from dataclasses import replace

from functrans.loop.target import CPU, Target
from functrans.run.code import native


def kind() -> Target:
    """What is taken for granted of the machine, and need not be asked: it may be long to answer."""
    return CPU


def target() -> Target:
    """The machine."""
    return replace(kind(), vector_bytes=native.vector_bytes())
