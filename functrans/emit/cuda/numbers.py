"""Device code for arithmetic: each operation as LLVM instructions, inlined at the call.

Without a driver, Numba does not compile calls of device functions, so that all of these are
intrinsics. Only instructions that NVVM accepts for all architectures are used; it has no `freeze`,
for instance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.emit.cuda.site import Site
from functrans.loop.failures import OUT_OF_BOUNDS

Code = Callable[..., Any]

LOG2_E = 1.4426950408889634


def where(site: Site, condition: Any, x: Any, y: Any) -> Any:
    return site.builder.select(condition, x, y)


def extremum(comparison: str) -> Code:
    """The first operand if it is NaN or its comparison with the second holds; else the second."""

    def code(site: Site, x: Any, y: Any) -> Any:
        build, kind = site.builder, site.dtype().kind
        if kind == "f":
            taken = build.fcmp_ordered(comparison, x, y)
            taken = build.or_(taken, build.fcmp_unordered("uno", x, x))
        else:
            compare = build.icmp_signed if kind == "i" else build.icmp_unsigned
            taken = compare(comparison, x, y)
        return build.select(taken, x, y)

    return code


def checked(site: Site, position: Any, extent: Any, flag: Any) -> Any:
    build = site.builder
    # a negative index is too large as an unsigned number
    inside = build.icmp_unsigned("<", position, extent)
    inside = build.and_(inside, build.icmp_signed(">", extent, site.constant(extent.type, 0)))
    _raise_flag(site, inside, flag, site.constant(site.integer(64), OUT_OF_BOUNDS))
    return build.select(inside, position, site.constant(position.type, 0))


def required(site: Site, condition: Any, value: Any, status: Any, flag: Any) -> Any:
    _raise_flag(site, condition, flag, status)
    return value


def _raise_flag(site: Site, fine: Any, flag: Any, status: Any) -> None:
    # (a race between threads is harmless: all of them store that something has failed)
    with site.builder.if_then(site.builder.not_(fine), likely=False):
        site.builder.store(status, flag)


def fma(site: Site, x: Any, y: Any, z: Any) -> Any:
    return site.builder.fma(x, y, z)


def ratio(site: Site, x: Any, y: Any) -> Any:
    """The rounded quotient of ordinary numbers: an approximate reciprocal, and Newton's steps.

    It is what NVIDIA's compiler makes of a division, but for a test of the operands' exponents, and
    the call of a function where that fails.
    """
    build = site.builder
    one, minus = site.constant(x.type, 1.0), build.fsub(site.constant(y.type, -0.0), y)
    shape = site.ir.FunctionType(x.type, [y.type])
    inverse = build.asm(shape, "rcp.approx.ftz.f32 $0, $1;", "=f,f", [y], False)
    inverse = build.fma(inverse, build.fma(minus, inverse, one), inverse)
    quotient = build.fmul(x, inverse)
    return build.fma(inverse, build.fma(minus, quotient, x), quotient)


def llvm(name: str) -> Code:
    """An operation for which LLVM has an intrinsic function, for floats of any size."""

    def code(site: Site, *values: Any) -> Any:
        size = 8 * site.dtype().itemsize
        return site.call(f"llvm.{name}.f{size}", values[0].type, *values)

    return code


def libdevice(name: str) -> Code:
    """An operation of libdevice, NVIDIA's library of device functions, which is inlined."""

    def code(site: Site, *values: Any) -> Any:
        suffix = "f" if site.dtype().itemsize == 4 else ""
        return site.call(name + suffix, values[0].type, *values)

    return code


def fast_exp(site: Site, x: Any) -> Any:
    """The exponential of a float32, by a multiplication and the instruction for powers of two.

    Results below 1.2e-38 are 0.
    """
    build = site.builder
    power = build.fmul(x, x.type(LOG2_E))
    shape = site.ir.FunctionType(x.type, [x.type])
    return build.asm(shape, "ex2.approx.ftz.f32 $0, $1;", "=f,f", [power], False)


def division(site: Site, x: Any, y: Any) -> Any:
    """The quotient of integers, truncated towards zero."""
    build = site.builder
    return build.sdiv(x, y) if site.dtype().kind == "i" else build.udiv(x, y)


def remainder(site: Site, x: Any, y: Any) -> Any:
    """The remainder of truncated division; for floats it is exact, like C's `fmod`."""
    build, dtype = site.builder, site.dtype()
    if dtype.kind == "f":
        # LLVM's `frem` would become x - trunc(x / y) * y here, which is not exact
        return libdevice("__nv_fmod")(site, x, y)
    return build.srem(x, y) if dtype.kind == "i" else build.urem(x, y)


def shift(name: str) -> Code:
    """A shift; by the width or more, all bits are shifted out."""

    def code(site: Site, x: Any, y: Any) -> Any:
        build = site.builder
        last = site.constant(x.type, x.type.width - 1)
        fits = build.icmp_unsigned("<=", y, last)
        amount = build.select(fits, y, last)
        if name == "ashr" and site.dtype().kind == "i":
            return build.ashr(x, amount)
        machine = build.shl if name == "shl" else build.lshr
        return build.select(fits, machine(x, amount), site.constant(x.type, 0))

    return code


def rotation(site: Site, x: Any, y: Any) -> Any:
    """A rotation to the left; by 0, both shifts are by 0."""
    build, last = site.builder, site.constant(x.type, x.type.width - 1)
    left, right = build.and_(y, last), build.and_(build.neg(y), last)
    return build.or_(build.shl(x, left), build.lshr(x, right))


def truncated(site: Site, x: Any) -> Any:
    """A float as an integer; out of range, the least integer, as on an x86-64 CPU."""
    build, result = site.builder, site.type(site.result)
    power = 2.0 ** (result.width - 1)
    below, above = site.constant(x.type, -power), site.constant(x.type, power)
    not_below = build.fcmp_ordered(">=", _rounded_to(site, x), below)
    fits = build.and_(not_below, build.fcmp_ordered("<", x, above))
    least = site.constant(result, -(2 ** (result.width - 1)))
    return build.select(fits, build.fptosi(x, result), least)


def _rounded_to(site: Site, x: Any) -> Any:
    # only a double can be slightly below the least 32-bit integer
    fine = site.dtype().itemsize == 4 or site.result == "int64"
    return x if fine else libdevice("__nv_trunc")(site, x)


def as_uint64(site: Site, x: Any) -> Any:
    build = site.builder
    top = site.constant(x.type, 2.0**63)
    signed = site.of(*site.operands, result="int64")
    above = truncated(signed, build.fsub(x, top))
    above = build.xor(above, site.constant(above.type, -(2**63)))
    return build.select(build.fcmp_ordered(">=", x, top), above, truncated(signed, x))


def half(site: Site, bits: Any) -> Any:
    return site.builder.fpext(site.builder.bitcast(bits, site.ir.HalfType()), site.type("float32"))


def half_bits(site: Site, x: Any) -> Any:
    """A float, rounded once to a half float.

    Written as inline assembly: LLVM's conversion would let the operations before it be computed in
    half floats, and would contract a product and a sum that are each to be rounded.
    """
    letter = "d" if site.dtype().itemsize == 8 else "f"
    text = f"cvt.rn.f16.f{8 * site.dtype().itemsize} $0, $1;"
    shape = site.ir.FunctionType(site.integer(16), [x.type])
    return site.builder.asm(shape, text, f"=h,{letter}", [x], False)


def rounded_to_half(site: Site, x: Any) -> Any:
    return half(site, half_bits(site, x))


def bits_as(site: Site, x: Any) -> Any:
    target = site.type(site.result)
    return x if x.type == target else site.builder.bitcast(x, target)
