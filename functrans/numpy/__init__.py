"""The functions of NumPy and of the array API, for arrays and for traced values.

``import functrans.numpy as fnp`` has NumPy's functions under their names and with their signatures.
Applied to plain arrays outside of a trace they are NumPy's. Applied to traced values, or to lists
with traced values in them, they record operations; NumPy's own functions find them here, so that a
function which was written with ``import numpy as np`` needs no change. What has no traced form is
NumPy's, too: ``random``, ``save``, ``histogram``, ``set_printoptions``.

NumPy's functions that do not look at their arguments (``np.array([x, y])``, ``np.zeros(3)``) find
them where a traced function calls them by their full names; those that it has imported by name
(``from numpy import array``) do not. This namespace's always do.
"""

import sys as _sys
from types import ModuleType as _Module
from typing import Any as _Any

import numpy as _np

from functrans.numpy import fft as fft
from functrans.numpy import flat as _flat  # noqa: F401  fills a table
from functrans.numpy import lib as lib
from functrans.numpy import linalg as linalg
from functrans.numpy import methods as _methods  # noqa: F401  fills the tables of methods
from functrans.numpy import series as _series  # noqa: F401  fills a table
from functrans.numpy import special as special
from functrans.numpy import substitutes as _substitutes
from functrans.numpy import ufuncs as _ufuncs  # noqa: F401  and of ufuncs' methods
from functrans.numpy.bits import *  # noqa: F403
from functrans.numpy.building import *  # noqa: F403
from functrans.numpy.choice import *  # noqa: F403
from functrans.numpy.contraction import *  # noqa: F403
from functrans.numpy.counting import *  # noqa: F403
from functrans.numpy.creation import *  # noqa: F403
from functrans.numpy.elementwise import *  # noqa: F403
from functrans.numpy.functional import *  # noqa: F403
from functrans.numpy.histograms import *  # noqa: F403
from functrans.numpy.indexing import *  # noqa: F403
from functrans.numpy.inplace import *  # noqa: F403
from functrans.numpy.joining import *  # noqa: F403
from functrans.numpy.names import *  # noqa: F403
from functrans.numpy.padding import *  # noqa: F403
from functrans.numpy.polynomials import *  # noqa: F403
from functrans.numpy.quantiles import *  # noqa: F403
from functrans.numpy.reductions import *  # noqa: F403
from functrans.numpy.roots import *  # noqa: F403
from functrans.numpy.sets import *  # noqa: F403
from functrans.numpy.shapes import *  # noqa: F403
from functrans.numpy.special import *  # noqa: F403
from functrans.numpy.standard import *  # noqa: F403
from functrans.numpy.standard import array_namespace_info as __array_namespace_info__  # noqa: F401
from functrans.numpy.stride_tricks import *  # noqa: F403
from functrans.numpy.text import *  # noqa: F403
from functrans.numpy.vectorizing import *  # noqa: F403
from functrans.ops.indexing.at import at as at
from functrans.spelling import nearest as _nearest

__array_api_version__ = "2024.12"


def __getattr__(name: str) -> _Any:
    """What this namespace lacks is NumPy's: for plain arrays, and an error for traced ones."""
    if name.startswith("_") and name not in _np.__all__:
        raise AttributeError(f"module 'functrans.numpy' has no attribute {name!r}")
    try:
        return getattr(_np, name)
    except AttributeError as error:
        close = "" if "removed" in str(error) else _nearest(name, __all__)
        also = f"; the nearest that it has is {close}" if close else ""
        message = str(error).replace("'numpy'", "'functrans.numpy'")
        raise AttributeError(message + also, name=name) from None


def __dir__() -> list[str]:
    return [name for name in __all__ if not name.startswith("_")]


_own = {name for name, value in globals().items() if not isinstance(value, _Module)}
_modules = {"fft", "lib", "linalg", "special"}
__all__ = sorted({*(n for n in _own if not n.startswith("_")), *_np.__all__, *_modules})

_substitutes.fill_tables(_sys.modules[__name__])
