"""Stand-ins for NumPy's names in the reinterpreted source of Simpson's rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.scipy.define import double, quotient
from functrans.scipy.source.reinterpret import NumpyWith


class _Double(np.float64):
    """A dtype of NumPy's, which is called with a traced array, too."""

    def __new__(cls, x: Any) -> Any:
        return double(x)


def _divided(a: Any, b: Any, *, out: Any, where: Any) -> Any:
    """A quotient that SciPy writes into zeros, where the divisor ``where`` is none."""
    return quotient(a, b, 0.0)


NAMES = {"np": NumpyWith(float64=_Double, true_divide=_divided)}
"""The replacements for names in SciPy's module of integrals of samples."""
