"""`numpy.lib`, of which the functions in `stride_tricks` have traced forms."""

from typing import Any

import numpy as _np

from functrans.numpy import stride_tricks as stride_tricks


def __getattr__(name: str) -> Any:
    return getattr(_np.lib, name)
