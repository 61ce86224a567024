"""Arrays of other packages that are on a GPU (CuPy, PyTorch, Numba, JAX), taken without a copy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from functrans.emit.cuda.superwords import WIDEST
from functrans.errors import DtypeError, ShapeError
from functrans.ir.types import is_supported, unsupported
from functrans.run.cuda import dlpack
from functrans.run.cuda.array import DeviceArray
from functrans.run.cuda.dlpack import Description
from functrans.run.cuda.driver import Driver, driver
from functrans.run.cuda.memory import Memory

_ON_A_GPU = (dlpack.CUDA, dlpack.MANAGED)


def is_foreign(x: Any) -> bool:
    """Whether a value is another package's array on a GPU."""
    if isinstance(x, (np.ndarray, np.generic, DeviceArray)):
        return False
    return _has_dlpack(x) or hasattr(x, "__cuda_array_interface__")


def from_foreign(x: Any) -> DeviceArray:
    """An array of another package, on the same device and without a copy.

    Its owner is kept alive as long as this library's streams use it. It must not be written to in
    that time. An array that is not aligned to 16 bytes, like some slices, is copied, since kernels
    load that many bytes at once.

    Raises `ShapeError` if it is not C-contiguous. Raises `DtypeError` if its dtype is not
    supported.
    """
    if _has_dlpack(x):
        here = driver(f"cuda:{x.__dlpack_device__()[1]}")
        stream = here.stream()
        try:
            held = x.__dlpack__(stream=stream.handle, max_version=(1, 0))
        except TypeError:  # written before DLPack 1
            held = x.__dlpack__(stream=stream.handle)
        found = dlpack.taken(held)
    else:
        found, here = _by_interface(x)
        stream = here.stream()
    _check(found, type(x))
    nbytes = prod(found.shape) * found.dtype.itemsize
    memory = Memory(here, found.address if nbytes else 0, nbytes, stream, owner=found.owner)
    array = DeviceArray(memory, found.shape, found.dtype)
    return array.copy() if memory.address % WIDEST else array


def _has_dlpack(x: Any) -> bool:
    device = getattr(x, "__dlpack_device__", None)
    return device is not None and hasattr(x, "__dlpack__") and device()[0] in _ON_A_GPU


def _by_interface(x: Any) -> tuple[Description, Driver]:
    """An array by its ``__cuda_array_interface__``; this thread's stream waits for its stream."""
    said = x.__cuda_array_interface__
    if said.get("mask") is not None:
        raise DtypeError(f"a masked {type(x).__name__} is not supported: fill in what is masked")
    dtype: np.dtype[Any] = np.dtype(said["typestr"])
    address, shape = int(said["data"][0]), tuple(said["shape"])
    nowhere = not address or 0 in shape
    here = driver() if nowhere else driver(f"cuda:{driver().ordinal_of(address)}")
    stream = here.stream()
    theirs = said.get("stream")
    if theirs:
        here.wait(stream, here.record(here.foreign_stream(int(theirs))))
    return Description(address, shape, dtype, said.get("strides"), x), here


def _check(found: Description, kind: type) -> None:
    if not is_supported(found.dtype) or not found.dtype.isnative:
        raise DtypeError(f"{kind.__name__}: {unsupported(np.empty(0, found.dtype))}")
    if not is_contiguous(found):
        raise ShapeError(
            f"a {kind.__name__} of shape {found.shape} is not C-contiguous in memory (its strides, "
            f"in bytes, are {found.strides}): pass x.contiguous() (PyTorch), or "
            "cupy.ascontiguousarray(x)"
        )


def is_contiguous(found: Description) -> bool:
    """Whether an array is C-contiguous as in NumPy, which ignores axes of extent 1."""
    if found.strides is None or 0 in found.shape:
        return True
    expected = np.empty(found.shape, found.dtype).strides
    return all(
        n == 1 or a == b for n, a, b in zip(found.shape, found.strides, expected, strict=True)
    )
