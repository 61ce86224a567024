"""The functions that printed source calls, for Numba's CPU compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.caches import once
from functrans.loop.failures import OUT_OF_BOUNDS

_SIZED = ("float64", "float32", "int64", "int32", "int16", "uint64", "uint32", "uint16")
_ROUNDINGS = ("floor", "ceil", "trunc", "rint")

NAMES = frozenset(
    {
        "where", "min", "max", "half_min", "half_max", "checked", "required", "fma", "copysign",
        "idiv", "irem", "shl", "shr", "lshr", "as_int64", "as_int32", "as_uint64", "as_half",
        "half", "half_bits", "half_of_double", "address", *_ROUNDINGS,
        *(f"bits_as_{name}" for name in _SIZED),
    }
)  # fmt: skip
"""What is in `names`: nothing else in printed source is called so."""


@once
def names() -> dict[str, Any]:
    """Compiled functions by the names that `functrans.emit.source` prints."""
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    building: Any = cgutils
    njit = numba.njit(error_model="numpy", inline="never")

    @njit
    def where(condition, x, y):  # type: ignore[no-untyped-def]
        return x if condition else y

    @njit
    def smaller(x, y):  # type: ignore[no-untyped-def]
        return x if x < y or x != x else y

    @njit
    def larger(x, y):  # type: ignore[no-untyped-def]
        return x if x > y or x != x else y

    @njit
    def first_smaller(x, y):  # type: ignore[no-untyped-def]
        return x if x <= y or x != x else y

    @njit
    def first_larger(x, y):  # type: ignore[no-untyped-def]
        return x if x >= y or x != x else y

    @njit
    def checked(position, extent, flag):  # type: ignore[no-untyped-def]
        if 0 <= position < extent:
            return position
        flag[0] = OUT_OF_BOUNDS
        return 0

    @njit
    def required(condition, value, status, flag):  # type: ignore[no-untyped-def]
        if not condition:
            flag[0] = status
        return value

    def typed(signature: Any, generate: Any) -> Any:
        return signature, generate

    def by_intrinsic(name: str, arity: int) -> Any:
        """An operation that LLVM has an intrinsic function for, of floats of any size."""

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kind = args[0].type
            shape = ir.FunctionType(kind, [kind] * len(args))
            function = builder.module.declare_intrinsic(f"llvm.{name}", (kind,), shape)
            return builder.call(function, args)

        if arity == 1:

            @intrinsic
            def of_one(context, x):  # type: ignore[no-untyped-def]
                return typed(x(x), generate)

            return of_one

        @intrinsic
        def of_two(context, x, y):  # type: ignore[no-untyped-def]
            return typed(x(x, x), generate)

        return of_two

    @intrinsic
    def fma(context, x, y, z):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.fma(*args)

        return typed(x(x, x, x), generate)

    def binary(name: str) -> Any:
        @intrinsic
        def operation(context, x, y):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
                x, y = args
                kind = signature.args[0]
                if isinstance(kind, types.Float):
                    return builder.frem(x, y)
                unsigned = isinstance(kind, types.Boolean) or not kind.signed
                if name in ("div", "rem"):
                    return getattr(builder, f"{'u' if unsigned else 's'}{name}")(x, y)
                bits = x.type.width
                last = ir.Constant(x.type, bits - 1)
                fits = builder.icmp_unsigned("<=", y, last)
                amount = builder.select(fits, y, last)
                if name == "ashr" and not unsigned:
                    return builder.ashr(x, amount)
                machine = builder.shl if name == "shl" else builder.lshr
                return builder.select(fits, machine(x, amount), ir.Constant(x.type, 0))

            return typed(x(x, x), generate)

        return operation

    def integer(result: Any) -> Any:
        """A float as an integer. Out of range, it is what the machine gives, not undefined."""

        @intrinsic
        def truncated(context, x):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
                kind = context.get_value_type(signature.return_type)
                number = builder.fptosi(args[0], kind)
                # the builder has no method for this instruction
                frozen = ir.Instruction(builder.block, kind, "freeze", [number])
                builder._insert(frozen)
                return frozen

            return typed(result(x), generate)

        return truncated

    def bits_as(result: Any) -> Any:
        @intrinsic
        def reinterpreted(context, x):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
                target = context.get_value_type(signature.return_type)
                return args[0] if args[0].type == target else builder.bitcast(args[0], target)

            return typed(result(x), generate)

        return reinterpreted

    bits = {f"bits_as_{name}": bits_as(getattr(types, name)) for name in _SIZED}
    word_of, single_of = bits["bits_as_uint32"], bits["bits_as_float32"]
    as_int64 = integer(types.int64)

    @njit
    def as_uint64(x):  # type: ignore[no-untyped-def]
        top = 2.0**63
        large = np.uint64(as_int64(x - top)) ^ np.uint64(1 << 63)
        return large if x >= top else np.uint64(as_int64(x))

    @njit
    def half(bits):  # type: ignore[no-untyped-def]
        bits = np.uint32(bits)
        sign = np.uint32((bits & np.uint32(0x8000)) << np.uint32(16))
        magnitude = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13))
        if magnitude >= 0x0F800000:  # infinity and NaN
            return single_of(np.uint32(sign | magnitude | np.uint32(0x7F800000)))
        # the exponents differ in where they begin: exact, for subnormal numbers too
        number = single_of(magnitude) * np.float32(2.0**112)
        return single_of(np.uint32(sign | word_of(number)))

    @njit
    def half_bits(x):  # type: ignore[no-untyped-def]
        bits = word_of(x)
        sign = np.uint32((bits >> np.uint32(16)) & np.uint32(0x8000))
        magnitude = np.uint32(bits & np.uint32(0x7FFFFFFF))
        if magnitude >= 0x47800000:  # from 2**16 on: infinity, or NaN
            payload = np.uint32((magnitude >> np.uint32(13)) & np.uint32(0x3FF))
            rest = np.uint32(0x7E00 | payload) if magnitude > 0x7F800000 else np.uint32(0x7C00)
        elif magnitude < 0x38800000:  # subnormal: the last bits of a sum are units of 2**-24
            total = word_of(np.float32(single_of(magnitude) + np.float32(0.5)))
            rest = np.uint32(total - np.uint32(0x3F000000))
        else:  # to the nearest, or to the even one of two
            odd = np.uint32((magnitude >> np.uint32(13)) & np.uint32(1))
            rounded = np.uint32(magnitude + np.uint32(0xFFF) + odd - np.uint32(0x38000000))
            rest = np.uint32(rounded >> np.uint32(13))
        return np.uint16(sign | rest)

    @njit
    def as_half(x):  # type: ignore[no-untyped-def]
        return half(half_bits(x))

    @njit
    def half_of_double(x):  # type: ignore[no-untyped-def]
        # an odd last bit says that there was more, so that rounding again rounds as if at once
        near = np.float32(x)
        back = np.float64(near)
        if back == x or x != x:
            return as_half(near)
        word = word_of(near)
        if abs(back) > abs(x):
            word = np.uint32(word - np.uint32(1))
        return as_half(single_of(np.uint32(word | np.uint32(1))))

    @intrinsic
    def address(context, array, indices):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kind, places = signature.args
            view = context.make_array(kind)(context, builder, args[0])
            at = building.unpack_tuple(builder, args[1], len(places)) if len(places) else []
            element = building.get_item_pointer(context, builder, kind, view, at)
            return builder.bitcast(element, building.voidptr_t)

        return typed(types.voidptr(array, indices), generate)

    found = {
        "where": where,
        "min": smaller,
        "max": larger,
        "half_min": first_smaller,
        "half_max": first_larger,
        "checked": checked,
        "required": required,
        "fma": fma,
        "copysign": by_intrinsic("copysign", 2),
        "idiv": binary("div"),
        "irem": binary("rem"),
        "shl": binary("shl"),
        "shr": binary("ashr"),
        "lshr": binary("lshr"),
        "as_int64": as_int64,
        "as_int32": integer(types.int32),
        "as_uint64": as_uint64,
        "half": half,
        "half_bits": half_bits,
        "as_half": as_half,
        "half_of_double": half_of_double,
        "address": address,
        **{name: by_intrinsic(name, 1) for name in _ROUNDINGS},
        **bits,
    }
    assert found.keys() == NAMES
    return found


def routine(symbol: str, at: int) -> Any:
    """A routine of BLAS or LAPACK at an address; numbers are passed by theirs, as Fortran does."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    building: Any = cgutils
    bytes_at = building.voidptr_t
    several: Any = types.StarArgTuple

    @intrinsic(prefer_literal=True)
    def call(context, *arguments):  # type: ignore[no-untyped-def]
        texts = [x.literal_value if isinstance(x, types.StringLiteral) else None for x in arguments]

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointers = []
            values = building.unpack_tuple(builder, args[0], len(arguments))
            for kind, text, value in zip(arguments, texts, values, strict=True):
                if text is not None:
                    content = ir.Constant(
                        ir.ArrayType(ir.IntType(8), len(text) + 1), bytearray(f"{text}\0", "ascii")
                    )
                    place = building.global_constant(builder, ".letters", content)
                elif kind == types.voidptr:
                    place = value
                else:
                    place = building.alloca_once_value(builder, value)
                pointers.append(builder.bitcast(place, bytes_at))
            kinds = [bytes_at] * len(pointers)
            # it is not the same in another process: Numba refuses to keep this on disk
            start = context.add_dynamic_addr(builder, at, info=symbol)
            function = ir.FunctionType(ir.VoidType(), kinds).as_pointer()
            builder.call(builder.bitcast(start, function), pointers)
            return context.get_dummy_value()

        return types.void(several.from_types(arguments)), generate

    return call
