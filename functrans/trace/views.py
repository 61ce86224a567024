"""Assignment in place, with NumPy's views.

A tracer represents an immutable value of the graph; an assignment makes it represent another value.
A view refers to its base: writing to the view also updates the base, and after a write to the base
the view is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from functrans.errors import MutationError
from functrans.ir.primitive import current
from functrans.trace.source import here

if TYPE_CHECKING:
    from functrans.trace.tracer import Tracer


UNCERTAIN = "uncertain"
"""In place of ``write``: whether NumPy returns a view or a copy depends on the layout."""


class View:
    """The relation of a view to its base."""

    __slots__ = ("base", "operation", "read", "seen", "write")

    def __init__(
        self,
        base: Tracer,
        read: Callable[[Tracer], Any],  # maps the base to the view
        # Maps the base and a new view to the new base. None if NumPy forbids it (``broadcast_to``).
        # `UNCERTAIN` if NumPy may have made a copy (``reshape``): after a write to one side,
        # reading the other raises.
        write: Callable[[Tracer, Tracer], Any] | str | None,
        operation: str,  # the operation that created the view, for messages
    ) -> None:
        self.base = base
        self.read = read
        self.write = write
        self.operation = operation
        self.seen = base._version

    def refresh(self, view: Tracer) -> None:
        # the base is refreshed already
        if self.base._version == self.seen:
            return
        if self.write == UNCERTAIN:
            raise MutationError(
                f"an array was assigned to in place after {self.operation} of it was taken"
                f"{here()}: whether NumPy shares the memory of the two depends on "
                "the layout.\nTake a copy, or take it again after the assignment."
            )
        self.seen = self.base._version
        # an inner function may be the first to read the view, whose value belongs to this trace
        before = current.get()
        current.set(view._owner)
        try:
            view._become(self.read(self.base))
        finally:
            current.set(before)


class Overwritten(View):
    """The relation of an array that may have been overwritten: it cannot be read."""

    __slots__ = ("place",)

    def __init__(self, base: Tracer, operation: str) -> None:
        super().__init__(base, lambda base: base, None, operation)
        self.place = here()

    def refresh(self, view: Tracer) -> None:
        raise MutationError(
            f"an array is used{here()} after {self.operation} of it was assigned "
            f"to{self.place}: whether NumPy shares the memory of the two depends on the layout.\n"
            f"Take a copy before the assignment, or go on with what {self.operation} gave."
        )


def is_number(x: Tracer) -> bool:
    """Whether a value is a number in NumPy, and certainly no array without axes."""
    is_array = x.ndim or x._as_view is not None or x._is_contiguous is not False
    return not is_array and x._argument is None


def make_view(
    view: Tracer,
    base: Tracer,
    read: Callable[[Tracer], Any],
    write: Callable[[Tracer, Tracer], Any] | str | None,
    operation: str,
) -> Tracer:
    """Mark a tracer as a view of another one; of a number, what can be assigned to is a copy."""
    if write is not None and is_number(base):
        view._is_contiguous = True
        return view
    view._as_view = View(base, read, write, operation)
    return view


def assign(target: Tracer, result: Any, operation: str) -> None:
    """Assign ``result`` to ``target``, and update the bases of ``target``.

    Raises `MutationError` if the target is an argument of the traced function, belongs to an
    enclosing function, or is read-only in NumPy. Raises `TypeError` if the result has another dtype
    that NumPy would not cast to the target's.
    """
    _check_writable(target, operation)
    if result.shape != target.shape:
        raise ValueError(
            f"an array of shape {target.shape} cannot hold the result of shape {result.shape}"
            f"{here()}"
        )
    target._become(cast(result, target.dtype, operation))
    view = target._as_view
    if view is not None:
        if callable(view.write):
            assign(view.base, view.write(view.base, target), operation)
            view.seen = view.base._version
        else:
            _overwrite(view)
            target._as_view = None


def cast(result: Any, dtype: np.dtype[Any], operation: str) -> Any:
    """The result in the dtype of the array that is to hold it; refused where NumPy refuses it."""
    if result.dtype == dtype:
        return result
    if not np.can_cast(result.dtype, dtype, "same_kind"):
        raise TypeError(
            f"{operation}{here()} gives {result.dtype}, which NumPy does not "
            f"cast to the array's {dtype}: convert one of them by .astype"
        )
    return result.astype(dtype)


def _overwrite(view: View) -> None:
    """Mark the bases of a view of uncertain kind as unreadable."""
    base: Tracer | None = view.base
    while base is not None:
        above = base._as_view
        base._as_view = Overwritten(base, view.operation)
        base = None if above is None else above.base


def _check_writable(target: Tracer, operation: str) -> None:
    target._refresh()
    if target._owner is not current.get():
        _refuse(
            operation,
            "the array belongs to an enclosing function.\n"
            "Return the new value from the inner function instead.",
        )
    if target._argument is not None:
        _refuse(
            operation,
            f"the array is {target._argument()}, which the caller still holds.\n"
            "Work on a copy (x = x.copy()), or write x = x.at[i].set(v).",
        )
    if target._as_view is not None:
        if target._as_view.write is None:
            _refuse(
                operation,
                f"the array was made by {target._as_view.operation}, whose result NumPy does not "
                "let be written to.\nWork on a copy: x = x.copy().",
            )
        _check_writable(target._as_view.base, operation)


def _refuse(operation: str, why: str) -> NoReturn:
    raise MutationError(f"{operation}{here()}: {why}")
