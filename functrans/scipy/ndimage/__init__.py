"""The functions of `scipy.ndimage` under its names, for arrays and for traced values.

Functions that find and label objects have no derivative; they are SciPy's own, for plain arrays.
"""

from functrans.scipy.entries import namespace as _namespace
from functrans.scipy.ndimage.gaussian import *  # noqa: F403
from functrans.scipy.ndimage.gaussian import __all__ as _gaussian
from functrans.scipy.ndimage.rotation import *  # noqa: F403
from functrans.scipy.ndimage.rotation import __all__ as _rotation

__all__ = [*_gaussian, *_rotation]

__getattr__, __dir__ = _namespace("ndimage", __all__)
