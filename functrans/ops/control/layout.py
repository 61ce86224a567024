"""Operand layout of loops and branches, and how their graphs are refitted.

The primitives are `scan_p` and `counted_scan_p` (scan.py), `while_p` (while_loop.py) and `cond_p`
(cond.py). Their inner graphs are closed: values from outside are a body's first inputs, the consts.

A while loop that is differentiated in reverse mode stacks residuals, whose number is known only at
run time. The type of such a *stack* has the extent `GROWS` in place of its length. Only loops
access stacks. The value of a stack is an array of its actual length; a stack of stacks, which may
have different lengths, is an object array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn, Graph, Var
from functrans.ir.primitive import ZERO_DERIVATIVE, EqnSplit, Primitive
from functrans.ir.types import GROWS, Aval, Shape, interned
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.define import primitive
from functrans.records import NamedTuple

T = TypeVar("T")


def cut(values: Sequence[T], *lengths: int) -> list[Sequence[T]]:
    """Split a sequence into parts of the given lengths, and the rest."""
    parts = []
    start = 0
    for length in lengths:
        parts.append(values[start : start + length])
        start += length
    return [*parts, values[start:]]


def compact(values: Sequence[Any]) -> list[Any]:
    """The values that are not None."""
    return [x for x in values if x is not None]


def spread(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Values at the positions of true flags, and None at the others."""
    remaining = iter(values)
    return [next(remaining) if flag else None for flag in flags]


def each(derivatives: Iterable[Any]) -> list[Any]:
    """All derivatives in order, where each value has a tuple of them, one, or None."""
    return [
        x
        for given in derivatives
        if given is not None
        for x in (given if isinstance(given, tuple) else (given,))
    ]


def together(derivatives: Sequence[T], order: int) -> Sequence[Any]:
    """The inverse of `each`, for values with derivatives up to an order."""
    if order == 1:
        return derivatives
    return [tuple(derivatives[i : i + order]) for i in range(0, len(derivatives), order)]


def where(flags: Sequence[bool], values: Iterable[T]) -> list[T]:
    """The values whose flag is true."""
    return [x for x, flag in zip(values, flags, strict=True) if flag]


def where_not(flags: Sequence[bool], values: Iterable[T]) -> list[T]:
    """The values whose flag is false."""
    return [x for x, flag in zip(values, flags, strict=True) if not flag]


def either(a: Sequence[bool], b: Sequence[bool]) -> tuple[bool, ...]:
    """Elementwise or."""
    return tuple(x or y for x, y in zip(a, b, strict=True))


Flags = tuple[bool, ...]


def fixpoint(start: Flags, step: Callable[[Flags], tuple[Flags, T]]) -> tuple[Flags, T]:
    """Iterate flags to a fixed point; returns them, and the result of the last step.

    Whether a carry is moving, unknown or mapped depends on the carries of the previous step.
    """
    flags = start
    while True:
        found, result = step(flags)
        grown = either(flags, found)
        if grown == flags:
            return flags, result
        flags = grown


def taking(make: Callable[..., Any], names: Sequence[str]) -> Callable[[Any], Any]:
    """A decorator of rules, which then take the parameters of these names as one record."""

    def decorated(rule: Any) -> Any:
        def slot(*args: Any, **params: Any) -> Any:
            record = make(**{name: params.pop(name) for name in names})
            return rule(record, *args, **params)

        return slot

    return decorated


STEPS = interned((), np.dtype(np.int64))
"""The type of the number of steps."""


class Scan(NamedTuple):
    """The parameters of a scan, and its primitive (scan or counted_scan)."""

    primitive: Primitive
    body: Graph
    length: int
    reverse: bool
    n_consts: int
    n_carry: int

    @classmethod
    def of(cls, eqn: Eqn) -> Scan:
        """The scan of an equation."""
        return cls(eqn.primitive, **eqn.params)

    @property
    def counted(self) -> bool:
        """Whether the number of steps is an operand."""
        return self.primitive.name == "counted_scan"

    def parts(self, operands: Sequence[T]) -> list[Sequence[T]]:
        """The operands as steps (none or one), consts, init, xs."""
        return cut(operands, int(self.counted), self.n_consts, self.n_carry)

    def but(self, **changes: Any) -> Scan:
        """A copy with some parameters changed."""
        return self._replace(**changes)

    def of_body(self, body: Graph, more_consts: int, more_carry: int) -> Scan:
        """The scan of a body that takes more values, after its own consts and after its carry."""
        n_consts, n_carry = self.n_consts + more_consts, self.n_carry + more_carry
        return self.but(body=body, n_consts=n_consts, n_carry=n_carry)

    def of_parts(self, transform: Any, n_consts: int, n_carry: int) -> Scan:
        """The scan with a transformed body, which takes other numbers of values."""
        return self.but(body=transform(self.body), n_consts=n_consts, n_carry=n_carry)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the equation."""
        params = self._asdict()
        del params["primitive"]
        return params

    def bind(self, *parts: Sequence[Any]) -> Sequence[Any]:
        """Apply the scan to steps, consts, init and xs."""
        return self.primitive(*(x for part in parts for x in part), **self.params)


def refit(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """The graph with selected inputs and outputs, in a given order."""
    return Graph([graph.inputs[i] for i in inputs], graph.eqns, [graph.outputs[i] for i in outputs])


def stacked(aval: Aval, length: int) -> Aval:
    """The type of ``length`` values, one for each step."""
    return interned((length, *aval.shape), aval.dtype)


def has_fixed_sizes(eqn: Eqn) -> bool:
    """Whether no operand or result has an extent that is known only at run time."""
    atoms = (*eqn.inputs, *eqn.outputs)
    return all(extent >= 0 for atom in atoms for extent in atom.aval.shape)


def new_stack(aval: Aval, length: int) -> np.ndarray[Any, Any]:
    """An empty stack for the values of ``length`` steps."""
    if GROWS in aval.shape:
        return np.empty(length, object)
    return np.zeros((length, *aval.shape), aval.dtype)


def strong(avals: Iterable[Aval]) -> tuple[Aval, ...]:
    """The avals, all strong."""
    return tuple(interned(aval.shape, aval.dtype) for aval in avals)


def check_operands(name: str, expected: Sequence[Aval], found: Sequence[Aval]) -> None:
    """Raise `ShapeError` unless the operands have the types that the inner graph takes."""
    if len(expected) != len(found):
        raise ShapeError(f"{name} takes {len(expected)} operands, not {len(found)}")
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a.dtype != b.dtype or a.ndim != b.ndim or not all(map(_fits, a.shape, b.shape)):
            raise ShapeError(f"{name}: operand {i} is {b}, where the inner graph takes {a}")


def _fits(expected: int, found: int) -> bool:
    if _is_exact.get():
        return expected == found
    return expected == found or GROWS in (expected, found)


_is_exact = ContextVar("_is_exact", default=False)


@contextmanager
def exact_sizes() -> Iterator[None]:
    """Within a block, do not accept a dynamic extent in place of a known one.

    Traced graphs never mix them; only loops whose steps have been counted do.
    """
    before = _is_exact.set(True)
    try:
        yield
    finally:
        _is_exact.reset(before)


def undivided(
    primitive: Primitive, unknown: Sequence[bool], avals: Sequence[Aval], params: dict[str, Any]
) -> EqnSplit:
    """The split of an equation that needs the unknown operands for all results."""
    inputs = [Var(aval) for aval in avals]
    known = where_not(unknown, inputs)
    outputs = [Var(aval) for aval in primitive.infer_all(avals, params)]
    eqn = Eqn(primitive, inputs, outputs, params)
    return EqnSplit(
        Graph(known, (), known),
        Graph([*known, *where(unknown, inputs)], [eqn], outputs),
        (True,) * len(outputs),
    )


# -- unused values ---------------------------------------------------------------------------------


def _nothing(*, shape: Shape, dtype: np.dtype[Any]) -> Any:
    known = tuple(max(extent, 0) for extent in shape)
    return np.zeros(known, object if GROWS in shape[1:] else dtype)[()]


unused = primitive(
    "unused",
    infer=lambda *, shape, dtype: interned(shape, dtype),
    numpy=_nothing,
    jvp=ZERO_DERIVATIVE,
)
"""An unused value, which a branch returns for the residuals of another branch."""


def unused_like(aval: Aval) -> Any:
    """An unused value of a type."""
    return unused(shape=aval.shape, dtype=aval.dtype)


def elsewhere(aval: Aval) -> Any:
    """Zeros for a result that only other branches compute; for a stack, an unused value."""
    return unused_like(aval) if GROWS in aval.shape else zeros_like(aval)


def applied_once(primitive: Primitive, avals: Sequence[Aval], params: dict[str, Any]) -> Graph:
    """The graph of one equation."""
    inputs = [Var(aval) for aval in avals]
    outputs = [Var(aval) for aval in primitive.infer_all(avals, params)]
    return Graph(inputs, [Eqn(primitive, inputs, outputs, params)], outputs)
