"""Linear algebra: the functions of `scipy.linalg`, on arrays and on traced values.

A function without a traced form takes plain arrays; for traced ones, its error says what to write
instead.
"""

from __future__ import annotations

from typing import Any

import scipy.linalg as _scipy

from functrans.scipy.entries import namespace as _namespace
from functrans.scipy.inside import refused as _refused
from functrans.scipy.linalg.banded import *  # noqa: F403
from functrans.scipy.linalg.banded import __all__ as _banded
from functrans.scipy.linalg.factors import *  # noqa: F403
from functrans.scipy.linalg.factors import __all__ as _factors
from functrans.scipy.linalg.functions import *  # noqa: F403
from functrans.scipy.linalg.functions import __all__ as _functions
from functrans.scipy.linalg.similarity import *  # noqa: F403
from functrans.scipy.linalg.similarity import __all__ as _similarity
from functrans.scipy.linalg.solutions import *  # noqa: F403
from functrans.scipy.linalg.solutions import __all__ as _solutions
from functrans.scipy.linalg.spectra import *  # noqa: F403
from functrans.scipy.linalg.spectra import __all__ as _spectra
from functrans.scipy.linalg.structured import *  # noqa: F403
from functrans.scipy.linalg.structured import __all__ as _structured

_NO_UPDATE = "factorise the new matrix by qr"
_NO_PENCIL = "solve the pencil by eigh(a, b) if it is Hermitian and definite"

_INSTEAD = {
    "cossin": "use svd of the blocks",
    "funm": "write the function by expm, logm, sqrtm and products",
    "ordqz": _NO_PENCIL,
    "qr_delete": _NO_UPDATE,
    "qr_insert": _NO_UPDATE,
    "qr_update": _NO_UPDATE,
    "qz": _NO_PENCIL,
}
"""The functions without a traced form, and what to write instead."""

__all__ = [*_banded, *_factors, *_functions, *_similarity, *_solutions, *_spectra, *_structured]

_of_scipys, __dir__ = _namespace("linalg", __all__)


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(_scipy, name):
        raise AttributeError(f"functrans.scipy.linalg has no {name!r}")
    if name in _INSTEAD:
        return _refused(f"scipy.linalg:{name}", _INSTEAD[name])
    # functions of sizes alone, whose results are constants, are SciPy's own
    return _of_scipys(name)
