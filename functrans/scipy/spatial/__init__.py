"""The differentiable part of `scipy.spatial`: distances; rotations keep SciPy's own names."""

from typing import Any

from functrans.scipy.entries import of_scipys as _of_scipys
from functrans.scipy.spatial import distance

__all__ = ["distance"]


def __getattr__(name: str) -> Any:
    return _of_scipys("spatial", name)
