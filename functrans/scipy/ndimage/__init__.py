"""The functions of `scipy.ndimage` under its names, for arrays and for traced values.

Functions that find and label objects have no derivative; they are SciPy's own, for plain arrays.
"""

from typing import Any

from functrans.lazily import lazy as _lazy
from functrans.scipy.entries import of_scipys as _of_scipys
from functrans.scipy.ndimage.gaussian import *  # noqa: F403
from functrans.scipy.ndimage.gaussian import __all__ as _gaussian
from functrans.scipy.ndimage.rotation import *  # noqa: F403
from functrans.scipy.ndimage.rotation import __all__ as _rotation

__all__ = [*_gaussian, *_rotation]

_scipy = _lazy("scipy:ndimage")


def __getattr__(name: str) -> Any:
    return _of_scipys("ndimage", name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_scipy.resolve().__all__})
