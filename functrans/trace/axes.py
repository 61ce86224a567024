"""Named axes: those that enclose the function being traced.

A function under ``vmap(..., axis_name="i")`` is traced for one *lane* of the axis. The number of
its lane is one more input of the trace: collectives take it as an operand, and so the batching
rules know along which axis of an array the lanes of the name lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from functrans.errors import AxesError
from functrans.ir.graph import Var


class Axis(NamedTuple):
    """A named axis, seen from one of its lanes.

    Parameters
    ----------
    name : str
    size : int
        The number of lanes.
    lane : Tracer
        Which of them this is, an int64.
    engine : hashable, optional
        What moves numbers between lanes that are processes; None where they are an array's.
    """

    name: str
    size: int
    lane: Any
    engine: Any = None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a collective along the axis."""
        return {"name": self.name, "size": self.size, "engine": self.engine}


Names = frozenset[str]
"""The named axes along which a value varies."""

INVARIANT: Names = frozenset()


class Scope(NamedTuple):
    """The named axes around a function, and what is known of values that it was given."""

    axes: Mapping[str, Axis]
    varying: dict[Var, Names]
    """Along which axes the inputs of traces vary."""


_scope: ContextVar[Scope | None] = ContextVar("_scope", default=None)


def scope() -> Scope | None:
    """The named axes around the function that runs; None if there are none."""
    return _scope.get()


@contextmanager
def entered(axis: Axis) -> Iterator[None]:
    """Let a function run along one more named axis."""
    outer = _scope.get() or Scope({}, {})
    before = _scope.set(Scope({**outer.axes, axis.name: axis}, outer.varying))
    try:
        yield
    finally:
        _scope.reset(before)


def declare(tracers: Sequence[Any], varying: Sequence[Names]) -> None:
    """Say along which axes the inputs of a trace vary."""
    known = _scope.get()
    if known is not None:
        known.varying.update(
            {x._variable: names for x, names in zip(tracers, varying, strict=True)}
        )


def declaring(function: Callable[..., Any], varying: Sequence[Names]) -> Callable[..., Any]:
    """A function that is traced, and first says along which axes its arguments vary."""

    def declared(*tracers: Any) -> Any:
        declare(tracers, varying)
        return function(*tracers)

    return declared


def check_name(name: Any, what: str) -> None:
    """Raise unless a name can be given to one more axis."""
    if not isinstance(name, str):
        raise AxesError(f"axis_name of {what} must be a string, not {name!r}")
    known = _scope.get()
    if known is not None and name in known.axes:
        raise AxesError(
            f"axis_name={name!r} of {what}: there is an axis of this name around it already; "
            "choose another"
        )


def along(name: Any, what: str) -> Axis:
    """The axis of a name; raises `AxesError` if the function does not run along one."""
    known = _scope.get()
    axes = {} if known is None else known.axes
    if not isinstance(name, str) or name not in axes:
        around = ", ".join(map(repr, axes)) or "none"
        raise AxesError(
            f"{what} goes along the named axis {name!r}, and the function does not run along one "
            f"(those around it: {around}): call it under vmap(..., axis_name={name!r})"
        )
    return axes[name]
