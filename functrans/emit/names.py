"""The functions that printed source calls, for Numba's CPU compiler: a table by name.

Some are Python functions, which Numba compiles; the others are LLVM instructions. (Those that
kernels of a GPU call are in `functrans.emit.cuda.names`.)
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.emit import in_python
from functrans.loop.failures import OUT_OF_BOUNDS
from functrans.records import NamedTuple

# mypy: disable-error-code="no-untyped-def"

Generate = Callable[..., Any]
"""Code generation as in Numba: a function of its context, LLVM's builder, a signature and operands
that returns the result."""


class Instruction(NamedTuple):
    """A function whose code is generated at the call."""

    arity: int
    generate: Generate
    result: str | None = None
    """Numba's name of the result's type; None if it is the first operand's."""


# -- in LLVM's instructions -----------------------------------------------------------------------


def _llvm(name: str) -> Generate:
    """An operation for which LLVM has an intrinsic function, for floats of any size."""

    def generate(context, builder, signature, args):
        kind = args[0].type
        shape = _ir().FunctionType(kind, [kind] * len(args))
        function = builder.module.declare_intrinsic(f"llvm.{name}", (kind,), shape)
        return builder.call(function, args)

    return generate


def _fma(context, builder, signature, args):
    return builder.fma(*args)


def _division(name: str) -> Generate:
    """The quotient or the remainder of truncated division."""

    def generate(context, builder, signature, args):
        kind = signature.args[0]
        letter = "f" if str(kind).startswith("float") else "s" if _is_signed(kind) else "u"
        return getattr(builder, letter + name)(*args)

    return generate


def _shift(name: str) -> Generate:
    """A shift; by the width or more, all bits are shifted out, as in NumPy."""

    def generate(context, builder, signature, args):
        x, y = args
        last = _ir().Constant(x.type, x.type.width - 1)
        fits = builder.icmp_unsigned("<=", y, last)
        amount = builder.select(fits, y, last)
        if name == "ashr" and _is_signed(signature.args[0]):
            return builder.ashr(x, amount)
        shifted = (builder.shl if name == "shl" else builder.lshr)(x, amount)
        return builder.select(fits, shifted, _ir().Constant(x.type, 0))

    return generate


def _rotated(context, builder, signature, args):
    """A rotation to the left; by 0, both shifts are by 0."""
    x, y = args
    last = _ir().Constant(x.type, x.type.width - 1)
    left = builder.and_(y, last)
    right = builder.and_(builder.neg(y), last)
    return builder.or_(builder.shl(x, left), builder.lshr(x, right))


def _truncated(context, builder, signature, args):
    """A float as an integer. Out of range, the result is that of the machine, and not undefined."""
    kind = context.get_value_type(signature.return_type)
    # the builder has no method for `freeze`
    number = builder.fptosi(args[0], kind)
    frozen = _ir().Instruction(builder.block, kind, "freeze", [number])
    builder._insert(frozen)
    return frozen


def _reinterpreted(context, builder, signature, args):
    kind = context.get_value_type(signature.return_type)
    return args[0] if args[0].type == kind else builder.bitcast(args[0], kind)


def _address(context, builder, signature, args):
    building = _building()
    kind, indices = signature.args
    view = context.make_array(kind)(context, builder, args[0])
    at = building.unpack_tuple(builder, args[1], len(indices)) if len(indices) else []
    element = building.get_item_pointer(context, builder, kind, view, at)
    return builder.bitcast(element, building.voidptr_t)


def _is_signed(kind: Any) -> bool:
    return str(kind).startswith("int")


def _ir() -> Any:
    from llvmlite import ir

    return ir


def _building() -> Any:
    from numba.core import cgutils

    return cgutils


# -- the table ------------------------------------------------------------------------------------

_SIZED = ("float64", "float32", "int64", "int32", "int16", "uint64", "uint32", "uint16")
_ROUNDINGS = ("floor", "ceil", "trunc", "rint")

TABLE: dict[str, Instruction | Callable[..., Any]] = {
    "where": in_python.where,
    "min": in_python.smaller,
    "max": in_python.larger,
    "half_min": in_python.first_smaller,
    "half_max": in_python.first_larger,
    "checked": in_python.checked,
    "required": in_python.required,
    "fma": Instruction(3, _fma),
    "copysign": Instruction(2, _llvm("copysign")),
    **{name: Instruction(1, _llvm(name)) for name in _ROUNDINGS},
    "idiv": Instruction(2, _division("div")),
    "irem": Instruction(2, _division("rem")),
    "shl": Instruction(2, _shift("shl")),
    "shr": Instruction(2, _shift("ashr")),
    "lshr": Instruction(2, _shift("lshr")),
    "rotl": Instruction(2, _rotated),
    "address": Instruction(2, _address, "voidptr"),
    **{f"bits_as_{name}": Instruction(1, _reinterpreted, name) for name in _SIZED},
    "as_int32": Instruction(1, _truncated, "int32"),
    "as_int64": Instruction(1, _truncated, "int64"),
    "as_uint64": in_python.as_uint64,
    "half": in_python.half,
    "half_bits": in_python.half_bits,
    "as_half": in_python.as_half,
    "half_of_double": in_python.half_of_double,
}

NAMES = frozenset(TABLE)
"""The names in the table: no variable of printed source has one of these."""


@once
def names() -> dict[str, Any]:
    """The compiled functions, by the names that `functrans.emit.source` prints."""
    import numba

    found: dict[str, Any] = {"np": np, "OUT_OF_BOUNDS": OUT_OF_BOUNDS}
    for name, one in TABLE.items():
        if isinstance(one, Instruction):
            found[name] = _intrinsic(one)
        else:
            function = types.FunctionType(one.__code__, found, one.__name__)
            found[name] = numba.njit(error_model="numpy", inline="never")(function)
    return {name: found[name] for name in NAMES}


def _intrinsic(one: Instruction) -> Any:
    from numba.core import types as kinds
    from numba.extending import intrinsic

    def typed(*operands: Any) -> Any:
        result = operands[0] if one.result is None else getattr(kinds, one.result)
        return result(*operands), one.generate

    # (Numba asks a function for its number of parameters)
    forms: dict[int, Callable[..., Any]] = {
        1: lambda context, x: typed(x),
        2: lambda context, x, y: typed(x, y),
        3: lambda context, x, y, z: typed(x, y, z),
    }
    return intrinsic(forms[one.arity])


def routine(symbol: str, at: int) -> Any:
    """A routine of BLAS or LAPACK at an address; numbers are passed by reference, as in Fortran."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    building: Any = cgutils
    bytes_at = building.voidptr_t
    several: Any = types.StarArgTuple

    @intrinsic(prefer_literal=True)
    def call(context, *arguments):
        texts = [x.literal_value if isinstance(x, types.StringLiteral) else None for x in arguments]

        def generate(context, builder, signature, args):
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
            # an address differs between processes, so Numba must not cache this on disk
            start = context.add_dynamic_addr(builder, at, info=symbol)
            function = ir.FunctionType(ir.VoidType(), kinds).as_pointer()
            builder.call(builder.bitcast(start, function), pointers)
            return context.get_dummy_value()

        return types.void(several.from_types(arguments)), generate

    return call
