"""The target of this process: the machine that it runs on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from functrans.lazily import lazy

if TYPE_CHECKING:
    from functrans.loop.target import Target

other: Target | None = None
"""A target that replaces the usual one, for tests and experiments."""

# not needed by a process that finds its code on disk
_vector_bytes = lazy("functrans.run.code.native:vector_bytes")
_registers = lazy("functrans.run.code.native:registers")
_library_sorts = lazy("functrans.run.code.native:library_sorts")
_slow_division = lazy("functrans.run.code.native:slow_division")
_usual = lazy("functrans.loop.target:CPU")
_whole_vectors = lazy("functrans.run.code.native:whole_vectors")
_products_of_whole_vectors = lazy("functrans.lower.product.limits:WHOLE_VECTORS")


def kind() -> Target:
    """The assumed kind of machine, which is known without the slow query of its properties."""
    return other or _usual.resolve()


def target() -> Target:
    """The target of this machine."""
    found = replace(
        kind(),
        vector_bytes=_vector_bytes(),
        registers=_registers(),
        library_sorts=False,
        slow_division=_slow_division(),
    )
    return found.by_default(_products_of_whole_vectors.resolve()) if _whole_vectors() else found


def of_program() -> Target:
    """The target of a whole program, which may call NumPy between its segments."""
    return replace(target(), library_sorts=_library_sorts())
