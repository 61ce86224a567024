"""Instruction selection: operations on scalars and on vectors alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from functrans.records import NamedTuple

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
    "sqrt": "llvm.sqrt", "floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc",
    "rint": "llvm.rint", "copysign": "llvm.copysign", "fma": "llvm.fma",
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
            return Value(special(Result(self.writer, dtype, lanes, arg_dtypes), *refs), lanes)
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


class Result(NamedTuple):
    """The result of an operation to emit: its dtype and lanes, and the dtypes of the operands."""

    writer: Writer
    dtype: np.dtype[Any]
    lanes: int
    sources: Sequence[np.dtype[Any]]

    @property
    def kind(self) -> str:
        """The type of the result."""
        return register_type(self.dtype, self.lanes)

    @property
    def mask(self) -> str:
        """The type of a condition for each lane."""
        return register_type(BOOL, self.lanes)

    def of(self, dtype: np.dtype[Any]) -> Result:
        """The same for a result of another dtype."""
        return self._replace(dtype=dtype)

    def constant(self, text: str) -> str:
        """A constant of the result's type."""
        return splat_literal(text, register_type(self.dtype), self.lanes)

    def define(self, right_hand_side: str) -> str:
        return self.writer.define(right_hand_side)

    def call(self, name: str, *refs: str, more: Sequence[tuple[str, str]] = ()) -> str:
        """A call of an overloaded intrinsic on operands of the result's type, and some more."""
        symbol = f"{name}.{suffix(self.dtype, self.lanes)}"
        return self.writer.call(symbol, self.kind, [*((self.kind, ref) for ref in refs), *more])


Special = Callable[..., str]
"""Emits an operation, given its `Result` and the operands."""


def _where(to: Result, condition: str, x: str, y: str) -> str:
    chosen = to.define(f"select {to.mask} {condition}, {to.kind} {x}, {to.kind} {y}")
    to.writer.selections.add(chosen)
    return chosen


def _extremum(op: str) -> Special:
    def emit_extremum(to: Result, x: str, y: str) -> str:
        if to.dtype == BOOL:
            return to.define(f"{'and' if op == 'min' else 'or'} {to.kind} {x}, {y}")
        if to.dtype.kind != "f":
            sign = "u" if to.dtype.kind == "u" else "s"
            compare = to.define(f"icmp {sign}{'lt' if op == 'min' else 'gt'} {to.kind} {x}, {y}")
            return _where(to, compare, x, y)
        # one machine instruction, which gives y if either is NaN; the second select restores x's
        # NaN
        relation = ("ol" if op == "min" else "og") + ("e" if to.dtype.itemsize == 2 else "t")
        chosen = _where(to, to.define(f"fcmp {relation} {to.kind} {x}, {y}"), x, y)
        return _where(to, to.define(f"fcmp uno {to.kind} {x}, {x}"), x, chosen)

    return emit_extremum


def _negative(to: Result, x: str) -> str:
    is_float = to.dtype.kind == "f"
    return to.define(
        f"fneg {to.kind} {x}" if is_float else f"sub {to.kind} {to.constant('0')}, {x}"
    )


def _absolute(to: Result, x: str) -> str:
    if to.dtype.kind == "f":
        return to.call("llvm.fabs", x)
    return x if to.dtype.kind in "ub" else to.call("llvm.abs", x, more=[("i1", "false")])


def _invert(to: Result, x: str) -> str:
    return to.define(f"xor {to.kind} {x}, {to.constant('true' if to.dtype == BOOL else '-1')}")


def _within(ref: str, stop: int) -> bool:
    """Whether an operand is a literal between 0 and a limit, the same in all lanes."""
    number = ref.rstrip(">").rpartition(" ")[2]
    return number.isdecimal() and int(number) < stop


def _shift(op: str) -> Special:
    def emit_shift(to: Result, x: str, amount: str) -> str:
        is_signed = op == "shr" and to.dtype.kind == "i"
        machine = "ashr" if is_signed else "shl" if op == "shl" else "lshr"
        bits = 8 * to.dtype.itemsize
        if _within(amount, bits):
            return to.define(f"{machine} {to.kind} {x}, {amount}")
        # in LLVM, a shift by the width or more, or by a negative number, is undefined; in NumPy,
        # all bits are shifted out
        last = to.constant(str(bits - 1))
        fits = to.define(f"icmp ule {to.kind} {amount}, {last}")
        shifted = to.define(f"{machine} {to.kind} {x}, {_where(to, fits, amount, last)}")
        return shifted if is_signed else _where(to, fits, shifted, to.constant("0"))

    return emit_shift


def _convert(to: Result, x: str) -> str:
    (source,), dtype = to.sources, to.dtype
    old = register_type(source, to.lanes)
    if dtype == BOOL:
        zero = to.of(source).constant(literal(0, source))
        return to.define(f"{'fcmp une' if source.kind == 'f' else 'icmp ne'} {old} {x}, {zero}")
    if HALF in (source, dtype) and SINGLE not in (source, dtype):
        # there is no instruction; NumPy, too, converts by way of float32
        between = _to_odd if source == np.float64 else _convert
        return _convert(to._replace(sources=[SINGLE]), between(to.of(SINGLE), x))
    if source.kind == "f" and dtype.kind == "f":
        machine = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
    elif source.kind == "f":
        return _float_to_integer(to, x)
    elif dtype.kind == "f":
        machine = "uitofp" if source.kind in "ub" else "sitofp"
    elif source != BOOL and dtype.itemsize == source.itemsize:
        return x
    elif source != BOOL and dtype.itemsize < source.itemsize:
        machine = "trunc"
    else:
        machine = "zext" if source.kind in "ub" else "sext"
    return to.define(f"{machine} {old} {x} to {to.kind}")


def _to_odd(to: Result, x: str) -> str:
    """A float64 as the adjacent float32 towards zero, with an odd last bit if it is inexact.

    Rounding the result to a half float then gives the same as rounding once (round to odd).
    """
    define, source = to.define, to.of(to.sources[0])
    wide, narrow, bits = source.kind, to.kind, to.of(np.dtype("i4")).kind
    near = define(f"fptrunc {wide} {x} to {narrow}")
    back = define(f"fpext {narrow} {near} to {wide}")
    inexact = define(f"fcmp one {wide} {back}, {x}")
    size, size_back = (_absolute(source, each) for each in (x, back))
    beyond = define(f"fcmp ogt {wide} {size_back}, {size}")
    word = define(f"bitcast {narrow} {near} to {bits}")
    inwards = define(f"sub {bits} {word}, {define(f'zext {to.mask} {beyond} to {bits}')}")
    odd = define(f"or {bits} {inwards}, {define(f'zext {to.mask} {inexact} to {bits}')}")
    return define(f"bitcast {bits} {odd} to {narrow}")


def _float_to_integer(to: Result, x: str) -> str:
    """A float as an integer, as C compilers for this machine convert it; NumPy is written in C.

    Small integers are converted by way of int32, and uint32 by way of int64, modulo a power of two.
    Out-of-range results are undefined for LLVM; `freeze` gives those of the machine.
    """
    define, source = to.define, to.of(to.sources[0])
    signed = to.of(np.dtype("i4" if to.dtype.itemsize < 4 or to.dtype == np.int32 else "i8"))
    old, kind = source.kind, signed.kind

    def truncated(value: str) -> str:
        return define(f"freeze {kind} {define(f'fptosi {old} {value} to {kind}')}")

    if to.dtype != np.uint64:
        number = truncated(x)
        narrower = to.dtype.itemsize < signed.dtype.itemsize
        return define(f"trunc {kind} {number} to {to.kind}") if narrower else number
    half, top = source.constant(literal(2.0**63, source.dtype)), signed.constant(str(-(2**63)))
    large = define(f"fcmp oge {old} {x}, {half}")
    above = define(f"xor {kind} {truncated(define(f'fsub {old} {x}, {half}'))}, {top}")
    return _where(signed, large, above, truncated(x))


def _bitcast(to: Result, x: str) -> str:
    old = register_type(to.sources[0], to.lanes)
    return x if old == to.kind else to.define(f"bitcast {old} {x} to {to.kind}")


def _rotated(to: Result, x: str, amount: str) -> str:
    return to.call("llvm.fshl", x, x, amount)


def _scalef(to: Result, *refs: str) -> str:
    """``x * 2**k`` by the instruction of AVX-512, whose vectors have 128, 256 or 512 bits."""
    define, chosen, lanes, size = to.define, to.writer.chosen, to.lanes, to.dtype.itemsize
    if lanes * size > 64:
        half = to._replace(lanes=lanes // 2)
        first, second = (
            _scalef(half, *(chosen((x, "poison"), to.kind, range(i, i + lanes // 2)) for x in refs))
            for i in (0, lanes // 2)
        )
        return chosen((first, second), half.kind, range(lanes))
    width = max(1 << (lanes - 1).bit_length(), 16 // size)
    kind, given = register_type(to.dtype, width), list(refs)
    if lanes == 1:
        given = [define(f"insertelement {kind} poison, {to.kind} {x}, i64 0") for x in refs]
    elif lanes < width:
        given = [chosen((x, "poison"), to.kind, range(width)) for x in refs]
    symbol = f"llvm.x86.avx512.mask.scalef.p{'s' if size == 4 else 'd'}.{8 * size * width}"
    # the result where the mask is not set, the mask, and, of 512 bits, the rounding mode as it is
    operands = [(kind, x) for x in (*given, "poison")] + [(f"i{max(width, 8)}", "-1")]
    operands += [("i32", "4")] * (size * width == 64)
    result = to.writer.call(symbol, kind, operands)
    if lanes == 1:
        return define(f"extractelement {kind} {result}, i64 0")
    return result if lanes == width else chosen((result, "poison"), kind, range(lanes))


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
