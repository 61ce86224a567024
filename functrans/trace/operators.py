"""The operators of traced values: the equations that ``x + y``, ``-x`` and ``x += y`` record."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from numbers import Number
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from functrans.caches import Table
from functrans.errors import DtypeError
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import registry
from functrans.ir.types import is_supported, unsupported
from functrans.trace import protocols
from functrans.trace.bytecode import identifies_bools
from functrans.trace.foreign import refuse_labelled
from functrans.trace.forms import binary, unary
from functrans.trace.notes import NUMPYS, add_place
from functrans.trace.source import here, is_library
from functrans.trace.views import assign

if TYPE_CHECKING:
    from functrans.trace.tracer import Tracer


_MORE_THAN_PRIMITIVES = ("divmod", "matmul", "pow")

_OF_INTEGERS = frozenset(
    "add subtract multiply floor_divide remainder pow divmod left_shift right_shift".split()
)
"""The operators that compute with integers if both operands are Python bools, unlike ufuncs."""

_INT64 = np.dtype(np.int64)

_REPEATED = (list, tuple, deque)

_OF_NO_NUMBER = {"equal": False, "not_equal": True}
"""The results of comparisons with None or a string."""


def _operator(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    # a form records the line of its caller's caller, so each operator calls it directly
    may_have_form = name not in _MORE_THAN_PRIMITIVES

    def operator(self: Tracer, other: Any) -> Any:
        result = binary(name, self, other, reflected) if may_have_form else None
        return _applied(name, self, other, reflected) if result is None else result

    return operator


def _comparison(name: str) -> Callable[[Any, Any], Any]:

    def operator(self: Tracer, other: Any) -> Any:
        result = binary(name, self, other)
        if result is None:
            result = _applied(name, self, other, False)
        return python_bool(result, sys._getframe(1)) if _is_truth(result) else result

    return operator


def python_bool(result: Tracer, frame: FrameType | None) -> Tracer | bool:
    """A Python bool, for the user's frame and its callers; a branch if they ask for its identity.

    ``is True`` and ``case True`` call nothing, and no tracer is True.
    """
    while frame is not None:
        code = frame.f_code
        known = _known.get(id(code))
        if known is None:
            is_users = not is_library(code.co_filename)
            known = code, identifies_bools(code) if is_users else None
            _known.remember(id(code), known)
        if known[1] is not False:
            return result if known[1] is None else bool(result)
        frame = frame.f_back
    return result


_known: Table[int, tuple[CodeType, bool | None]] = Table(4096)
"""Whether code asks; None for that of the library, where the search ends.

Keyed by the id of the code, which the entry keeps alive: hashing code would be slow.
"""


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    may_have_form = name not in _MORE_THAN_PRIMITIVES

    def operator(self: Tracer, other: Any) -> Any:
        result = binary(name, self, other) if may_have_form else None
        if result is None:
            result = _applied(name, self, other, False)
        if result is NotImplemented or not (self.ndim or self._as_view or self._is_contiguous):
            # NumPy scalars are immutable: the name is rebound to a new one
            return result
        assign(self, result, f"{name} in place")
        return self

    return operator


def _operators(name: str) -> tuple[Callable[[Any, Any], Any], ...]:
    """``x + y``, ``y + x`` and ``x += y``."""
    return _operator(name), _operator(name, True), _in_place(name)


def _applied(name: str, self: Tracer, other: Any, reflected: bool) -> Any:
    if not is_operand(other):
        if name == "multiply" and isinstance(other, _REPEATED) and _is_one_integer(self):
            return other * self.__index__()
        if name in _OF_NO_NUMBER and (other is None or isinstance(other, (str, bytes))):
            return np.full(self.shape, _OF_NO_NUMBER[name])[()]
        other = _as_operand(other, self)
        if other is NotImplemented:
            return other
    operation = protocols.operators[name] if name in _MORE_THAN_PRIMITIVES else registry[name]
    operands = (other, self) if reflected else (self, other)
    if name in _OF_INTEGERS and all(map(_is_truth, operands)):
        operands = _integer(operands[0]), _integer(operands[1])
    try:
        return operation(*operands)
    except NUMPYS as error:
        add_place(error, name, operands)
        raise


def _unary(name: str) -> Callable[[Any], Any]:
    # ~ of a Python bool, which Python deprecates, is that of NumPy's bools
    of_integers = name != "invert"

    def operator(self: Tracer) -> Any:
        result = unary(name, self)
        if result is None:
            return registry[name](_integer(self) if of_integers and _is_truth(self) else self)
        return result

    return operator


def _is_truth(x: Any) -> bool:
    """Whether a value is a Python bool, such as ``x > 0`` of a Python number."""
    return isinstance(x, bool) or (
        isinstance(x, Operators) and x._variable.aval.promotes_as is bool  # type: ignore[attr-defined]
    )


def _integer(truth: Any) -> Any:
    """A Python bool as the integer that it is in Python's arithmetic."""
    return int(truth) if isinstance(truth, bool) else registry["as_number"](truth, dtype=_INT64)


def _is_one_integer(x: Tracer) -> bool:
    """Whether ``list * x`` repeats the list, as with NumPy's integer scalars."""
    return x.ndim == 0 and x.dtype.kind in "iu"


def is_operand(x: Any) -> bool:
    """Whether a value can be an operand beside a tracer."""
    return (
        isinstance(x, (Operators, bool, int, float, complex, np.generic, OnDevice))
        or (isinstance(x, np.ndarray) and is_supported(x.dtype))
    )  # fmt: skip


def _as_operand(x: Any, beside: Tracer) -> Any:
    """The operand for a list or array-like; NotImplemented lets others define the operator."""
    if isinstance(x, np.ndarray):
        raise DtypeError(f"what a traced value meets{here()} is {unsupported(x)}")
    refuse_labelled(x)
    if isinstance(x, Number):
        raise DtypeError(
            f"a {type(x).__name__} meets a traced value{here()}: NumPy makes an "
            "array of objects of them, which have no derivatives.\nWrite float(number)."
        )
    if isinstance(x, (list, tuple, range)) or _is_left_to_numpy(type(x), beside):
        return protocols.operators["asarray"](x)
    return NotImplemented


def _is_left_to_numpy(kind: type, beside: Tracer) -> bool:
    """Whether a class is array-like, and leaves its operators to NumPy.

    A sequence leaves them to arrays, and to NumPy's numbers, but not to Python's.
    """
    if protocols.is_sequence(kind):
        is_left = not beside._variable.aval.weak
    else:
        is_left = hasattr(kind, "__array__") and not hasattr(kind, "__array_ufunc__")
    return is_left and getattr(kind, "__array_priority__", 0) <= 0


def has_own_ufuncs(x: Any) -> bool:
    """Whether an operand's class says what NumPy's ufuncs do with it, other than for arrays."""
    is_array = isinstance(x, (Operators, np.ndarray, np.generic, OnDevice))
    return not is_array and getattr(type(x), "__array_ufunc__", None) is not None


class Operators:
    """The operators of tracers."""

    __slots__ = ()

    __add__, __radd__, __iadd__ = _operators("add")
    __sub__, __rsub__, __isub__ = _operators("subtract")
    __mul__, __rmul__, __imul__ = _operators("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _operators("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators("floor_divide")
    __mod__, __rmod__, __imod__ = _operators("remainder")
    __pow__, __rpow__, __ipow__ = _operators("pow")
    __matmul__, __rmatmul__, __imatmul__ = _operators("matmul")
    __and__, __rand__, __iand__ = _operators("bitwise_and")
    __or__, __ror__, __ior__ = _operators("bitwise_or")
    __xor__, __rxor__, __ixor__ = _operators("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _operators("left_shift")
    __rshift__, __rrshift__, __irshift__ = _operators("right_shift")
    __divmod__, __rdivmod__ = _operator("divmod"), _operator("divmod", True)
    __eq__ = _comparison("equal")
    __ne__ = _comparison("not_equal")
    __lt__, __le__ = _comparison("less"), _comparison("less_equal")
    __gt__, __ge__ = _comparison("greater"), _comparison("greater_equal")
    __neg__, __pos__, __abs__, __invert__ = (
        _unary("negative"), _unary("positive"), _unary("absolute"), _unary("invert"),
    )  # fmt: skip
