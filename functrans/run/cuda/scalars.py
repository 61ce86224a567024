"""Cached scalars: host numbers that programs receive repeatedly stay on the device."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from functrans.caches import Table
from functrans.run.cuda.array import DeviceArray, put
from functrans.run.cuda.driver import Driver

MOST = 1024
"""The number of host numbers that are cached on devices: each takes 512 bytes, the least allocation
of a pool."""

_bits = struct.Struct("d").pack

_placed: Table[Any, DeviceArray] = Table(MOST)


def placed(x: Any, there: Driver) -> Any:
    """A number as a cached array on a device; arrays unchanged."""
    return x if isinstance(x, (DeviceArray, np.ndarray)) else kept(np.asarray(x), there)


def kept(value: np.ndarray[Any, Any], there: Driver) -> DeviceArray:
    """A number as a cached 0-d array on a device, which must not be overwritten."""
    return _kept(value, value.dtype, value.tobytes(), there)


def kept_float(x: float, dtype: np.dtype[Any], there: Driver) -> DeviceArray:
    """As `kept`, for a Python float in a float dtype, keyed by its bits."""
    return _kept(x, dtype, _bits(x), there)


def _kept(x: Any, dtype: np.dtype[Any], bits: bytes, there: Driver) -> DeviceArray:
    key = (there, dtype, bits)
    found = _placed.get(key)
    if found is None or not found.memory.address:
        [found] = put([np.asarray(x, dtype)], there)
        _placed.remember(key, found)
    return found
