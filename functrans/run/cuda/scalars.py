"""Cached scalars: host numbers that programs receive repeatedly stay on the device."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from functrans.caches import Table
from functrans.run.cuda.array import DeviceArray, put
from functrans.run.cuda.driver import Driver

MOST = 1024
"""The number of host numbers that stay on the devices: each takes 512 bytes, what a pool gives at
least."""

_bits = struct.Struct("d").pack

_placed: Table[Any, DeviceArray] = Table(MOST)


def placed(x: Any, there: Driver) -> Any:
    """A number as an array on a device, copied there if it is not; arrays as they are."""
    return x if isinstance(x, (DeviceArray, np.ndarray)) else kept(np.asarray(x), there)


def kept(value: np.ndarray[Any, Any], there: Driver) -> DeviceArray:
    """A number, as an array without axes, on a device: nobody may overwrite that array."""
    key = (there, value.dtype, value.tobytes())
    found = _placed.get(key)
    if found is None or not found.memory.address:
        [found] = put([value], there)
        _placed.remember(key, found)
    return found


def kept_float(x: float, dtype: np.dtype[Any], there: Driver) -> DeviceArray:
    """A Python float as a number of a dtype of floats, as by `kept`: told by its own bits."""
    key = (there, dtype, _bits(x))
    found = _placed.get(key)
    if found is None or not found.memory.address:
        found = kept(np.asarray(x, dtype), there)
        _placed.remember(key, found)
    return found
