"""Device code for memory: wide loads and stores, atomic operations, shared and local memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from functrans.emit.cuda import numbers
from functrans.emit.cuda.numbers import Code
from functrans.emit.cuda.site import GLOBAL, SHARED, Site

_DYNAMIC = "_dynamic_shared"

WIDEST = 16
"""The largest number of bytes that a thread loads or stores at once, at an aligned address."""


def read(site: Site, pointer: Any, position: Any) -> Any:
    """A load through the read-only cache, of memory that the kernel does not write."""
    return _constant_load(site, site.builder.gep(pointer, [position]), site.dtype().itemsize)


def load(count: int, constant: bool = False) -> Code:
    """Several adjacent elements, loaded by one instruction."""

    def code(site: Site, pointer: Any, position: Any) -> Any:
        build = site.builder
        place = _wide(site, count, pointer, position)
        align = site.dtype().itemsize * count
        if constant:
            number = _constant_load(site, place, align)
        else:
            number = build.load(place, align=align)
        words = [build.extract_element(number, _index(site, i)) for i in range(number.type.count)]
        return site.several([part for word in words for part in _parts(site, word)])

    return code


def store(count: int) -> Code:
    """Several adjacent elements, stored by one instruction."""

    def code(site: Site, pointer: Any, position: Any, *values: Any) -> Any:
        place = _wide(site, count, pointer, position)
        number = site.undefined(place.type.pointee)
        each = count // number.type.count
        for i in range(number.type.count):
            word = _whole(site, values[i * each : (i + 1) * each])
            number = site.builder.insert_element(number, word, _index(site, i))
        site.builder.store(number, place, align=site.dtype().itemsize * count)
        return site.nothing()

    return code


def _index(site: Site, number: int) -> Any:
    return site.constant(site.integer(32), number)


def _wide(site: Site, count: int, pointer: Any, position: Any) -> Any:
    """The address of a vector of 2 or 4 elements; more elements are loaded as words."""
    build, kind = site.builder, pointer.type.pointee
    if count > 4:
        kind, count = site.integer(32), site.dtype().itemsize * count // 4
    vector = site.ir.VectorType(kind, count)
    return build.bitcast(build.gep(pointer, [position]), site.pointer(vector))


def _parts(site: Site, word: Any) -> list[Any]:
    """The elements in a word (by shifts: for vectors of vectors, LLVM generates two loads)."""
    build, kind = site.builder, site.type(site.operands[0][:-1])
    if word.type == kind:
        return [word]
    starts = range(0, word.type.width, kind.width)
    return [build.trunc(build.lshr(word, site.constant(word.type, at)), kind) for at in starts]


def _whole(site: Site, parts: tuple[Any, ...]) -> Any:
    build = site.builder
    if len(parts) == 1:
        return parts[0]
    word = site.integer(32)
    whole = site.constant(word, 0)
    for i, part in enumerate(parts):
        at = site.constant(word, i * part.type.width)
        whole = build.or_(whole, build.shl(build.zext(part, word), at))
    return whole


def _constant_load(site: Site, place: Any, align: int) -> Any:
    build = site.builder
    place = build.addrspacecast(place, site.pointer(place.type.pointee, GLOBAL))
    number = build.load(place, align=align)
    number.set_metadata("invariant.load", build.module.add_metadata([]))
    return number


# -- shared and local memory -------------------------------------------------------------------


def _in_shared(site: Site, space: Any, name: str) -> Any:
    return site.ir.GlobalVariable(site.builder.module, space, name, SHARED)


def shared(site: Site, *_: Any) -> Any:
    name, count = site.operands
    element = site.type(name)
    space = site.ir.ArrayType(element, count)
    memory = _in_shared(site, space, site.builder.module.get_unique_name("_shared"))
    memory.linkage = "internal"
    memory.align = WIDEST
    memory.initializer = site.undefined(space)
    generic = site.builder.addrspacecast(memory, site.pointer(space))
    return site.builder.bitcast(generic, site.pointer(element))


def dynamic_shared(site: Site, *_: Any) -> Any:
    """Shared memory whose size is set at launch: it may be larger than a kernel can declare."""
    name, start = site.operands
    space = site.ir.ArrayType(site.integer(8), 0)
    module = site.builder.module
    memory = module.globals.get(_DYNAMIC)
    if memory is None:
        memory = _in_shared(site, space, _DYNAMIC)
        memory.align = WIDEST
    zero, offset = (site.constant(site.integer(32), each) for each in (0, start))
    place = site.builder.gep(memory, [zero, offset])
    place = site.builder.bitcast(place, site.pointer(site.type(name), SHARED))
    return site.builder.addrspacecast(place, site.pointer(site.type(name)))


def local(site: Site, *_: Any) -> Any:
    name, count = site.operands
    memory = site.row(site.ir.ArrayType(site.type(name), count))
    memory.align = WIDEST
    return site.builder.bitcast(memory, site.pointer(site.type(name)))


# -- atomic operations -------------------------------------------------------------------------

_COMBINED: dict[str, Code] = {
    "min": numbers.extremum("<"),
    "max": numbers.extremum(">"),
    "and": lambda site, x, y: site.builder.and_(x, y),
    "or": lambda site, x, y: site.builder.or_(x, y),
    "xor": lambda site, x, y: site.builder.xor(x, y),
}
_ARITHMETIC = {"add": ("add", "fadd"), "mul": ("mul", "fmul")}
_OF_HALVES = {"min": numbers.extremum("<="), "max": numbers.extremum(">=")}
_OF_TRUTHS = {"add": "or", "max": "or", "mul": "and", "min": "and"}


def combine(op: str, site: Site, x: Any, y: Any) -> Any:
    """The result of combining two numbers."""
    if op in _ARITHMETIC:
        name = _ARITHMETIC[op][site.dtype().kind == "f"]
        return getattr(site.builder, name)(x, y)
    return _COMBINED[op](site, x, y)


def atomic(op: str) -> Code:
    """Combine an element with a value atomically, with respect to all threads of the device."""

    def code(site: Site, pointer: Any, position: Any, value: Any) -> Any:
        build, element, given = site.builder, site.operands[0][:-1], site.operands[2]
        place = build.gep(pointer, [position])
        name = op
        if given == "bool":
            name = _OF_TRUTHS.get(op, op)
            value, given = build.zext(value, site.integer(8)), element
        numbers_at = site.of(given, given, result=given)
        half = given != element

        def combined(old: Any) -> Any:
            if not half:
                return combine(name, numbers_at, old, value)
            number = numbers.half(numbers_at, old)
            rule = _OF_HALVES.get(name, partial(combine, name))
            return numbers.half_bits(numbers_at, rule(numbers_at, number, value))

        if not _native(name, numbers_at, element, place, value):
            _exchange(site, place, combined)
        return site.nothing()

    return code


def _native(op: str, site: Site, element: str, place: Any, value: Any) -> bool:
    """Use the hardware's atomic instruction, if there is one."""
    dtype = np.dtype(element)
    if dtype.itemsize < 4 or op == "mul":
        return False
    if dtype.kind == "f":
        if op != "add":
            return False
        size = 8 * dtype.itemsize
        site.call(f"llvm.nvvm.atomic.load.add.f{size}.p0f{size}", value.type, place, value)
        return True
    unsigned = op in ("min", "max") and dtype.kind == "u"
    site.builder.atomic_rmw(f"u{op}" if unsigned else op, place, value, "monotonic")
    return True


def _exchange(site: Site, place: Any, combined: Any) -> None:
    """A compare-and-swap loop, which repeats until no other thread has changed the element.

    For elements of less than 32 bits, the whole word is exchanged. It is within the allocation,
    whose size is a multiple of the word's.
    """
    build, word = site.builder, site.integer(32)
    element = place.type.pointee
    dtype = site.dtype()
    bits = 8 * dtype.itemsize
    kind = site.integer(max(bits, 32))
    offset = None
    if bits < 32:
        address = build.ptrtoint(place, site.integer(64))
        within = build.and_(address, site.constant(address.type, 3))
        offset = build.trunc(build.shl(within, site.constant(address.type, 3)), word)
        start = build.gep(build.bitcast(place, site.pointer(site.integer(8))), [build.neg(within)])
        place = build.bitcast(start, site.pointer(kind))
    else:
        place = build.bitcast(place, site.pointer(kind))

    def number_in(whole: Any) -> Any:
        if offset is None:
            return build.bitcast(whole, element) if dtype.kind == "f" else whole
        return build.trunc(build.lshr(whole, offset), element)

    def with_number(whole: Any, number: Any) -> Any:
        if offset is None:
            return build.bitcast(number, kind) if dtype.kind == "f" else number
        mask = build.not_(build.shl(site.constant(word, 2**bits - 1), offset))
        return build.or_(build.and_(whole, mask), build.shl(build.zext(number, word), offset))

    before = build.load(place)
    entry = build.block
    loop, done = build.append_basic_block("exchange"), build.append_basic_block("exchanged")
    build.branch(loop)
    build.position_at_end(loop)
    old = build.phi(kind)
    old.add_incoming(before, entry)
    new = with_number(old, combined(number_in(old)))
    found = build.extract_value(build.cmpxchg(place, old, new, "monotonic", "monotonic"), 0)
    old.add_incoming(found, build.block)
    build.cbranch(build.icmp_unsigned("==", found, old), done, loop)
    build.position_at_end(done)
