"""Validation of dtypes that the user specifies."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import instead_of, is_supported
from functrans.trace.source import here


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """A supported dtype of traced arrays, in the machine's byte order.

    Raises `DtypeError` if it is neither bool, an integer or float of at most 64 bits, nor a complex
    dtype of such floats.
    """
    found: np.dtype[Any] = np.dtype(dtype)
    if not is_supported(found):
        instead = "keep the objects in a list" if found.kind == "O" else instead_of(found)
        raise DtypeError(
            f"expected a bool, integer, float or complex dtype{here()}, found {found}: {instead}"
        )
    return found if found.isnative else found.newbyteorder("=")
