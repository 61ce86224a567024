"""Host callbacks as a primitive: an untraced function, called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.primitive import current, not_differentiable
from functrans.ir.types import Aval
from functrans.ops.arrays.structural import in_lanes
from functrans.ops.define import primitive
from functrans.ops.samples import cases
from functrans.records import NamedTuple


class Elements(NamedTuple):
    """The function, and the form of its calls."""

    function: Callable[..., Any]
    several: bool
    vectorised: bool


def _infer(
    *avals: Aval, elements: Elements, results: tuple[Aval, ...], lanes: tuple[int, ...]
) -> tuple[Aval, ...]:
    return tuple(aval.update(shape=lanes + aval.shape) for aval in results)


def _call(
    *values: Any, elements: Elements, results: tuple[Aval, ...], lanes: tuple[int, ...]
) -> tuple[Any, ...]:
    """Call the function for each lane; the lanes are the leading axes of every operand."""
    if not lanes or elements.vectorised:
        return tuple(_checked(elements, _untraced(elements.function, values), results, lanes))
    outs = [np.empty(lanes + aval.shape, aval.dtype) for aval in results]
    for lane in np.ndindex(*lanes):
        found = _untraced(elements.function, [x[lane] for x in values])
        for out, x in zip(outs, _checked(elements, found, results, ()), strict=True):
            out[lane] = x
    return tuple(outs)


def _untraced(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Call a function with tracing switched off, also when a trace is active."""
    before = current.get()
    try:
        current.set(None)
        return function(*values)
    finally:
        current.set(before)


def _checked(
    elements: Elements, found: Any, results: Sequence[Aval], lanes: tuple[int, ...]
) -> list[Any]:
    name = getattr(elements.function, "__name__", "the function")
    values = list(found) if elements.several else [found]
    if len(values) != len(results):
        raise ShapeError(f"{name} returned {len(values)} results, out_types says {len(results)}")
    checked = []
    for x, aval in zip(values, results, strict=True):
        array = np.asarray(x)
        if array.shape != lanes + aval.shape:
            raise ShapeError(
                f"{name} returned an array of shape {array.shape}, out_types says {aval.shape}"
            )
        if not np.can_cast(array.dtype, aval.dtype, "same_kind"):
            raise DtypeError(f"{name} returned {array.dtype}, out_types says {aval.dtype}")
        checked.append(np.array(array, aval.dtype)[()])
    return checked


def _batch(
    operands: Sequence[Any], axes: Sequence[int | None], *, elements: Elements,
    results: tuple[Aval, ...], lanes: tuple[int, ...],
) -> tuple[Any, tuple[int, ...]]:  # fmt: skip
    mapped = in_lanes(operands, axes)
    lanes = mapped[0].shape[0], *lanes
    outs = external(*mapped, elements=elements, results=results, lanes=lanes)
    return outs, (0,) * len(outs)


external = primitive(
    "external",
    infer=_infer,
    numpy=_call,
    jvp=not_differentiable(
        "it is a function that is not traced; call it in a function with a rule, of custom_jvp or "
        "custom_vjp"
    ),
    batch=_batch,
    several=True,
    stores=True,
    samples=cases(
        ((3,), {
            "elements": Elements(np.ptp, several=False, vectorised=False),
            "results": (Aval((), np.float64),),
            "lanes": (),
        }),
    ),
)  # fmt: skip
