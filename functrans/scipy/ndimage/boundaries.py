"""Boundary modes: the continuation of an array beyond its ends, and the parameter `output`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.numpy.arrays import astype
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


def check_constant(cval: Any, x: Any) -> None:
    if np.iscomplexobj(cval) and x.dtype.kind != "c":
        raise TypeError("cval must be real where the input is")


def extended(x: Any, widths: Sequence[tuple[int, int]], mode: str, cval: Any) -> Any:
    """Pad an array according to a boundary mode."""
    check_mode(mode)
    check_constant(cval, x)
    name = _NUMPYS[mode] if x.size else "constant"
    return pad(x, widths, name, **({"constant_values": cval} if name == "constant" else {}))


def result_dtype(output: Any, *operands: Any) -> Any:
    """The dtype of a result: that of the first operand, or the one given by ``output``.

    It is complex if any operand is; an array or a name of another dtype is refused then, as in
    SciPy.
    """
    is_array = isinstance(output, (np.ndarray, Tracer))
    dtype = operands[0].dtype if output is None else output.dtype if is_array else np.dtype(output)
    if dtype.kind == "c" or all(x.dtype.kind != "c" for x in operands):
        return dtype
    if is_array or isinstance(output, str):
        raise RuntimeError("output must have complex dtype")
    return np.promote_types(dtype, np.complex64)


def in_doubles(x: Any) -> Any:
    """Convert integers and booleans to float64 for sums, as SciPy does; floats keep their dtype."""
    return x if x.dtype.kind in "fc" else astype(x, np.float64)


def delivered(x: Any, dtype: Any) -> Any:
    """Convert a result to its dtype by truncation; negative numbers wrap around if unsigned."""
    if dtype == np.bool_ and x.dtype.kind == "f":
        x = np.trunc(x)  # as for integers: fractions are False
    if dtype == np.uint32 and x.dtype.kind == "f":
        x = astype(x, np.int64)  # conversion of negative floats to unsigned is undefined
    return x if x.dtype == dtype else astype(x, dtype)


def stored(x: Any, output: Any) -> Any:
    """A result, in the array ``output`` if there is one."""
    if not isinstance(output, (np.ndarray, Tracer)):
        return x
    output[...] = x
    return output
