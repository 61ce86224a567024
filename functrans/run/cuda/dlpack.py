"""DLPack: arrays handed from one package to another without a copy, both ways.

The structures are those of dlpack.h, version 1: a tensor, its deleter, and a capsule whose name
tells whether the tensor was consumed. They are defined with `ctypes`, and need neither a GPU nor
another package.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import is_bfloat16
from functrans.records import NamedTuple

CPU, CUDA, MANAGED = 1, 2, 13
"""The supported kinds of devices."""

LEGACY_STREAM, UNORDERED = 1, -1
"""Special stream numbers: the legacy default stream, and no synchronization."""

COPIED = 2
"""The flag of a tensor that was copied, and is not shared."""

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_KINDS = {code: kind for kind, code in _CODES.items()}
_SIZES = {f"{t.kind}{t.itemsize}": t for t in map(np.dtype, "?bhilBHILefdFD")}


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_FORMS: dict[bytes, type[_Managed] | type[_Versioned]] = {
    b"dltensor": _Managed,
    b"dltensor_versioned": _Versioned,
}

_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# for a capsule under destruction, to which no new reference may be created
_is_valid_at = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

# The names that capsules get must outlive them.
_USED = {name: ctypes.create_string_buffer(b"used_" + name) for name in _FORMS}
_NAMES = {name: ctypes.create_string_buffer(name) for name in _FORMS}

_handed_out: dict[int, tuple[Any, ...]] = {}
"""Owners and contents of tensors, by the addresses of their structures."""


def _let_go(address: int) -> None:
    _handed_out.pop(address, None)


def _destroyed(capsule: int) -> None:
    for name, form in _FORMS.items():
        if _is_valid_at(capsule, name):  # the tensor was not consumed
            address = _pointer_at(capsule, name)
            form.from_address(address).deleter(address)


_delete, _destroy = _Deleter(_let_go), _Destructor(_destroyed)


def capsule(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: tuple[int, int],
    owner: Any,
    versioned: bool,
    copied: bool = False,
) -> Any:
    """A capsule of a C-contiguous tensor, which keeps its owner alive until it is deleted."""
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _FORMS[name]()
    axes = ctypes.c_int64 * len(shape)
    extents, strides = axes(*shape), axes(*_contiguous(shape))
    code = _BFLOAT if is_bfloat16(dtype) else _CODES[dtype.kind]
    managed.tensor = _Tensor(
        address or None,
        _Device(*device),
        len(shape),
        _DataType(code, 8 * dtype.itemsize, 1),
        extents,
        strides,
        0,
    )
    managed.deleter = _delete
    if isinstance(managed, _Versioned):
        managed.major, managed.minor, managed.flags = 1, 0, COPIED * copied
    at = ctypes.addressof(managed)
    _handed_out[at] = (managed, extents, strides, owner)
    return _new(at, ctypes.cast(_NAMES[name], ctypes.c_char_p), _destroy)


class Taken:
    """A consumed tensor, which is deleted with the last reference to this object."""

    def __init__(self, managed: _Managed | _Versioned) -> None:
        self._managed = managed

    def __del__(self) -> None:
        managed = self._managed
        if managed.deleter:
            managed.deleter(ctypes.addressof(managed))


class Description(NamedTuple):
    """The memory and type of another package's array."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None  # in bytes; None: C-contiguous
    owner: Any  # to be kept alive during use


def taken(held: Any) -> Description:
    """Consume a capsule.

    Raises `ValueError` if it is not a DLPack capsule, or was consumed before. Raises `DtypeError`
    if the tensor's dtype is not supported.
    """
    name = next((name for name in _FORMS if _is_valid(held, name)), None)
    if name is None:
        raise ValueError("expected a capsule of DLPack's that nobody has used")
    managed = _FORMS[name].from_address(_pointer(held, name))
    _rename(held, ctypes.cast(_USED[name], ctypes.c_char_p))
    owner = Taken(managed)
    if isinstance(managed, _Versioned) and managed.major > 1:
        raise ValueError(f"expected DLPack 1, found DLPack {managed.major}.{managed.minor}")
    tensor = managed.tensor
    dtype = _dtype_of(tensor.dtype)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(each * dtype.itemsize for each in tensor.strides[: tensor.ndim])
    return Description((tensor.data or 0) + tensor.byte_offset, shape, dtype, strides, owner)


def _dtype_of(found: _DataType) -> np.dtype[Any]:
    kind = _KINDS.get(found.code)
    name = f"{kind}{found.bits // 8}"
    if found.lanes == 1 and found.code == _BFLOAT and found.bits == 16:
        import ml_dtypes  # the user's package, imported only for such arrays

        return np.dtype(ml_dtypes.bfloat16)
    if found.lanes != 1 or found.bits % 8 or name not in _SIZES:
        raise DtypeError(
            f"an array of DLPack's type {found.code}, {found.lanes} lanes of {found.bits} bits, is "
            "not supported: convert it to float32"
        )
    return np.dtype(_SIZES[name])


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a C-contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
