"""The functions of NumPy and of the array API, for arrays and for traced values.

``import functrans.numpy as fnp`` has NumPy's functions under their names and with their signatures.
Applied to plain arrays outside of a trace they are NumPy's. Applied to traced values, or to lists
with traced values in them, they record operations; NumPy's own functions find them here, so that a
function which was written with ``import numpy as np`` needs no change. Two things need this
namespace: making an array that traced values are assigned to (``fnp.zeros``; ``np.zeros_like(x)``
does as well), and making one of a list of traced values (``fnp.array([x, y])``).
"""

import sys as _sys
from typing import Any

import numpy as _np

from functrans.errors import nearest as _nearest
from functrans.numpy import fft as fft
from functrans.numpy import lib as lib
from functrans.numpy import linalg as linalg
from functrans.numpy import methods as _methods  # noqa: F401  fills the tables of methods
from functrans.numpy import special as special
from functrans.numpy import ufuncs as _ufuncs  # noqa: F401  and of ufuncs' methods
from functrans.numpy.choice import *  # noqa: F403
from functrans.numpy.contraction import *  # noqa: F403
from functrans.numpy.counting import *  # noqa: F403
from functrans.numpy.creation import *  # noqa: F403
from functrans.numpy.elementwise import *  # noqa: F403
from functrans.numpy.functional import *  # noqa: F403
from functrans.numpy.indexing import *  # noqa: F403
from functrans.numpy.inplace import *  # noqa: F403
from functrans.numpy.joining import *  # noqa: F403
from functrans.numpy.names import *  # noqa: F403
from functrans.numpy.padding import *  # noqa: F403
from functrans.numpy.polynomials import *  # noqa: F403
from functrans.numpy.quantiles import *  # noqa: F403
from functrans.numpy.reductions import *  # noqa: F403
from functrans.numpy.shapes import *  # noqa: F403
from functrans.numpy.special import *  # noqa: F403
from functrans.numpy.stride_tricks import *  # noqa: F403
from functrans.ops.indexing.at import at as at
from functrans.trace import protocols as _protocols


def __getattr__(name: str) -> Any:
    if isinstance(getattr(_np, name, None), _np.ufunc):
        return getattr(_np, name)  # one that not every version of NumPy has
    known = [n for n in globals() if not n.startswith("_")]
    close = _nearest(name, known)
    also = f"; the nearest that it has is {close}" if close else ""
    there = "a function of NumPy's that it lacks" if hasattr(_np, name) else "unknown"
    raise AttributeError(f"functrans.numpy has no {name!r}, {there}{also}")


_protocols.namespace[:] = [_sys.modules[__name__]]
