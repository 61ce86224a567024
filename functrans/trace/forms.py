"""Memoised dispatch: the equations that record an elementwise operation on given types.

The dtypes to which operands are converted, the type of the result and the function that computes it
depend only on the types of the operands. They are determined once for these types. Recording an
operation on known values is then a look-up, a call of NumPy's function, and an equation.

Other cases (operands to convert, views, values of other traces, values that are not computed yet,
errors of NumPy's) have no form, and use `Trace.record`.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING, Any

import numpy as np

from functrans.caches import Table
from functrans.ir.graph import Atom, Eqn, Var
from functrans.ir.on_device import appliers
from functrans.ir.primitive import Primitive, current, registry
from functrans.ir.types import Aval, aval_of, interned, is_inexact, is_supported
from functrans.records import NamedTuple
from functrans.subclasses import PLAIN
from functrans.trace.absent import PENDING, UNKNOWN
from functrans.trace.source import source_of

if TYPE_CHECKING:
    from functrans.trace.tracer import Tracer


class Form(NamedTuple):
    """A memoised elementwise operation on operands of given types."""

    primitive: Primitive
    numpy: Callable[..., Any]  # the NumPy function that computes it
    aval: Aval  # the type of the result
    kind: type  # the class of NumPy's result
    convert: Callable[[Any], Any] | None = None  # converts an operand that is a number
    number: Aval | None = None  # the type of the converted operand


_forms: Table[tuple[Any, ...], Form | None] = Table(4096)
"""Forms, by the primitive's name and, for each operand, its `Aval` or the class of a number."""

_UNSEEN: Any = object()

PYTHON_NUMBERS: dict[Any, Callable[[Any], Any]] = {
    np.dtype(np.bool_): bool,
    np.dtype(np.int64): int,
    np.dtype(np.float64): float,
    np.dtype(np.complex128): complex,
}
"""Python's number class for a weak result's dtype."""


def _form(name: str, *kinds: Any) -> Form | None:
    """Determine the form of an operation; None if it has none."""
    primitive = registry.get(name)
    if primitive is None or primitive.promotion is None or primitive.stores:
        return None
    given = [
        kind if isinstance(kind, Aval) else aval_of(kind(0))
        for kind in kinds
        if isinstance(kind, Aval) or _is_of_numbers(kind)
    ]
    if len(given) < len(kinds) or any(aval.dtype.kind not in "biufc" for aval in given):
        return None
    if all(aval.promotes_as is bool for aval in given):
        return None  # Python's operators compute with integers
    convert = number = None
    try:
        dtypes = primitive.promotion(tuple([aval.promotes_as for aval in given]))
        for i, (kind, dtype) in enumerate(zip(kinds, dtypes, strict=True)):
            if isinstance(kind, Aval):
                if kind.dtype != dtype:
                    return None
            elif not is_inexact(dtype) or (given[i].dtype != dtype and not given[i].weak):
                return None
            else:
                convert = kind if not given[i].weak else PYTHON_NUMBERS.get(dtype, dtype.type)
                number = given[i] = aval_of(convert(0))
        (aval,) = primitive.results(given, {})
    except (TypeError, ValueError):
        return None  # `Trace.record` raises the proper error
    numpy = getattr(primitive.numpy, "resolve", lambda: primitive.numpy)()
    kind = np.ndarray if aval.shape else aval.dtype.type
    return Form(
        primitive, numpy, interned(aval.shape, aval.dtype, aval.weak), kind, convert, number
    )


def _is_of_numbers(kind: type) -> bool:
    """Whether instances of a class can be operands: Python's numbers, or NumPy's floats."""
    if kind in (int, float, complex):
        return True
    return kind in PLAIN and issubclass(kind, np.inexact) and is_supported(np.dtype(kind))


def form_of(key: tuple[Any, ...]) -> Form | None:
    """The memoised form of an operation."""
    form = _form(*key)
    _forms.remember(key, form)
    return form


def unary(name: str, x: Tracer) -> Tracer | None:
    """Record a unary operation on a tracer, if it has a form; else None."""
    trace = x._owner
    if not trace.concrete or trace is not current.get() or x._as_view is not None or appliers:
        return None
    key = name, x._variable.aval
    form = _forms.get(key, _UNSEEN)
    if form is _UNSEEN:
        form = form_of(key)
    known = x._value
    if form is None or known is PENDING or known is UNKNOWN:
        return None
    try:
        value = form.numpy(known)
    except Exception:
        return None  # the long way says where
    if type(value) is not form.kind:
        return None
    var = Var(form.aval)
    trace.values[var] = value
    trace.eqns.append(
        Eqn(form.primitive, (x._variable,), (var,), {}, trace.source or source_of(_getframe(2)))
    )
    return type(x)(trace, var, value)


def binary(name: str, x: Tracer, y: Any, reflected: bool = False) -> Tracer | None:
    """Record a binary operation on a tracer and another value, if it has a form; else None.

    If ``reflected``, the tracer is the second operand.
    """
    trace = x._owner
    if not trace.concrete or trace is not current.get() or x._as_view is not None or appliers:
        return None
    known = x._value
    if known is PENDING or known is UNKNOWN:
        return None
    own = x._variable.aval
    kind: Any = y.__class__
    if kind is type(x):
        other = y._value
        if y._owner is not trace or y._as_view is not None or other is PENDING or other is UNKNOWN:
            return None
        kind = y._variable.aval
    elif kind is np.ndarray:
        if y.dtype != own.dtype or not is_inexact(own.dtype):
            return None
        kind, other = interned(y.shape, own.dtype), y
    key = (name, kind, own) if reflected else (name, own, kind)
    form = _forms.get(key, _UNSEEN)
    if form is _UNSEEN:
        form = form_of(key)
    if form is None:
        return None
    try:
        if form.convert is not None:
            other = form.convert(y)
        value = form.numpy(other, known) if reflected else form.numpy(known, other)
    except Exception:
        return None  # the long way says where
    if type(value) is not form.kind:
        return None
    atom: Atom
    if form.number is not None:
        atom = Var(form.number)
        trace.captures.append((atom, other))
        trace.values[atom] = other
    elif other is y:
        atom = trace.atom(y)
    else:
        atom = y._variable
    atoms = (atom, x._variable) if reflected else (x._variable, atom)
    var = Var(form.aval)
    trace.values[var] = value
    trace.eqns.append(
        Eqn(form.primitive, atoms, (var,), {}, trace.source or source_of(_getframe(2)))
    )
    return type(x)(trace, var, value)
