"""The functions of NumPy and of the array API, for arrays and for traced values.

``import functrans.numpy as fnp`` has NumPy's functions under their names and with their signatures.
Applied to plain arrays outside of a trace they are NumPy's. Applied to traced values, or to lists
with traced values in them, they record operations; NumPy's own functions find them here, so that a
function which was written with ``import numpy as np`` needs no change. Two things need this
namespace: making an array that traced values are assigned to (``fnp.zeros``; ``np.zeros_like(x)``
does as well), and making one of a list of traced values (``fnp.array([x, y])``).
"""

import sys as _sys
from types import ModuleType as _Module
from typing import Any

import numpy as _np

from functrans.errors import nearest as _nearest
from functrans.numpy import lib as lib
from functrans.numpy import linalg as linalg
from functrans.numpy import methods as _methods  # noqa: F401  fills the tables of methods
from functrans.numpy import special as special
from functrans.numpy import substitutes as _substitutes  # noqa: F401  and of what NumPy does not ask
from functrans.numpy import ufuncs as _ufuncs  # noqa: F401  and of ufuncs' methods
from functrans.numpy.building import *  # noqa: F403
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
from functrans.numpy.vectorizing import *  # noqa: F403
from functrans.trace import protocols as _protocols


def __getattr__(name: str) -> Any:
    """What this namespace lacks is NumPy's: for plain arrays, and an error for traced ones."""
    if name.startswith("_"):
        raise AttributeError(f"module 'functrans.numpy' has no attribute {name!r}")
    try:
        return getattr(_np, name)
    except AttributeError as error:
        message = str(error).replace("'numpy'", "'functrans.numpy'")
        raise AttributeError(message, name=name) from None


def __dir__() -> list[str]:
    return list(__all__)


_own = {name for name, value in globals().items() if not isinstance(value, _Module)}
__all__ = sorted({*(n for n in _own if not n.startswith("_")), *_np.__all__, "linalg", "special"})

_protocols.namespace[:] = [_sys.modules[__name__]]
