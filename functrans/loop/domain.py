"""Abstract interpretation of index expressions: their values in all iterations of their loops.

Each loop is an axis of NumPy arrays, in the order in which the loops are entered. An expression is
evaluated for all iterations at once; its extent is 1 along loops on which it does not depend. A
value that depends on data is an `Unknown` between two bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from functrans.ir.types import broadcast_shape, is_float
from functrans.loop.affine import interval
from functrans.loop.scalar import BOOL, OPERATIONS, Scalar
from functrans.loop.statements import Buffer
from functrans.records import NamedTuple


class Unknown(NamedTuple):
    """A value that depends on data, of which only bounds are known."""

    low: float
    high: float


Value = np.ndarray[Any, Any] | Unknown
Parts = tuple[np.ndarray[Any, Any], Unknown]

NONE_KNOWN: Mapping[Buffer, int] = MappingProxyType({})
"""No value in memory is known."""

LARGEST = 2_000_000
"""The most iterations for which an expression is evaluated."""


class TooLarge(Exception):
    """There are too many iterations to evaluate each of them."""


class Fault(Exception):
    """A violated invariant of a kernel, as a message."""


def aligned(*arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays with as many axes each: a loop that is entered later is an axis further right."""
    if len({array.shape for array in arrays}) == 1:
        return list(arrays)
    ndim = max([array.ndim for array in arrays])
    result = [
        array if array.ndim == ndim else array.reshape(array.shape + (1,) * (ndim - array.ndim))
        for array in arrays
    ]
    # those of one element count for nothing, and often there is one shape beside them
    shapes = {array.shape for array in result if array.size != 1}
    count = prod(map(max, *shapes)) if len(shapes) > 1 else max([x.size for x in result])
    if count > LARGEST:
        raise TooLarge
    return result


def broadcast(*arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays, `aligned`, in one shape (`numpy.broadcast_arrays` has no more than 32 axes)."""
    result = aligned(*arrays)
    shape = broadcast_shape(*{array.shape for array in result})
    return [array if array.shape == shape else _filled(shape, array) for array in result]


def _filled(shape: tuple[int, ...], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy, which takes a fifth of the time of `numpy.broadcast_to` for few elements."""
    result = np.empty(shape, values.dtype)
    result[...] = values
    return result


def masked_by(values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values for which the mask is true."""
    values, mask = broadcast(values, mask)
    return values[mask]


class Values:
    """The values of integer and bool expressions at the current position in a kernel."""

    def __init__(
        self,
        sizes: Sequence[int],  # the sizes with which the kernel is called
        in_memory: Mapping[Buffer, int] = NONE_KNOWN,  # known values in memory
    ) -> None:
        self.sizes = sizes
        self.in_memory = in_memory
        self.bound: dict[Scalar, Value] = {}
        """The indices of the enclosing loops, and the declared locals."""
        self._divided: dict[Scalar, Parts] = {}
        self._known: list[dict[Scalar, Value]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope: bindings and declarations inside are removed at its end."""
        before = set(self.bound)
        self._known.append({})
        yield
        self._known.pop()
        for gone in self.bound.keys() - before:
            del self.bound[gone]
            self._divided.pop(gone, None)

    def bind(self, leaf: Scalar, value: Value, parts: Parts | None = None) -> None:
        """Bind an index or a local to a value; if this depends on data, its `parts` are kept."""
        if leaf in self.bound:
            self._known = [{} for _ in self._known]
        self.bound[leaf] = value
        self._divided.pop(leaf, None)
        if parts is not None and isinstance(value, Unknown):
            self._divided[leaf] = parts

    def __call__(self, expression: Scalar) -> Value:
        known = self._find(expression)
        if known is not None:
            return known
        stack = [expression]
        while stack:
            node = stack[-1]
            if self._find(node) is not None:
                stack.pop()
                continue
            args = node.args if _is_enumerated(node) else ()
            missing = [arg for arg in args if self._find(arg) is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._known[-1][node] = self._evaluate(node, [self._have(arg) for arg in args])
        return self._have(expression)

    def number(self, expression: Scalar) -> int:
        """The value of an expression that is the same in all iterations."""
        value = self(expression)
        if isinstance(value, Unknown) or value.size != 1:
            raise Fault(f"{expression} is not one number")
        return int(value.item())

    def parts(self, total: Scalar) -> Parts:
        """A sum of which a term depends on data, as the sum of the other terms and of bounds.

        The other terms are added first: the bounds of each alone say less than those of their sum.
        """
        exact, others, stack = np.asarray(0), [], [total]
        while stack:
            term = stack.pop()
            value = self(term)
            # unless a condition has narrowed its bounds
            if term in self._divided and value is self.bound[term]:
                known, value = self._divided[term]
                exact = np.add(*aligned(exact, known))
            if not isinstance(value, Unknown):
                exact = np.add(*aligned(exact, value))
            elif term.op == "add":
                stack.extend(term.args)
            else:
                others.append(value)
        return exact, Unknown(sum(x.low for x in others), sum(x.high for x in others))

    def assuming(self, condition: Scalar, holds: bool, expression: Scalar) -> Value:
        """The value of an expression, given that a condition on data holds, or does not."""
        known = dict(self._assumed(condition, holds))
        if not known:
            return self(expression)
        before, self._known = self._known, [known]
        try:
            return self(expression)
        finally:
            self._known = before

    def _assumed(self, condition: Scalar, holds: bool) -> Iterator[tuple[Scalar, Value]]:
        """Bounds on the two sides of a comparison that follow from its holding."""
        if condition.op not in ("lt", "le"):
            return
        x, y = condition.args
        below, above = bounds(self(x)), bounds(self(y))
        apart = 1 if (condition.op == "lt") == holds else 0
        if not holds:
            x, y, below, above = y, x, above, below
        if isinstance(self(x), Unknown):
            yield x, Unknown(below.low, min(below.high, above.high - apart))
        if isinstance(self(y), Unknown):
            yield y, Unknown(max(above.low, below.low + apart), above.high)

    def _find(self, node: Scalar) -> Value | None:
        for known in reversed(self._known):
            value = known.get(node)
            if value is not None:
                return value
        return None

    def _have(self, node: Scalar) -> Value:
        value = self._find(node)
        assert value is not None
        return value

    def _evaluate(self, node: Scalar, args: list[Value]) -> Value:
        if node.op in ("index", "local"):
            if node not in self.bound:
                raise Fault(f"the {node.op} {node.attribute[0]} is used where there is none")
            return self.bound[node]
        if node.op == "size":
            return np.asarray(self.sizes[node.attribute])
        if node.op in ("const", "zero") and node.dtype.kind in "biu":
            return np.asarray(node.attribute or 0, node.dtype)
        if node.op == "load" and node.attribute in self.in_memory:
            return np.asarray(self.in_memory[node.attribute])
        if not _is_enumerated(node):
            return full_range(node.dtype)
        if node.op == "checked":
            return _checked(*args)
        if node.op == "required":
            return args[1]
        if node.op == "lookup":
            return _entry(np.asarray(node.attribute, node.dtype), args[0])
        if node.op in _CHOICES and isinstance(args[0], Unknown):
            return _union(
                self.assuming(node.args[0], True, node.args[1]),
                self.assuming(node.args[0], False, node.args[2]),
            )
        if node.op == "guard":
            return self._evaluate(Scalar("where", node.args, node.dtype), args)
        exact = [arg for arg in args if not isinstance(arg, Unknown)]
        if len(exact) < len(args):
            return _range_of(node, args)
        with np.errstate(all="ignore"):
            if node.op == "convert":
                return exact[0].astype(node.dtype)
            return np.asarray(OPERATIONS[node.op].meaning(*aligned(*exact)))


def _is_enumerated(node: Scalar) -> bool:
    """Whether a node's value follows from loops and sizes if its operands' values do."""
    return node.dtype.kind in "biu" and (
        node.op in OPERATIONS or node.op in ("convert", "checked", "required", "guard", "lookup")
    )


def full_range(dtype: np.dtype[Any]) -> Unknown:
    if dtype == BOOL:
        return Unknown(0, 1)
    if is_float(dtype):
        return Unknown(-np.inf, np.inf)
    limits = np.iinfo(dtype)
    return Unknown(int(limits.min), int(limits.max))


def _checked(position: Value, size: Value) -> Value:
    """A checked index: indices out of bounds fail, and are not used."""
    _, most = bounds(size)
    if isinstance(position, Unknown):
        return Unknown(max(position.low, 0), min(position.high, most - 1))
    return np.clip(position, 0, max(int(most) - 1, 0))


def _entry(table: np.ndarray[Any, Any], position: Value) -> Value:
    """An entry of a constant table; in iterations that happen, the index is within the table."""
    if isinstance(position, Unknown):
        return Unknown(int(table.min()), int(table.max()))
    return np.asarray(table[np.clip(position, 0, table.size - 1)])


def bounds(value: Value) -> Unknown:
    """The bounds of a value."""
    if isinstance(value, Unknown):
        return value
    return Unknown(int(value.min()), int(value.max())) if value.size else Unknown(0, 0)


_CHOICES = ("where", "unlikely", "guard")


def _union(x: Value, y: Value) -> Unknown:
    pairs = bounds(x), bounds(y)
    return Unknown(min(pair.low for pair in pairs), max(pair.high for pair in pairs))


def _range_of(node: Scalar, args: Sequence[Value]) -> Unknown:
    """The range of an operation's result, given those of its operands."""
    whole = full_range(node.dtype)
    if node.op in _CHOICES:
        return _union(*args[1:])
    (a, b), *_, (c, d) = [bounds(arg) for arg in (*args, args[-1])]
    result: tuple[float, float] | None
    match node.op:
        case "convert":
            result = (a, b) if node.dtype != BOOL else None
        case "irem" if a < 0 and c == d > 0:
            result = 1 - c, c - 1
        case "and" if c == d >= 0:
            result = 0, d
        case _:
            result = interval(node.op, (a, b), (c, d))
    # an overflowing sum wraps around
    if result is None or result[0] < whole.low or result[1] > whole.high:
        return whole
    return Unknown(*result)


def is_within(values: np.ndarray[Any, Any], extent: int) -> bool:
    """Whether all values are indices of an axis of some extent."""
    return not values.size or bool(0 <= values.min() and values.max() < extent)
