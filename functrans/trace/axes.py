"""Named axes that enclose the function being traced.

A function under ``vmap(..., axis_name="i")`` is traced for one *lane* of the axis. The lane's
number is a further input of the trace: collectives take it as an operand, so that their batching
rules know which axis of an array is the named one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from functrans.errors import AxesError
from functrans.ir.graph import Var
from functrans.records import NamedTuple


class Axis(NamedTuple):
    """A named axis, for one of its lanes."""

    name: str
    size: int  # the number of lanes
    lane: Any  # the number of the lane, an int64
    # communicates between lanes that are processes; None if the lanes are an array axis
    engine: Any = None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a collective along the axis."""
        return {"name": self.name, "size": self.size, "engine": self.engine}


Names = frozenset[str]
"""The named axes along which a value varies."""

INVARIANT: Names = frozenset()


class Scope(NamedTuple):
    """The named axes around a function, and the variance of its inputs."""

    axes: Mapping[str, Axis]
    varying: dict[Var, Names]
    """The axes along which inputs of traces vary."""


_scope: ContextVar[Scope | None] = ContextVar("_scope", default=None)


def scope() -> Scope | None:
    """The named axes around the running function; None if there are none."""
    return _scope.get()


@contextmanager
def entered(axis: Axis) -> Iterator[None]:
    """Add a named axis to the scope within a block."""
    outer = _scope.get() or Scope({}, {})
    before = _scope.set(Scope({**outer.axes, axis.name: axis}, outer.varying))
    try:
        yield
    finally:
        _scope.reset(before)


def declare(tracers: Sequence[Any], varying: Sequence[Names]) -> None:
    """Declare the axes along which the inputs of a trace vary."""
    known = _scope.get()
    if known is not None:
        known.varying.update(
            {x._variable: names for x, names in zip(tracers, varying, strict=True)}
        )


def declaring(function: Callable[..., Any], varying: Sequence[Names]) -> Callable[..., Any]:
    """A function that declares the axes along which its traced arguments vary, before it runs."""

    def declared(*tracers: Any) -> Any:
        declare(tracers, varying)
        return function(*tracers)

    return declared


def check_name(name: Any, what: str) -> None:
    """Raise unless a name is valid for a further axis."""
    if not isinstance(name, str):
        raise AxesError(f"axis_name of {what} must be a string, not {name!r}")
    known = _scope.get()
    if known is not None and name in known.axes:
        raise AxesError(
            f"axis_name={name!r} of {what}: there is an axis of this name around it already; "
            "choose another"
        )


def along(name: Any, what: str) -> Axis:
    """The enclosing axis of a name; raises `AxesError` if there is none."""
    known = _scope.get()
    axes = {} if known is None else known.axes
    if not isinstance(name, str) or name not in axes:
        around = ", ".join(map(repr, axes)) or "none"
        raise AxesError(
            f"{what} goes along the named axis {name!r}, and the function does not run along one "
            f"(those around it: {around}): call it under vmap(..., axis_name={name!r})"
        )
    return axes[name]
