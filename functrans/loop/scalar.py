"""Scalar expressions: the arithmetic in which the loop IR and `functrans.vecmath` are written.

A `Scalar` is an immutable node: an operation, its operands and a dtype. It stands for one number
inside a loop body. Python's operators build nodes; `where`, `convert`, `bitcast` and the other
functions below build the rest. The printers in `emit/` turn nodes into LLVM or Numba source; they
depend only on the operations of `OPERATIONS`.

Both operands of a binary operation have one dtype; a Python number takes the dtype of the other
operand. Comparison with ``==`` and ``!=`` is node identity, as Python containers need it: write
`eq(a, b)` and `ne(a, b)` for the comparison of values.
"""

from __future__ import annotations

import itertools
import struct
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any
from weakref import _remove_dead_weakref  # type: ignore[attr-defined]

import numpy as np

from functrans.ir.types import is_bfloat16
from functrans.loop.failures import FAILURES, OUT_OF_BOUNDS
from functrans.loop.numerics import divide_integers, fma_rounded, rotate_left, shift_right_logical
from functrans.records import NamedTuple

Number = bool | int | float

SHOWN = 100
"""The most operations that `repr` shows."""

BOOL = np.dtype(np.bool_)
_BITS16 = np.dtype(np.uint16)

_bits = struct.Struct("d").pack


class Operation(NamedTuple):
    """A scalar operation: its name, its number of operands, and its meaning in terms of NumPy."""

    name: str
    arity: int
    meaning: Callable[..., Any]


OPERATIONS: dict[str, Operation] = {
    op.name: op
    for op in (
        Operation("add", 2, np.add),
        Operation("sub", 2, np.subtract),
        Operation("mul", 2, np.multiply),
        Operation("div", 2, np.divide),
        Operation("neg", 1, np.negative),
        Operation("abs", 1, np.abs),
        Operation("fma", 3, fma_rounded),
        Operation("sqrt", 1, np.sqrt),
        Operation("floor", 1, np.floor),
        Operation("ceil", 1, np.ceil),
        Operation("trunc", 1, np.trunc),
        Operation("rint", 1, np.rint),
        Operation("copysign", 2, np.copysign),
        # min and max return a NaN operand, as NumPy's minimum and maximum do
        Operation("min", 2, np.minimum),
        Operation("max", 2, np.maximum),
        # integers: idiv and irem truncate toward zero, the operand must not be 0
        Operation("idiv", 2, divide_integers),
        Operation("irem", 2, np.fmod),
        Operation("and", 2, np.bitwise_and),
        Operation("or", 2, np.bitwise_or),
        Operation("xor", 2, np.bitwise_xor),
        Operation("not", 1, np.bitwise_not),
        Operation("shl", 2, np.left_shift),
        Operation("shr", 2, np.right_shift),
        Operation("lshr", 2, shift_right_logical),
        # a rotation to the left, by the second operand modulo the number of bits
        Operation("rotl", 2, rotate_left),
        Operation("eq", 2, np.equal),
        Operation("ne", 2, np.not_equal),
        Operation("lt", 2, np.less),
        Operation("le", 2, np.less_equal),
        Operation("where", 3, np.where),
        # where(condition, rare, common), with the promise that the condition is rarely true
        Operation("unlikely", 3, np.where),
        # of a float32, on GPUs only: with an error of 2 + abs(1.2 x) units in the last place
        Operation("fast_exp", 1, np.exp),
    )
}
"""The operations with a fixed meaning. Besides these there are `const`, `convert`, `bitcast`,
`lookup`, and the leaves that the loop IR adds (a load, a loop index, a local variable)."""


class _Entry(weakref.ref["Scalar"]):
    """An entry of the table of all nodes: a weak reference to a node, and its key."""

    __slots__ = ("key",)

    key: tuple[Any, ...]


_nodes: dict[tuple[Any, ...], _Entry] = {}
"""All nodes. A `WeakValueDictionary` would take twice the time for each node."""


def _gone(
    entry: _Entry,
    nodes: dict[tuple[Any, ...], _Entry] = _nodes,
    remove: Callable[[Any, Any], None] = _remove_dead_weakref,
) -> None:
    """Remove the entry of a dead node, unless another node has replaced it.

    The look-up and the removal must be one atomic operation, because another thread might add an
    entry between them. It is the one that the standard library uses for its own weak dictionaries.
    """
    remove(nodes, entry.key)


Operator = Callable[["Scalar", "Scalar | Number"], "Scalar"]


def _operators(op: str) -> tuple[Operator, Operator]:
    """The methods of a binary operator, with the node on the left, and on the right."""
    return lambda x, y: _binary(op, x, y), lambda x, y: _binary(op, y, x)


def _comparisons(op: str) -> tuple[Operator, Operator]:
    return lambda x, y: _compare(op, x, y), lambda x, y: _compare(op, y, x)


class Scalar:
    """One number in a loop body: an operation on other scalars.

    Equal nodes are one object, so that comparing and hashing them does not walk the expression
    (error-free sums use each operand several times: a walk would take exponential time), and an
    expression written twice is computed once.
    """

    __slots__ = ("__weakref__", "args", "attribute", "dtype", "op")

    op: str
    args: tuple[Scalar, ...]
    dtype: np.dtype[Any]
    attribute: Any

    def __new__(
        cls, op: str, args: tuple[Scalar, ...], dtype: np.dtype[Any], attribute: Any = None
    ) -> Scalar:
        # 0.0 and -0.0 are equal, and a NaN is not equal to itself: constants compare by their bits
        known_by = _bits(attribute) if isinstance(attribute, float) else attribute
        key = (op, args, dtype, known_by)
        entry = _nodes.get(key)
        found = entry() if entry is not None else None
        if found is not None:
            return found
        node = object.__new__(cls)
        node.op = op
        node.args = args
        node.dtype = dtype
        node.attribute = attribute
        new = _Entry(node, _gone)
        new.key = key
        # another thread may be creating the same node: the node whose entry is first is used
        while (entry := _nodes.setdefault(key, new)) is not new:
            found = entry()
            if found is not None:
                return found
            _gone(entry)
        return node

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")
    __and__, __rand__ = _operators("and")
    __or__, __ror__ = _operators("or")
    __xor__, __rxor__ = _operators("xor")
    __lshift__, __rlshift__ = _operators("shl")
    __rshift__, __rrshift__ = _operators("shr")
    __lt__, __gt__ = _comparisons("lt")
    __le__, __ge__ = _comparisons("le")

    def __neg__(self) -> Scalar:
        return Scalar("neg", (self,), self.dtype)

    def __abs__(self) -> Scalar:
        return Scalar("abs", (self,), self.dtype)

    def __invert__(self) -> Scalar:
        return Scalar("not", (self,), self.dtype)

    def __bool__(self) -> bool:
        raise TypeError("a Scalar has no truth value: write where(condition, a, b)")

    def __repr__(self) -> str:
        return self._written(itertools.count())

    def _written(self, count: Iterator[int]) -> str:
        """As a tree, in which a shared node occurs each time: up to `SHOWN` operations of it."""
        if self.op == "const":
            return repr(self.attribute)
        if next(count) >= SHOWN:
            return "..."
        inside = ", ".join([arg._written(count) for arg in self.args])
        suffix = f":{self.attribute}" if self.attribute is not None else ""
        return f"{self.op}{suffix}({inside})"


def wrapped(value: int, dtype: np.dtype[Any]) -> int:
    """An integer wrapped to a dtype, modulo 2 to the number of its bits."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def const(value: Number | np.generic, dtype: Any) -> Scalar:
    """A constant of the given dtype; an integer wraps."""
    dtype = np.dtype(dtype)
    if type(value) is int and dtype.kind in "iu":
        return Scalar("const", (), dtype, wrapped(value, dtype))
    if is_bfloat16(dtype):
        return bitcast(const(int(np.asarray(value, dtype).view(_BITS16)), _BITS16), dtype)
    with np.errstate(over="ignore"):
        return Scalar("const", (), dtype, np.asarray(value).astype(dtype).item())


def zero(dtype: Any) -> Scalar:
    """A zero that stands for a missing value: its product with infinity or NaN is zero, too.

    For integers, it is an ordinary 0.
    """
    dtype = np.dtype(dtype)
    return Scalar("zero", (), dtype) if dtype.kind == "f" else const(0, dtype)


def _pair(x: Scalar | Number, y: Scalar | Number) -> tuple[Scalar, Scalar]:
    if not isinstance(x, Scalar):
        assert isinstance(y, Scalar), "one of two operands must be a Scalar"
        x = const(x, y.dtype)
    if not isinstance(y, Scalar):
        y = const(y, x.dtype)
    if x.dtype != y.dtype:
        raise TypeError(
            f"operands of one operation have dtypes {x.dtype} and {y.dtype}: convert one"
        )
    return x, y


def _binary(op: str, x: Scalar | Number, y: Scalar | Number) -> Scalar:
    left, right = _pair(x, y)
    return Scalar(op, (left, right), left.dtype)


def _compare(op: str, x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return Scalar(op, _pair(x, y), BOOL)


def eq(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _compare("eq", x, y)


def ne(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _compare("ne", x, y)


def where(condition: Scalar, x: Scalar | Number, y: Scalar | Number) -> Scalar:
    """``x`` where the condition holds, else ``y``; both are computed (a select, not a branch)."""
    left, right = _pair(x, y)
    return Scalar("where", (condition, left, right), left.dtype)


def unlikely(condition: Scalar, rare: Scalar | Number, common: Scalar | Number) -> Scalar:
    """``where(condition, rare, common)`` for a condition that is rarely true.

    The value is that of `where`, and a printer may emit just that. Alternatively, it may omit the
    computation of `rare` from a vector loop, and repeat a block of iterations, with everything, if
    the condition was true anywhere in it; or it may compute `rare` in a branch.
    """
    left, right = _pair(rare, common)
    return Scalar("unlikely", (condition, left, right), left.dtype)


def lookup(table: tuple[float, ...], index: Scalar, dtype: Any) -> Scalar:
    """``table[index]``: an element of a constant table; the index must be within it."""
    return Scalar("lookup", (index,), np.dtype(dtype), table)


def fma(x: Scalar, y: Scalar | Number, z: Scalar | Number) -> Scalar:
    """``x * y + z`` with one rounding."""
    operands = x, _pair(x, y)[1], _pair(x, z)[1]
    if x.dtype == np.float16:
        # the machine has none for half floats, but the float64 product of two of them is exact
        return convert(fma(*(convert(each, np.float64) for each in operands)), x.dtype)
    return Scalar("fma", operands, x.dtype)


def minimum(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _binary("min", x, y)


def maximum(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _binary("max", x, y)


def copysign(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _binary("copysign", x, y)


def idiv(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _binary("idiv", x, y)


def irem(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    return _binary("irem", x, y)


def lshr(x: Scalar, y: Scalar | Number) -> Scalar:
    """Shift right, filling with zeros."""
    return _binary("lshr", x, y)


def ratio(x: Scalar | Number, y: Scalar | Number) -> Scalar:
    """``x / y``, where neither an operand nor the result is very large or very small.

    Where the result matters, ``x`` is between ``2**-60`` and ``2**60`` in size, and ``y`` and the
    result between ``2**-126`` and ``2**126``; or ``x`` is zero, and the sign of the result does not
    matter. Without this promise, a division tests its operands on a GPU.
    """
    return Scalar("div", (quotient := _binary("div", x, y)).args, quotient.dtype, "ordinary")


def rotl(x: Scalar, y: Scalar | Number) -> Scalar:
    """Rotate the bits of an integer to the left, by ``y`` modulo their number."""
    return _binary("rotl", x, y)


def _unary(op: str) -> Callable[[Scalar], Scalar]:
    def build(x: Scalar) -> Scalar:
        return Scalar(op, (x,), x.dtype)

    build.__name__ = op
    return build


sqrt = _unary("sqrt")
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
rint = _unary("rint")
fast_exp = _unary("fast_exp")


def convert(x: Scalar, dtype: Any) -> Scalar:
    """The number, converted to another dtype as by ``astype``."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if is_bfloat16(dtype):
        return _rounded_to_bfloat16(convert(x, np.float32), dtype)
    if is_bfloat16(x.dtype):
        bits = convert(bitcast(x, _BITS16), np.uint32) << 16
        return convert(bitcast(bits, np.float32), dtype)
    return Scalar("convert", (x,), dtype)


def _rounded_to_bfloat16(x: Scalar, dtype: np.dtype[Any]) -> Scalar:
    """The upper half of a float32, rounded to the nearest; ties to even.

    So neither machines nor printers need support for bfloat16: it is 16 bits that are moved.
    """
    bits = bitcast(x, np.uint32)
    upper = bits >> 16
    rounded = (bits + (upper & 1) + 0x7FFF) >> 16
    # rounding might turn a NaN into infinity; it becomes the quiet NaN of its sign
    nan = (upper & 0x8000) | 0x7FC0
    return bitcast(convert(where(ne(x, x), nan, rounded), _BITS16), dtype)


def bitcast(x: Scalar, dtype: Any) -> Scalar:
    """The same bits read as another dtype of the same size."""
    dtype = np.dtype(dtype)
    if dtype.itemsize != x.dtype.itemsize:
        raise TypeError(f"bitcast from {x.dtype} to {dtype}: the sizes differ")
    return x if x.dtype == dtype else Scalar("bitcast", (x,), dtype)


def postorder(roots: Iterable[Scalar], known: Container[Scalar] = ()) -> list[Scalar]:
    """Every node below the roots once, operands first, without those in `known` and below them."""
    order: dict[Scalar, None] = {}
    begun: list[Scalar] = []
    stack: list[Scalar | None] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # the operands of the last one that was begun are done
            order[begun.pop()] = None
        elif node not in order and node not in known:
            if node.args:
                begun.append(node)
                stack += (None, *node.args[::-1])
            else:
                order[node] = None
    return list(order)


def evaluate(expression: Scalar, values: dict[Scalar, Any]) -> Any:
    """The value of an expression, computed by NumPy on whole arrays.

    The reference that the printers and `functrans.vecmath` are tested against.
    """
    done: dict[Scalar, Any] = dict(values)
    with np.errstate(all="ignore"):
        for node in postorder([expression], known=done):
            done[node] = meaning(node, [done[arg] for arg in node.args])
    return done[expression]


def meaning(node: Scalar, args: list[Any]) -> Any:
    """The value of an operation's node, given arrays or numbers for its operands."""
    match node.op:
        case "const":
            return np.asarray(node.attribute, node.dtype)
        case "zero":
            return np.asarray(0, node.dtype)
        case "convert":
            return np.asarray(args[0]).astype(node.dtype)
        case "bitcast":
            return np.asarray(args[0]).view(node.dtype)
        case "lookup":
            return np.asarray(node.attribute, node.dtype)[args[0]]
        case "apply":
            function = node.attribute
            return evaluate(function.result, dict(zip(function.parameters, args, strict=True)))
        case "required":
            condition, value = args
            if not np.all(condition):
                raise FAILURES[node.attribute].error()
            return value
        case "checked":
            position, extent = args
            if not np.all((position >= 0) & (position < extent)):
                raise FAILURES[OUT_OF_BOUNDS].error()
            return position
        case _:
            return OPERATIONS[node.op].meaning(*args)
