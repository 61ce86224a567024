"""Boundary modes: the continuation of an array beyond its ends, and what `output` may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.numpy.arrays import astype
from functrans.numpy.define import refuse
from functrans.numpy.padding import pad
from functrans.trace.tracer import Tracer

_NUMPYS = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "constant": "constant",
    "grid-constant": "constant",
    "nearest": "edge",
    "mirror": "reflect",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}
"""The modes of filters, by NumPy's names."""


def check_mode(mode: Any) -> None:
    if mode not in _NUMPYS:
        raise RuntimeError("boundary mode not supported")


def extended(x: Any, widths: Sequence[tuple[int, int]], modes: Sequence[str], cval: Any) -> Any:
    """Pad an array according to a boundary mode; a negative width adds nothing."""
    for axis, (pair, mode) in enumerate(zip(widths, modes, strict=True)):
        check_mode(mode)
        own = [(0, 0)] * x.ndim
        own[axis] = (max(pair[0], 0), max(pair[1], 0))
        if own[axis] == (0, 0):
            continue
        name = _NUMPYS[mode]
        x = pad(x, own, name, **({"constant_values": cval} if name == "constant" else {}))
    return x


def per_axis(given: Any, count: int, name: str) -> list[Any]:
    """Expand one value, or check a sequence of values, to one for each axis."""
    if isinstance(given, str) or np.ndim(given) == 0:
        return [given] * count
    found = list(given)
    if len(found) != count:
        raise RuntimeError(f"{name} must have length equal to input rank")
    return found


def result_dtype(output: Any, x: Any) -> Any:
    """The dtype of a result: that of the array, or the one given by ``output``."""
    if output is None:
        return x.dtype
    if isinstance(output, (np.ndarray, Tracer)):
        refuse("an array as output=", "use what is returned")
    return np.dtype(output)


def in_doubles(x: Any) -> Any:
    """Convert integers and booleans to float64 for sums, as SciPy does; floats keep their dtype."""
    return x if x.dtype.kind in "fc" else astype(x, np.float64)


def delivered(x: Any, dtype: Any) -> Any:
    """Convert a result to its dtype; negative numbers wrap around if it is unsigned."""
    if dtype == np.uint32 and x.dtype.kind == "f":
        x = astype(x, np.int64)  # conversion of negative floats to unsigned is undefined
    return x if x.dtype == dtype else astype(x, dtype)
