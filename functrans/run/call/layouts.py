"""Object layouts of CPython and NumPy that native code relies on, verified on real objects.

The offsets are correct for all tested versions of CPython with a global lock and of NumPy, but
neither guarantees them: a free-threaded Python has a longer object header. So they are verified
against existing objects, once, when the first program is compiled.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.ir.types import is_supported

TYPE = 8
"""Of any object: the offset of the address of its type."""

NUMBER = 16
"""Of a Python float or a NumPy scalar: the offset of the number."""

# Offsets in an array: the addresses of its elements, of its extents and of its dtype, its number of
# axes and its flags. The address of the strides follows that of the extents, and the strides follow
# the extents.
DATA, AXES, EXTENTS, DTYPE, FLAGS = 16, 24, 32, 56, 64
_STRIDES = EXTENTS + 8
_ARRAY_BYTES = FLAGS + 8

CONTIGUOUS, ALIGNED = 0x1, 0x100


@once
def hold() -> bool:
    """Whether objects have these layouts."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    return all(map(_array_holds, _arrays())) and all(map(_number_holds, _numbers()))


CALL, BASES, VERSION = 128, 336, 384
"""Offsets in a type: its call slot, the address of the tuple of its bases, and its version."""


def call_slot(kind: type) -> ctypes.c_uint64 | None:
    """The call slot of a class with ``__call__``; None if it has another offset."""

    class Called:
        def __call__(self) -> None: ...

    class NotCalled: ...

    word = ctypes.c_uint64.from_address(id(kind) + CALL)
    expected = _word(id(Called) + CALL)
    return word if word.value == expected != 0 == _word(id(NotCalled) + CALL) else None


def bases(kind: type) -> int | None:
    """The offset of the address of a class's bases; None if it differs from the known one."""
    return BASES if _word(id(kind) + BASES) == id(kind.__bases__) else None


def version(kind: type) -> int:
    """The version of a class, an unsigned number of 32 bits; 0 if it has none.

    CPython gives each class another version when an attribute of it or of a base class has been
    assigned or deleted, and when its bases have changed. No two classes have the same one.
    """
    return _version(kind) if hold() and _versions_hold() else 0


def _version(kind: type) -> int:
    type.__getattribute__(kind, "__init__")  # a lookup gives it a version
    return ctypes.c_uint32.from_address(id(kind) + VERSION).value


@once
def _versions_hold() -> bool:
    class Base:
        first = 1

    class Other: ...

    class Derived(Base): ...

    changes: tuple[Callable[[], None], ...] = (
        lambda: setattr(Base, "first", 2),
        lambda: setattr(Base, "second", 2),
        lambda: setattr(Derived, "second", 2),
        lambda: delattr(Derived, "second"),
        lambda: setattr(Derived, "__bases__", (Base, Other)),
        lambda: delattr(Base, "second"),
    )
    seen = {0, _version(Base), _version(Other)}
    for change in changes:
        before = _version(Derived)
        if before in seen or before != _version(Derived):
            return False
        seen.add(before)
        change()
    return _version(Derived) not in seen


TRAVERSE = 184
"""The offset in a type of the C function that visits what its instances refer to."""


def are_visited(owner: Any, expected: Sequence[Any]) -> bool:
    """Whether native code visits these objects, in this order, as what another one refers to."""
    if not _visits_hold() or not _word(id(type(owner)) + TRAVERSE):
        return False
    return _visited(owner) == [*map(id, expected)]


@once
def _visits_hold() -> bool:
    first, second = object(), object()
    if not hold() or bases(list) is None:  # that a type's other words are where they are known
        return False
    return sorted(_visited([first, second])) == sorted([id(first), id(second)])


_VISITOR = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def _visited(owner: Any) -> list[int]:
    found: list[int] = []

    def visit(address: int, _: Any) -> int:
        found.append(address)
        return 0

    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _VISITOR, ctypes.c_void_p)
    function(_word(id(type(owner)) + TRAVERSE))(id(owner), _VISITOR(visit), None)
    return found


def attribute(kind: type, name: str) -> int | None:
    """The offset of an attribute's slot in instances, or 0 if it is in their dictionary.

    It is found as Python finds it. None if the class computes its attributes, or this one.
    """
    if _in_class(kind, "__getattribute__") is not object.__getattribute__:
        return None
    found = _in_class(kind, name)
    if type(found) is types.MemberDescriptorType:
        return slot(kind, name)
    is_computed = hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")
    return None if is_computed or not kind.__dictoffset__ else 0


def _in_class(kind: type, name: str) -> Any:
    return next((x.__dict__[name] for x in kind.__mro__ if name in x.__dict__), None)


def slot(kind: type, name: str) -> int | None:
    """The offset of one of the ``__slots__`` in instances of a class.

    None if it is not unique, or if the class has an instance made by C alone.
    """
    member = getattr(kind, name, None)
    if type(member) is not types.MemberDescriptorType:
        return None
    try:
        instance: Any = object.__new__(kind)
    except TypeError:
        return None
    places = list(range(NUMBER, kind.__basicsize__, 8))
    for _ in range(2):
        content = object()
        member.__set__(instance, content)  # not by setattr, which the user may have overridden
        places = [place for place in places if _word(id(instance) + place) == id(content)]
    return places[0] if len(places) == 1 else None


def _dtypes() -> list[np.dtype[Any]]:
    every = map(np.dtype, np.typecodes["All"])
    return [each for each in every if is_supported(each)]


def _arrays() -> list[np.ndarray[Any, Any]]:
    """Test arrays of each dtype, of several shapes, and with all combinations of flags."""
    base = np.arange(24.0).reshape(2, 3, 4)
    raw = np.zeros(17, np.uint8)
    read_only = np.zeros(0)
    read_only.flags.writeable = False
    odd = [base, base[1], base[:, 1:], base.T, base[::-1, 0], raw[1:].view(np.float64), read_only]
    return [*odd, *(np.zeros((), dtype) for dtype in _dtypes())]


def _array_holds(x: np.ndarray[Any, Any]) -> bool:
    place = id(x)
    if np.ndarray.__basicsize__ < _ARRAY_BYTES or _word(place + TYPE) != id(np.ndarray):
        return False
    flags = _word(place + FLAGS) & 0xFFFFFFFF
    extents = _word(place + EXTENTS)
    right = bool(
        _word(place + DATA) == x.ctypes.data
        and _word(place + AXES) & 0xFFFFFFFF == x.ndim
        and _word(place + DTYPE) == id(np.dtype(x.dtype.type))
        and bool(flags & CONTIGUOUS) == x.flags.c_contiguous
        and bool(flags & ALIGNED) == x.flags.aligned
    )
    if not right or x.ndim == 0:
        return right
    # only certain addresses are dereferenced
    if _word(place + _STRIDES) - extents != 8 * x.ndim:
        return False
    return list((ctypes.c_int64 * x.ndim).from_address(extents)) == list(x.shape)


def _numbers() -> list[Any]:
    # numbers with distinct bytes
    pattern = bytes(range(0x31, 0x31 + 32))
    return [
        2.0 / 3.0,
        *(np.frombuffer(pattern, dtype, 1)[0] for dtype in _dtypes() if dtype.kind != "b"),
        np.True_,
        np.False_,
    ]


def _number_holds(x: Any) -> bool:
    content = struct.pack("d", x) if type(x) is float else x.tobytes()
    if type(x).__basicsize__ < NUMBER + len(content) or _word(id(x) + TYPE) != id(type(x)):
        return False
    return ctypes.string_at(id(x) + NUMBER, len(content)) == content


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
