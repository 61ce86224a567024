"""Instruction selection: operations on scalars and on vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.emit.llvm.text import (
    BOOL,
    Value,
    Writer,
    literal,
    register_type,
    splat_literal,
    suffix,
)

# Operations on two operands of one dtype: the instructions for floats, signed integers, unsigned
# integers and bools. A product and a sum that are both marked `contract` may become a fused
# multiply-add; only additions to an accumulator are. Elsewhere, what is computed twice has to give
# the same bits twice, and `a * a - b * b` has to be 0 if these are equal.
_KINDS = "fiub"
_INSTRUCTIONS: dict[str, tuple[str | None, ...]] = {
    "add": ("fadd", "add", "add", "or"),
    "add to total": ("fadd contract", "add", "add", "or"),
    "sub": ("fsub", "sub", "sub", "xor"),
    "mul": ("fmul contract", "mul", "mul", "and"),
    "div": ("fdiv", None, None, None),
    "idiv": (None, "sdiv", "udiv", "udiv"),
    "irem": ("frem", "srem", "urem", "urem"),
    "and": (None, "and", "and", "and"),
    "or": (None, "or", "or", "or"),
    "xor": (None, "xor", "xor", "xor"),
    "eq": ("fcmp oeq", "icmp eq", "icmp eq", "icmp eq"),
    "ne": ("fcmp une", "icmp ne", "icmp ne", "icmp ne"),
    "lt": ("fcmp olt", "icmp slt", "icmp ult", "icmp ult"),
    "le": ("fcmp ole", "icmp sle", "icmp ule", "icmp ule"),
}
_FLOAT_INTRINSICS = {
    "abs": "llvm.fabs", "sqrt": "llvm.sqrt", "floor": "llvm.floor", "ceil": "llvm.ceil",
    "trunc": "llvm.trunc", "rint": "llvm.rint", "copysign": "llvm.copysign", "fma": "llvm.fma",
}  # fmt: skip

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


class Operations:
    """Emits one operation at a time into a `Writer`."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def constant(self, value: Any, dtype: np.dtype[Any], lanes: int = 1) -> Value:
        text = literal(value, dtype)
        return Value(splat_literal(text, register_type(dtype), lanes), lanes)

    def spread(self, value: Value, dtype: np.dtype[Any], lanes: int) -> Value:
        """The value, broadcast to all lanes."""
        if value.lanes == lanes:
            return value
        scalar_type = register_type(dtype)
        if not value.ref.startswith("%"):
            return Value(splat_literal(value.ref, scalar_type, lanes), lanes)
        vector_type = register_type(dtype, lanes)
        first = self.writer.define(
            f"insertelement {vector_type} poison, {scalar_type} {value.ref}, i64 0"
        )
        spread = self.writer.define(
            f"shufflevector {vector_type} {first}, {vector_type} poison, "
            f"<{lanes} x i32> zeroinitializer"
        )
        return Value(spread, lanes)

    def apply(
        self, op: str, dtype: np.dtype[Any], args: list[Value], arg_dtypes: list[np.dtype[Any]]
    ) -> Value:
        """An operation of `OPERATIONS`, or ``convert`` or ``bitcast``."""
        lanes = max(arg.lanes for arg in args)
        args = [self.spread(arg, kind, lanes) for arg, kind in zip(args, arg_dtypes, strict=True)]
        refs = [arg.ref for arg in args]
        special = _SPECIAL.get(op)
        if special is not None:
            return Value(special(self, dtype, lanes, refs, arg_dtypes), lanes)
        operand = arg_dtypes[0]
        kind = register_type(operand, lanes)
        if operand.kind == "f" and op in _FLOAT_INTRINSICS:
            name = f"{_FLOAT_INTRINSICS[op]}.{suffix(operand, lanes)}"
            return Value(self.writer.call(name, kind, [(kind, ref) for ref in refs]), lanes)
        instruction = _INSTRUCTIONS.get(op, (None,) * 4)[_KINDS.index(operand.kind)]
        if instruction is None:
            raise NotImplementedError(f"no LLVM instruction for {op} on {operand}")
        return Value(self.writer.define(f"{instruction} {kind} {', '.join(refs)}"), lanes)

    def accumulate(self, op: str, dtype: np.dtype[Any], total: Value, term: Value) -> Value:
        """An accumulator, combined with one more term."""
        name = "add to total" if op == "add" else op
        return self.apply(name, dtype, [total, term], [dtype] * 2)

    def inverse(self, mask: Value) -> Value:
        """The negation of a mask."""
        return self.apply("not", BOOL, [mask], [BOOL])

    def anywhere(self, mask: Value) -> str:
        """Whether a mask holds in any lane."""
        if mask.lanes == 1:
            return mask.ref
        bits = register_type(BOOL, mask.lanes)
        return self.writer.call(f"llvm.vector.reduce.or.v{mask.lanes}i1", "i1", [(bits, mask.ref)])

    def select(self, condition: Value, yes: Value, no: Value, dtype: np.dtype[Any]) -> Value:
        return self.apply("where", dtype, [condition, yes, no], [BOOL, dtype, dtype])


Special = Callable[[Operations, np.dtype[Any], int, list[str], list[np.dtype[Any]]], str]


def _where(
    emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: list[np.dtype[Any]]
) -> str:
    kind = register_type(dtype, lanes)
    return emit.writer.define(
        f"select {register_type(BOOL, lanes)} {refs[0]}, {kind} {refs[1]}, {kind} {refs[2]}"
    )


def _extremum(op: str) -> Special:
    def emit_extremum(
        emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any
    ) -> str:
        x, y = refs
        kind = register_type(dtype, lanes)
        mask = register_type(BOOL, lanes)
        define = emit.writer.define
        if dtype == BOOL:
            return define(f"{'and' if op == 'min' else 'or'} {kind} {x}, {y}")
        if dtype.kind != "f":
            sign = "u" if dtype.kind == "u" else "s"
            compare = define(f"icmp {sign}{'lt' if op == 'min' else 'gt'} {kind} {x}, {y}")
            return define(f"select {mask} {compare}, {kind} {x}, {kind} {y}")
        # one machine instruction, which gives y if either is NaN; the second select restores x's
        # NaN
        relation = ("ol" if op == "min" else "og") + ("e" if dtype.itemsize == 2 else "t")
        compare = define(f"fcmp {relation} {kind} {x}, {y}")
        chosen = define(f"select {mask} {compare}, {kind} {x}, {kind} {y}")
        is_nan = define(f"fcmp uno {kind} {x}, {x}")
        return define(f"select {mask} {is_nan}, {kind} {x}, {kind} {chosen}")

    return emit_extremum


def _negative(emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any) -> str:
    kind = register_type(dtype, lanes)
    if dtype.kind == "f":
        return emit.writer.define(f"fneg {kind} {refs[0]}")
    zero = splat_literal("0", register_type(dtype), lanes)
    return emit.writer.define(f"sub {kind} {zero}, {refs[0]}")


def _absolute(emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any) -> str:
    kind = register_type(dtype, lanes)
    if dtype.kind == "f":
        return emit.writer.call(f"llvm.fabs.{suffix(dtype, lanes)}", kind, [(kind, refs[0])])
    if dtype.kind in "ub":
        return refs[0]
    return emit.writer.call(
        f"llvm.abs.{suffix(dtype, lanes)}", kind, [(kind, refs[0]), ("i1", "false")]
    )


def _invert(emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any) -> str:
    ones = splat_literal("true" if dtype == BOOL else "-1", register_type(dtype), lanes)
    return emit.writer.define(f"xor {register_type(dtype, lanes)} {refs[0]}, {ones}")


def _within(ref: str, stop: int) -> bool:
    """Whether an operand is a literal between 0 and a limit, the same in all lanes."""
    number = ref.rstrip(">").rpartition(" ")[2]
    return number.isdecimal() and int(number) < stop


def _shift(op: str) -> Special:
    def emit_shift(
        emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any
    ) -> str:
        kind = register_type(dtype, lanes)
        mask = register_type(BOOL, lanes)
        define = emit.writer.define
        machine = "ashr" if op == "shr" and dtype.kind == "i" else "shl" if op == "shl" else "lshr"
        bits = 8 * dtype.itemsize
        if _within(refs[1], bits):
            return define(f"{machine} {kind} {refs[0]}, {refs[1]}")
        # in LLVM, a shift by the width or more, or by a negative number, is undefined; in NumPy,
        # all bits are shifted out
        last = splat_literal(str(bits - 1), register_type(dtype), lanes)
        fits = define(f"icmp ule {kind} {refs[1]}, {last}")
        amount = define(f"select {mask} {fits}, {kind} {refs[1]}, {kind} {last}")
        shifted = define(f"{machine} {kind} {refs[0]}, {amount}")
        if machine == "ashr":
            return shifted
        zero = splat_literal("0", register_type(dtype), lanes)
        return define(f"select {mask} {fits}, {kind} {shifted}, {kind} {zero}")

    return emit_shift


def _convert(
    emit: Operations,
    dtype: np.dtype[Any],
    lanes: int,
    refs: list[str],
    sources: list[np.dtype[Any]],
) -> str:
    (ref,), (source,) = refs, sources
    define = emit.writer.define
    old, new = register_type(source, lanes), register_type(dtype, lanes)
    if dtype == BOOL:
        zero = splat_literal(literal(0, source), register_type(source), lanes)
        return define(f"{'fcmp une' if source.kind == 'f' else 'icmp ne'} {old} {ref}, {zero}")
    if HALF in (source, dtype) and SINGLE not in (source, dtype):
        # there is no instruction; NumPy, too, converts by way of float32
        between = _to_odd if source == np.float64 else _convert
        return _convert(emit, dtype, lanes, [between(emit, SINGLE, lanes, refs, sources)], [SINGLE])
    if source.kind == "f" and dtype.kind == "f":
        machine = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
    elif source.kind == "f":
        return _float_to_integer(emit, dtype, lanes, ref, source)
    elif dtype.kind == "f":
        machine = "uitofp" if source.kind in "ub" else "sitofp"
    elif source != BOOL and dtype.itemsize == source.itemsize:
        return ref
    elif source != BOOL and dtype.itemsize < source.itemsize:
        machine = "trunc"
    else:
        machine = "zext" if source.kind in "ub" else "sext"
    return define(f"{machine} {old} {ref} to {new}")


def _to_odd(
    emit: Operations, _: np.dtype[Any], lanes: int, refs: list[str], sources: list[np.dtype[Any]]
) -> str:
    """A float64 as the adjacent float32 towards zero, with an odd last bit if it is inexact.

    Rounding the result to a half float then gives the same as rounding once (round to odd).
    """
    define = emit.writer.define
    (ref,), (source,) = refs, sources
    wide, narrow = register_type(source, lanes), register_type(SINGLE, lanes)
    bits, mask = (register_type(np.dtype(name), lanes) for name in ("i4", "?"))
    near = define(f"fptrunc {wide} {ref} to {narrow}")
    back = define(f"fpext {narrow} {near} to {wide}")
    inexact = define(f"fcmp one {wide} {back}, {ref}")
    size, size_back = (_absolute(emit, source, lanes, [each], None) for each in (ref, back))
    beyond = define(f"fcmp ogt {wide} {size_back}, {size}")
    word = define(f"bitcast {narrow} {near} to {bits}")
    inwards = define(f"sub {bits} {word}, {define(f'zext {mask} {beyond} to {bits}')}")
    odd = define(f"or {bits} {inwards}, {define(f'zext {mask} {inexact} to {bits}')}")
    return define(f"bitcast {bits} {odd} to {narrow}")


def _float_to_integer(
    emit: Operations, dtype: np.dtype[Any], lanes: int, ref: str, source: np.dtype[Any]
) -> str:
    """A float as an integer, as C compilers for this machine convert it; NumPy is written in C.

    Small integers are converted by way of int32, and uint32 by way of int64, modulo a power of two.
    Out-of-range results are undefined for LLVM; `freeze` gives those of the machine.
    """
    define = emit.writer.define
    old, new = register_type(source, lanes), register_type(dtype, lanes)
    bits = 32 if dtype.itemsize < 4 or dtype == np.int32 else 64
    signed = np.dtype(f"i{bits // 8}")
    kind = register_type(signed, lanes)

    def truncated(value: str) -> str:
        return define(f"freeze {kind} {define(f'fptosi {old} {value} to {kind}')}")

    if dtype != np.uint64:
        number = truncated(ref)
        narrower = dtype.itemsize < signed.itemsize
        return define(f"trunc {kind} {number} to {new}") if narrower else number
    half = splat_literal(literal(2.0**63, source), register_type(source), lanes)
    top = splat_literal(str(-(2**63)), register_type(signed), lanes)
    large = define(f"fcmp oge {old} {ref}, {half}")
    above = define(f"xor {kind} {truncated(define(f'fsub {old} {ref}, {half}'))}, {top}")
    mask = register_type(BOOL, lanes)
    return define(f"select {mask} {large}, {kind} {above}, {kind} {truncated(ref)}")


def _bitcast(
    emit: Operations,
    dtype: np.dtype[Any],
    lanes: int,
    refs: list[str],
    sources: list[np.dtype[Any]],
) -> str:
    old, new = register_type(sources[0], lanes), register_type(dtype, lanes)
    return refs[0] if old == new else emit.writer.define(f"bitcast {old} {refs[0]} to {new}")


def _rotated(emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any) -> str:
    kind, (x, amount) = register_type(dtype, lanes), refs
    operands = [(kind, x), (kind, x), (kind, amount)]
    return emit.writer.call(f"llvm.fshl.{suffix(dtype, lanes)}", kind, operands)


def _scalef(emit: Operations, dtype: np.dtype[Any], lanes: int, refs: list[str], _: Any) -> str:
    """``x * 2**k`` by the instruction of AVX-512, whose vectors have 128, 256 or 512 bits."""
    define, size = emit.writer.define, dtype.itemsize
    own = register_type(dtype, lanes)

    def chosen(kind: str, x: str, y: str, start: int, stop: int) -> str:
        mask = ", ".join(f"i32 {i}" for i in range(start, stop))
        return define(f"shufflevector {kind} {x}, {kind} {y}, <{stop - start} x i32> <{mask}>")

    if lanes * size > 64:
        half, kind = lanes // 2, register_type(dtype, lanes // 2)
        first, second = (
            _scalef(emit, dtype, half, [chosen(own, x, "poison", i, i + half) for x in refs], _)
            for i in (0, half)
        )
        return chosen(kind, first, second, 0, lanes)
    width = max(1 << (lanes - 1).bit_length(), 16 // size)
    kind = register_type(dtype, width)
    if lanes == 1:
        refs = [define(f"insertelement {kind} poison, {own} {x}, i64 0") for x in refs]
    elif lanes < width:
        refs = [chosen(own, x, "poison", 0, width) for x in refs]
    symbol = f"llvm.x86.avx512.mask.scalef.p{'s' if size == 4 else 'd'}.{8 * size * width}"
    # the result where the mask is not set, the mask, and, of 512 bits, the rounding mode as it is
    operands = [(kind, x) for x in (*refs, "poison")] + [(f"i{max(width, 8)}", "-1")]
    operands += [("i32", "4")] * (size * width == 64)
    result = emit.writer.call(symbol, kind, operands)
    if lanes == 1:
        return define(f"extractelement {kind} {result}, i64 0")
    return result if lanes == width else chosen(kind, result, "poison", 0, lanes)


_SPECIAL: dict[str, Special] = {
    "where": _where,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "neg": _negative,
    "abs": _absolute,
    "not": _invert,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "lshr": _shift("lshr"),
    "rotl": _rotated,
    "convert": _convert,
    "bitcast": _bitcast,
    "scalef": _scalef,
}
