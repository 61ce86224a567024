"""The functions of NumPy and of the array API, for arrays and for traced values.

``import functrans.numpy as fnp`` has NumPy's functions under their names and with their signatures.
Outside of a trace they call NumPy's. Applied to traced values, or to lists that contain some, they
record operations. NumPy's own functions dispatch to them, so a function written with ``import numpy
as np`` needs no change. Names without a traced form are NumPy's: ``random``, ``save``,
``set_printoptions``.

NumPy's functions that do not dispatch on their arguments (``np.array([x, y])``, ``np.zeros(3)``)
are replaced where a traced function calls them by their full names, but not where it has imported
them by name (``from numpy import array``). The functions of this namespace always work.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

import numpy as _np

from functrans.lazily import is_module as _is_module
from functrans.lazily import lazy as _lazy
from functrans.lazily import namespace as _namespace
from functrans.numpy.tables import HOME as _HOME
from functrans.spelling import nearest as _nearest

if TYPE_CHECKING:
    from functrans.numpy import fft as fft
    from functrans.numpy import lib as lib
    from functrans.numpy import linalg as linalg
    from functrans.numpy import special as special
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
    from functrans.numpy.polynomial_roots import *  # noqa: F403
    from functrans.numpy.polynomials import *  # noqa: F403
    from functrans.numpy.quantiles import *  # noqa: F403
    from functrans.numpy.reductions import *  # noqa: F403
    from functrans.numpy.sequences import *  # noqa: F403
    from functrans.numpy.sets import *  # noqa: F403
    from functrans.numpy.shapes import *  # noqa: F403
    from functrans.numpy.special import *  # noqa: F403
    from functrans.numpy.standard import *  # noqa: F403
    from functrans.numpy.stride_tricks import *  # noqa: F403
    from functrans.numpy.text import *  # noqa: F403
    from functrans.numpy.vectorizing import *  # noqa: F403
    from functrans.numpy.without_nan import *  # noqa: F403
    from functrans.ops.indexing.at import at as at

__array_api_version__ = "2024.12"

_SUBMODULES = ("fft", "lib", "linalg", "special")

_ours, _own_names = _namespace(__name__, _HOME, _SUBMODULES)

__all__ = sorted({*_own_names(), *_np.__all__})


def __getattr__(name: str) -> _Any:
    """Other names are NumPy's: functions of plain arrays, with an error for traced ones."""
    if name in _HOME or name in _SUBMODULES:
        return _ours(name)
    if name == "__array_namespace_info__":
        return _lazy(f"{__name__}.standard:array_namespace_info")
    if name.startswith("_") and name not in _np.__all__:
        raise AttributeError(f"module 'functrans.numpy' has no attribute {name!r}")
    try:
        return getattr(_np, name)
    except AttributeError as error:
        no_other = "removed" in str(error) or _is_module(__name__, name)
        close = "" if no_other else _nearest(name, __all__)
        also = f"; the nearest that it has is {close}" if close else ""
        message = str(error).replace("'numpy'", "'functrans.numpy'")
        raise AttributeError(message + also, name=name) from None


def __dir__() -> list[str]:
    return [name for name in __all__ if not name.startswith("_")]
