"""The differentiable part of `scipy.spatial`: distances; rotations keep SciPy's own names."""

from functrans.scipy.entries import namespace as _namespace
from functrans.scipy.spatial import distance

__all__ = ["distance"]

__getattr__, __dir__ = _namespace("spatial", __all__)
