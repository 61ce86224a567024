"""Stub."""

from typing import Any


def is_large(eqn: Any, target: Any) -> bool:
    return False


def emit(at: Any) -> None:
    raise NotImplementedError
