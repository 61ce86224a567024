"""Transfer of pytrees of arrays to a device, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import describe, instead_of, is_supported
from functrans.run.cuda import operations  # noqa: F401 (what is computed with device arrays)
from functrans.run.cuda.array import DeviceArray, fetched, put
from functrans.run.cuda.driver import Driver, driver
from functrans.run.cuda.foreign import from_foreign, is_foreign
from functrans.tree import core as tree


def put_leaves(x: Any, device: str) -> Any:
    """A pytree with its leaves on a device: `functrans.device_put`."""
    # a missing device raises before anything is copied
    there = None if device == "cpu" else driver(device)
    paths, structure = tree.flatten_with_path(x)
    leaves = [_array(leaf, path) for path, leaf in paths]
    placed = fetched(leaves) if there is None else _to_gpu(leaves, there)
    return tree.unflatten(structure, placed)


def _array(leaf: Any, path: Any) -> DeviceArray | np.ndarray[Any, Any]:
    """A leaf as an array, on the host or a device."""
    if isinstance(leaf, DeviceArray):
        return leaf
    if is_foreign(leaf):
        return from_foreign(leaf)
    values = np.asarray(leaf)
    if not is_supported(values.dtype):
        raise DtypeError(
            f"device_put: x{path} is {describe(leaf)}: expected a bool, integer, float or complex "
            f"dtype, found {values.dtype}: {instead_of(values.dtype)}"
        )
    return values


def _to_gpu(leaves: list[Any], there: Driver) -> list[DeviceArray]:
    copied = iter(put([each for each in leaves if not isinstance(each, DeviceArray)], there))
    return [
        each.to_device(there.device) if isinstance(each, DeviceArray) else next(copied)
        for each in leaves
    ]
