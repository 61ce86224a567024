"""Loading object files of LLVM without LLVM: ELF, for x86-64.

LLVM's linker does the same for every platform. But a process that finds its machine code on disk
does not need LLVM otherwise, and importing it takes longer than the rest of a first call.
`NotUnderstood` is raised for unsupported files, which are left to LLVM.

Sources: the ELF-64 object file format, version 1.5, and the System V ABI's supplement for AMD64,
section 4.4 (relocation).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
from collections.abc import Iterator, Mapping

from functrans.caches import once
from functrans.records import NamedTuple

SUPPORTED = sys.platform == "linux" and os.uname().machine == "x86_64"

_HEADER = struct.Struct("<16xHHI3QIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_RELOCATABLE, _AMD64 = 1, 62
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_WRITE, _ALLOC = 1, 2
_UNDEFINED = 0

# Relocation types, by the stored value: an address, a distance to an address, or a distance to a
# slot that holds an address.
_ABSOLUTE_64 = 1
_DISTANCE_64 = 24
_DISTANCE_32 = {2, 4}
_SLOT_32 = {9, 41, 42}

_UNWINDING = b".eh_frame"
"""Sections for exception handling, which are not needed."""

# jmp *(%rip), followed by the address: library functions are too far away for a 32-bit distance
_JUMP = b"\xff\x25\0\0\0\0"
_JUMP_BYTES = 16


class NotUnderstood(Exception):
    """An unsupported object file, which LLVM has to load."""


class Loaded(NamedTuple):
    """Machine code in memory, which is freed when this object is deleted."""

    symbols: Mapping[str, int]  # the addresses of its functions
    memory: mmap.mmap
    view: object


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def load(
    image: bytes,
    # the addresses of functions by name; others are looked up in the process
    imports: Mapping[str, int],
) -> Loaded:
    """Load an object file.

    Raises `NotUnderstood` if the file contains anything unsupported.
    """
    sections = _sections(image)
    names = sections[_HEADER.unpack_from(image)[-1]]
    places, size = _places(image, sections, names)
    table = next((s for s in sections if s.kind == _SYMTAB), None)
    if table is None:
        raise NotUnderstood("no symbols")
    symbols = list(_SYMBOL.iter_unpack(_contents(image, table)))
    strings = sections[table.link]
    far = [number for number, each in enumerate(symbols) if number and each[3] == _UNDEFINED]
    jumps = {number: size + _JUMP_BYTES * i for i, number in enumerate(far)}
    # each symbol may need a slot for its address
    slots_at = size + _JUMP_BYTES * len(far)
    memory = _pages(slots_at + 8 * len(symbols))
    view = ctypes.c_char.from_buffer(memory)
    base = ctypes.addressof(view)
    for section, place in zip(sections, places, strict=True):
        if place is not None and section.kind != _NOBITS:
            memory[place : place + section.size] = _contents(image, section)
    absolute: list[int] = []
    for number, (name, _, _, home, value, _) in enumerate(symbols):
        if number in jumps:
            address = _find(_string(image, strings, name), imports)
            memory[jumps[number] : jumps[number] + 14] = _JUMP + struct.pack("<Q", address)
        else:
            place = places[home] if home < len(places) else None
            address = base + place + value if place is not None else 0
        absolute.append(address)
        struct.pack_into("<Q", memory, slots_at + 8 * number, address)
    for target, (offset, info, addend) in _relocations(image, sections, places):
        kind, number = info & 0xFFFFFFFF, info >> 32
        near = base + jumps[number] if number in jumps else absolute[number]
        here = target + offset
        if absolute[number] == 0:
            raise NotUnderstood(f"a reference to symbol {number}")
        if kind == _ABSOLUTE_64:
            struct.pack_into("<q", memory, here, absolute[number] + addend)
        elif kind == _DISTANCE_64:
            struct.pack_into("<q", memory, here, absolute[number] + addend - base - here)
        elif kind in _DISTANCE_32:
            struct.pack_into("<i", memory, here, near + addend - base - here)
        elif kind in _SLOT_32:
            struct.pack_into("<i", memory, here, slots_at + 8 * number + addend - here)
        else:
            raise NotUnderstood(f"relocation type {kind}")
    if _process().mprotect(base, len(memory), mmap.PROT_READ | mmap.PROT_EXEC):
        raise NotUnderstood("memory cannot be made executable")
    own = {
        _string(image, strings, each[0]): absolute[number]
        for number, each in enumerate(symbols)
        if number not in jumps and absolute[number]
    }
    return Loaded(own, memory, view)


def _pages(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise NotUnderstood("no pages") from error
        raise MemoryError(
            f"functrans: {size} bytes for machine code could not be allocated"
        ) from error


@once
def _process() -> ctypes.CDLL:
    """The functions of the process and of the libraries that it is linked with."""
    process = ctypes.CDLL(None)
    process.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return process


def _sections(image: bytes) -> list[_Section]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise NotUnderstood("not an ELF file of 64 bits")
    kind, machine, _, _, _, at, _, _, _, _, size, count, _ = _HEADER.unpack_from(image)
    if kind != _RELOCATABLE or machine != _AMD64 or size != _SECTION.size:
        raise NotUnderstood("not an object file for AMD64")
    table = image[at : at + size * count]
    return [_Section(*fields) for fields in _SECTION.iter_unpack(table)]


def _places(
    image: bytes, sections: list[_Section], names: _Section
) -> tuple[list[int | None], int]:
    """The offset of each section (None if it is not needed), and the total length."""
    places: list[int | None] = []
    size = 0
    for section in sections:
        if not section.flags & _ALLOC or _string(image, names, section.name).encode() == _UNWINDING:
            places.append(None)
            continue
        if section.flags & _WRITE and section.size:
            raise NotUnderstood("variables")
        size = -(-size // max(section.alignment, 1)) * max(section.alignment, 1)
        places.append(size)
        size += section.size
    return places, -(-size // _JUMP_BYTES) * _JUMP_BYTES


def _relocations(
    image: bytes, sections: list[_Section], places: list[int | None]
) -> Iterator[tuple[int, tuple[int, int, int]]]:
    for section in sections:
        if section.kind == _RELA:
            place = places[section.info]
            if place is not None:
                for each in _RELOCATION.iter_unpack(_contents(image, section)):
                    yield place, each


def _contents(image: bytes, section: _Section) -> bytes:
    return image[section.offset : section.offset + section.size]


def _string(image: bytes, table: _Section, at: int) -> str:
    start = table.offset + at
    return image[start : image.index(b"\0", start)].decode()


def _find(name: str, imports: Mapping[str, int]) -> int:
    address = imports.get(name)
    if address is None:
        try:
            address = ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value
        except AttributeError:
            pass
    if not address:
        raise NotUnderstood(f"no function {name}")
    return address
