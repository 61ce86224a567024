"""The functions that printed source calls, for Numba's CPU compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.loop.failures import OUT_OF_BOUNDS


def names() -> dict[str, Any]:
    """Compiled functions by the names that `functrans.emit.source` prints."""
    import numba
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

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

    @njit
    def as_uint64(x):  # type: ignore[no-untyped-def]
        return np.uint64(x) if x >= 2.0**63 else np.uint64(np.int64(x))

    def typed(signature: Any, generate: Any) -> Any:
        return signature, generate

    @intrinsic
    def fma(context, x, y, z):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.fma(*args)

        return typed(x(x, x, x), generate)

    def rounding(name: str) -> Any:
        @intrinsic
        def rounded(context, x):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
                kind = args[0].type
                function = builder.module.declare_intrinsic(f"llvm.{name}", (kind,))
                return builder.call(function, args)

            return typed(x(x), generate)

        return rounded

    def binary(name: str) -> Any:
        @intrinsic
        def operation(context, x, y):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
                x, y = args
                unsigned = not signature.args[0].signed
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

    def bits_as(result: Any) -> Any:
        @intrinsic
        def reinterpreted(context, x):  # type: ignore[no-untyped-def]
            def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
                target = context.get_value_type(signature.return_type)
                return args[0] if args[0].type == target else builder.bitcast(args[0], target)

            return typed(result(x), generate)

        return reinterpreted

    sized = ("float64", "float32", "int64", "int32", "int16", "uint64", "uint32", "uint16")
    return {
        "where": where,
        "min": smaller,
        "max": larger,
        "checked": checked,
        "required": required,
        "as_uint64": as_uint64,
        "fma": fma,
        "rint": rounding("rint"),
        "idiv": binary("div"),
        "irem": binary("rem"),
        "shl": binary("shl"),
        "shr": binary("ashr"),
        "lshr": binary("lshr"),
        **{f"bits_as_{name}": bits_as(getattr(types, name)) for name in sized},
    }
