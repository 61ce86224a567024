"""The tracer: the object that a traced function receives in place of an array."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from functrans import errors
from functrans.ir.graph import Var
from functrans.ir.primitive import current, registry
from functrans.ir.types import Aval, Shape, is_complex, is_float, is_inexact
from functrans.trace import protocols
from functrans.trace.absent import PENDING, UNKNOWN
from functrans.trace.bytecode import calls_method, is_formatting
from functrans.trace.foreign import converted_by
from functrans.trace.notes import NUMPYS, add_place
from functrans.trace.operators import Operators, has_own_ufuncs
from functrans.trace.replacement import for_cause, instead, of_builtin, purpose
from functrans.trace.source import asks_for_array, here, located
from functrans.trace.views import View, assign

if TYPE_CHECKING:
    from functrans.trace.trace import Trace


_INTEGER = (
    "Index a traced array with it (functrans.numpy.asarray(a)[i] if `a` is a plain array), use "
    "functrans.lax.fori_loop for a loop of this length, or make the argument static: "
    "jit(f, static_argnums=...)."
)
_PLAIN = (
    "Use NumPy's functions by their full names (np.sin or math.sin, not sin; np.array, not array) "
    "or np.stack([x, y]). To store it in an array `a`, begin with a = np.array(a)."
)
"""The general suggestion, if `instead` has none."""


class Tracer(Operators):
    """Represents an array while a function is traced; NumPy's functions and operators accept it.

    It records the operations on it. If the trace has values (under `grad`, `jvp`, `jacfwd` of
    concrete inputs) Python may branch on it; under `vmap` and `jit` it has no value.
    """

    __slots__ = (
        "__weakref__", "_argument", "_as_view", "_is_contiguous", "_owner", "_value", "_variable",
        "_version",
    )  # fmt: skip
    __array_priority__ = 1000
    __pandas_priority__ = 10_000  # so that pandas defers to these operators

    _owner: Trace
    _variable: Var
    _value: Any
    _as_view: View | None
    # Whether NumPy's array is certainly in C order. Without axes: whether it is an array, and no
    # number, which nothing can change; None if either may be.
    _is_contiguous: bool | None
    _version: int
    _argument: Callable[[], str] | None

    def __init__(self, trace: Trace, var: Var, value: Any) -> None:
        self._owner = trace
        self._variable = var
        self._value = value
        self._as_view = None
        self._is_contiguous = False
        self._version = 0
        self._argument = None

    # -- what it stands for --------------------------------------------------------------------

    @property  # type: ignore[misc]  # in `object` it can be assigned to
    def __class__(self) -> type:
        """The class of the value, for `isinstance` in users' code, which may depend on it."""
        if not asks_for_array(sys._getframe(1)):
            return Tracer
        aval = self._variable.aval
        if aval.shape or self._is_contiguous or self._as_view is not None:
            return np.ndarray
        return type(aval.dtype.type().item()) if aval.weak else aval.dtype.type

    @property
    def _aval(self) -> Aval:
        return self._variable.aval

    @property
    def shape(self) -> Shape:
        return self._variable.aval.shape

    @shape.setter
    def shape(self, value: Any) -> NoReturn:
        self._refuse_layout("shape", "x = x.reshape(shape)")

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._variable.aval.dtype

    @dtype.setter
    def dtype(self, value: Any) -> NoReturn:
        self._refuse_layout("dtype", "x = x.astype(dtype), which converts the numbers")

    def _refuse_layout(self, name: str, instead: str) -> NoReturn:
        raise errors.MutationError(
            f"x.{name} = ...{here()}: a traced array cannot change its {name} in "
            f"place.\nWrite {instead}."
        )

    @property
    def ndim(self) -> int:
        return len(self._variable.aval.shape)

    @property
    def real(self) -> Any:
        """The real part, as an assignable view."""
        return protocols.attributes["real"](self)

    @real.setter
    def real(self, value: Any) -> None:
        protocols.attributes["real"](self)[...] = value

    @property
    def imag(self) -> Any:
        """The imaginary part, as an assignable view; zeros for a real array."""
        return protocols.attributes["imag"](self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if not is_complex(self.dtype):
            raise TypeError("array does not have imaginary part to set")
        protocols.attributes["imag"](self)[...] = value

    @property
    def flat(self) -> Any:
        """The flattened elements, which can be assigned to."""
        return protocols.attributes["flat"](self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[...] = values

    @property
    def size(self) -> int:
        return self._variable.aval.size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def _known_value(self) -> Any:
        """The value, computed now if it was deferred; `UNKNOWN` if there is none."""
        if self._as_view is not None:
            self._refresh()
        if self._value is PENDING:
            self._value = self._owner.value_of(self._variable)
        return self._value

    def _check_usable(self) -> None:
        """Raise if the trace of this tracer has ended."""
        trace = current.get()
        while trace is not None:
            if trace is self._owner:
                return
            trace = trace.parent  # type: ignore[attr-defined]
        if self._owner.alive:
            raise errors.LeakedTracerError(
                f"{self._described()} is used in another thread than "
                f"the one that it is traced in{here()}.\n"
                "Let the function that is transformed do its work in one thread; jit uses several."
            )
        raise errors.LeakedTracerError(
            f"{self._described()} is used{here()} after the function that it "
            f"was traced in has returned{self._made_at()}.\n"
            "Return it from the function instead of keeping it in a global, an attribute or a list."
        )

    def _described(self) -> str:
        return f"a value traced by {self._owner.kind} ({self._aval})"

    def _made_at(self) -> str:
        for eqn in self._owner.eqns:
            if self._variable in eqn.outputs:
                return f"; it was made{located(eqn.source)}"
        return f"; it is {self._argument()}" if self._argument else ""

    def __repr__(self) -> str:
        value = self._known_value
        if value is UNKNOWN:
            return f"Tracer({self._aval}, traced by {self._owner.kind})"
        return f"Tracer({self._aval}, value={value!r}, traced by {self._owner.kind})"

    def __format__(self, spec: str) -> str:
        value = self._known_value
        return repr(self) if value is UNKNOWN or not spec else format(value, spec)

    def _printable(self) -> Any:
        """The value for ``"%.2f" % x``, which loses no derivative."""
        value = self._known_value
        if value is not UNKNOWN:
            return value
        self._owner.refused(self)
        error = errors.TracerConversionError(
            f"{self._described()} has no value to be formatted{here()}: "
            f'{self._no_value()}.\nWrite f"{{x}}" or "%s" % x, which show its type, or '
            "format what the function returns."
        )
        self._owner.refusal = error
        raise error

    # -- Python's conversions ------------------------------------------------------------------

    def _no_value(self) -> str:
        cause = self._owner.cause
        return f"it is traced by {cause}, where {self._aval} stands for " + (
            "every element along the mapped axis" if cause == "vmap" else "any value"
        )

    def __bool__(self) -> bool:
        value = self._known_value
        if value is UNKNOWN:
            self._check_usable()
            value = self._owner.decide(self)
        if value is UNKNOWN:
            self._owner.refused(self)
            advice = of_builtin() or (
                "Write np.where(condition, a, b), or functrans.lax.cond(condition, f, g, *xs) "
                "to compute only one branch, or functrans.lax.while_loop for a loop."
            )
            raise errors.TracerBoolError(
                f"Python cannot branch on this value{here()}: {self._no_value()}.\n{advice}"
            )
        return bool(value)

    def __round__(self, digits: int | None = None) -> Any:
        rounded = protocols.methods["round"](self, digits or 0)
        if self.ndim or not (digits is None or self._variable.aval.weak):
            return rounded
        # Python's `int`, or its `float`: large ones are not in the range of int64
        if np.can_cast(self.dtype, np.int64):
            return registry["as_number"](rounded, dtype=np.dtype(np.int64))
        if is_float(self.dtype):
            return registry["as_number"](rounded, dtype=np.dtype(np.float64))
        return rounded

    def __floor__(self) -> int:
        return self._rounded(math.floor)

    def __ceil__(self) -> int:
        return self._rounded(math.ceil)

    def __trunc__(self) -> int:
        return self._rounded(math.trunc)

    def _rounded(self, function: Callable[[Any], int]) -> int:
        """The result of one of Python's roundings, which loses no derivative."""
        value = self._known_value
        wanted = f"math.{function.__name__}()"
        return self._integer(wanted) if value is UNKNOWN else function(value.item())

    def __index__(self) -> int:
        return self._integer("an index")

    def __int__(self) -> int:
        if is_formatting(sys._getframe(1)):
            return int(self._printable())
        return self._integer("int()")

    def _integer(self, wanted: str) -> int:
        value = self._known_value
        if value is UNKNOWN and self._variable.aval.promotes_as is bool:
            value = bool(self)  # of (x, y)[x > 0], for Python numbers: a branch
        if value is UNKNOWN:
            self._owner.refused(self)
            wanted = purpose() if wanted == "an index" else wanted
            computed = self._owner.comes_from_an_array(self._variable)
            advice = for_cause(instead(integer=True) or _INTEGER, self._owner.cause, computed)
            error = errors.TracerIndexError(
                f"Python needs one integer here, for {wanted}{here()}, but "
                f"{self._no_value()}.\n{advice}"
            )
            self._owner.refusal = error
            raise error
        if wanted == "an index" and is_inexact(self.dtype):
            raise TypeError(
                f"Python needs an integer here{here()}, for an index, a range or "
                f"math.factorial, and {self._described()} is a float: convert it by .astype(int); "
                "for a factorial, write scipy.special.gamma(x + 1)"
            )
        return int(value)

    def __hash__(self) -> int:
        if self._variable.aval.promotes_as is bool:
            return hash(bool(self))  # of a comparison of Python numbers: a branch
        # not None, as in np.ndarray, which would give Python's own error message
        self._owner.refused(self)
        raise errors.TracerConversionError(
            f"{self._described()} cannot be hashed{here()}: it cannot be a key of "
            "a dict, an element of a set or an argument of functools.cache.\nUse a number or a "
            "string that is known when the function is traced, or take the cached function out."
        )

    def __float__(self) -> float:
        if is_formatting(sys._getframe(1)):
            return float(self._printable())
        plain = "a plain float (float, a function of math, or storing it in an ndarray)"
        return float(self._plain(plain))

    def as_integer_ratio(self) -> tuple[int, int]:
        return float(self).as_integer_ratio()  # with which `statistics` computes

    def __complex__(self) -> complex:
        return complex(self._plain("a plain complex number (complex, cmath.exp)"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if not self._converts() and calls_method(sys._getframe(1), "__array__"):
            return protocols.operators["asarray"](self)  # Python's code calls it, not NumPy's
        value = self._plain("a plain np.ndarray (np.asarray, or storing it in an array)")
        return np.array(value, dtype)

    @property
    def _numba_type_(self) -> NoReturn:
        """Refuse the Numba type, which a dispatcher reads from its arguments."""
        self._owner.refused(self)
        self._check_usable()
        raise errors.TracerConversionError(
            f"{self._described()} cannot be an argument of a function that Numba compiled"
            f"{here()}.\nCall the Python function (f.py_func), which is traced, or "
            "functrans.from_numba(f, ...)."
        )

    def item(self, *args: Any) -> Any:
        """An element as a Python number, which is traced if it may have a derivative."""
        if self._converts():
            return self._plain("a Python number (.item())").item(*args)
        return protocols.methods["item"](self, *args)

    def tolist(self) -> Any:
        """The numbers, if they have no derivatives that would be lost."""
        words = "An array can be indexed and iterated like a list. To get a list, return the array."
        return self._plain("a list (.tolist())", words).tolist()

    def _plain(self, target: str, otherwise: str = _PLAIN) -> Any:
        """The value, for a conversion that loses no derivative; else raise."""
        return self._known_value if self._converts() else self._refuse_plain(target, otherwise)

    def _converts(self) -> bool:
        """Whether it can be converted to a plain array without losing a derivative."""
        if self._known_value is UNKNOWN:
            return False
        return not is_inexact(self.dtype) or self._is_constant()

    def _refuse_plain(self, target: str, otherwise: str = _PLAIN) -> NoReturn:
        """Raise the error for a traced value that is converted to a plain one."""
        self._owner.refused(self)
        self._check_usable()
        if self._known_value is UNKNOWN:
            reason = self._no_value()
            last = ""
        else:
            reason = "its derivative would be lost"
            last = " If a constant is meant, write functrans.stop_gradient(x)."
        raise errors.TracerConversionError(
            f"{self._described()} cannot become {target}"
            f"{here()}: {reason}.\n{converted_by() or instead() or otherwise}{last}"
        )

    def _is_constant(self) -> bool:
        """Whether the derivative with respect to all inputs is zero, as after `stop_gradient`."""
        return self._variable in self._owner.constants()

    def __copy__(self) -> Any:
        return protocols.methods["copy"](self)

    def __deepcopy__(self, memo: Any) -> Any:
        return protocols.methods["copy"](self)

    def __reduce__(self) -> NoReturn:
        raise errors.TracerConversionError(
            f"{self._described()} cannot be pickled"
            f"{here()}: it stands for an array only while the function is traced"
        )

    # -- NumPy's protocols ---------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self._check_usable()
        try:
            return protocols.apply_ufunc(ufunc, method, inputs, kwargs)
        except (errors.DtypeError, errors.ShapeError):
            if any(map(has_own_ufuncs, inputs)):
                return NotImplemented  # NumPy asks the other operand's class
            raise

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self._check_usable()
        return protocols.apply_function(func, args, kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return protocols.operators["array_namespace"](api_version)

    def __getattr__(self, name: str) -> Any:
        return protocols.attribute(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *protocols.methods, *protocols.attributes})

    # -- containers ----------------------------------------------------------------------------

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError(
                f"len() of unsized object{here()}: {self._owner.kind} traces a number "
                'as a 0-d array, which hasattr(x, "__len__") takes for a sequence.\n'
                "Ask whether np.ndim(x) is 0."
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any())

    def __getitem__(self, index: Any) -> Any:
        if not self._owner.alive:
            self._check_usable()
        try:
            return protocols.operators["getitem"](self, index)
        except NUMPYS as error:
            add_place(error, f"x[{index!r}]" if isinstance(index, str) else "x[...]", (self,))
            raise

    def __setitem__(self, index: Any, value: Any) -> None:
        try:
            result = protocols.operators["setitem"](self, index, value)
        except NUMPYS as error:
            add_place(error, "x[...] = y", (self, value))
            raise
        assign(self, result, "assignment to an element")

    def __delitem__(self, index: Any) -> NoReturn:
        raise errors.MutationError("an array cannot lose elements: use np.delete(x, i)")

    def _refresh(self) -> None:
        """If this is a view, read it again if its base has changed."""
        # iterative, since nested views may exceed Python's recursion limit
        views: list[tuple[View, Tracer]] = []
        one = self
        while one._as_view is not None and (not views or views[-1][1] is not one):
            views.append((one._as_view, one))
            one = one._as_view.base
        for view, each in reversed(views):
            view.refresh(each)

    def _become(self, other: Tracer) -> None:
        """Represent the value of another tracer from now on."""
        other._refresh()
        self._variable = other._variable
        self._value = other._value
        self._version += 1
