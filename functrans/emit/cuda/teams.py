"""Device code for threads: their indices, barriers, and shuffles within a warp."""

from __future__ import annotations

from typing import Any

from functrans.emit.cuda.numbers import Code
from functrans.emit.cuda.site import WARP, Site


def special_register(name: str) -> Code:
    """A special register, such as the thread's index in its block, as int64."""

    def code(site: Site) -> Any:
        number = site.call(f"llvm.nvvm.read.ptx.sreg.{name}", site.integer(32))
        return site.builder.zext(number, site.integer(64))

    return code


def barrier(site: Site) -> Any:
    site.call("llvm.nvvm.barrier0", site.ir.VoidType())
    return site.nothing()


def warp_barrier(site: Site) -> Any:
    everyone = site.constant(site.integer(32), -1)
    site.call("llvm.nvvm.bar.warp.sync", site.ir.VoidType(), everyone)
    return site.nothing()


INDEX, DOWN, XOR = 0, 2, 3
"""NVVM's codes for the source lane of a shuffle."""


def shuffle(direction: int) -> Code:
    """The value of another thread of the warp, in pieces of 32 bits."""

    def code(site: Site, value: Any, count: Any) -> Any:
        build, word = site.builder, site.integer(32)
        bits = 8 * site.dtype().itemsize if site.operands[0] != "bool" else 1
        number = build.bitcast(value, site.integer(bits)) if site.dtype().kind == "f" else value
        count = build.trunc(count, word)
        if bits <= 32:
            wide = number if bits == 32 else build.zext(number, word)
            moved = _shuffled(site, direction, wide, count)
            moved = moved if bits == 32 else build.trunc(moved, number.type)
        else:
            half = site.constant(number.type, 32)
            low = _shuffled(site, direction, build.trunc(number, word), count)
            high = _shuffled(site, direction, build.trunc(build.lshr(number, half), word), count)
            high = build.shl(build.zext(high, number.type), half)
            moved = build.or_(high, build.zext(low, number.type))
        return build.bitcast(moved, value.type) if site.dtype().kind == "f" else moved

    return code


def _shuffled(site: Site, direction: int, word: Any, count: Any) -> Any:
    numbers = [site.constant(word.type, each) for each in (-1, direction, WARP - 1)]
    everyone, mode, last = numbers
    result = site.ir.LiteralStructType((word.type, site.integer(1)))
    both = site.call("llvm.nvvm.shfl.sync.i32", result, everyone, mode, word, count, last)
    return site.builder.extract_value(both, 0)
