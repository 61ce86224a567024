"""Random bits, as unsigned integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.types import Shape
from functrans.ops.arrays.structural import astype
from functrans.ops.random.threefry import WORD, folded_threefry
from functrans.random.checks import UNSIGNED, distribution
from functrans.random.keys import blocks

__all__ = ["bits"]


@distribution(UNSIGNED)
def bits(key: Any, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """Unsigned integers, each as likely as any other.

    Parameters
    ----------
    dtype : dtype
        An unsigned integer.

    Returns
    -------
    array of ``shape`` and ``dtype``

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> random.bits(random.key(0), (3,), np.uint8)
    array([167, 146,  40], dtype=uint8)
    """
    return drawn_bits(key, shape, dtype)


def drawn_bits(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Random bits of a width: 64, the two halves combined to 32, or these cut to fewer bits."""
    if dtype.itemsize == 8:
        return blocks(key, shape)
    folded = blocks(key, shape, folded_threefry)
    return folded if dtype == WORD else astype(folded, dtype)
