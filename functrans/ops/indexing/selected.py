"""Boolean selection ``x[mask]`` with an unknown mask, as under `vmap` and `jit`.

The number of selected elements is unknown, so the selection is not an array. But elementwise
operations work on it, and it can be assigned back through the same mask, as most code does::

    y[mask] += v
    y[x > 0] = np.log(x[x > 0])

Both become a select between whole arrays. Everything else raises an error that suggests a
replacement.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from functrans.errors import TracerIndexError
from functrans.ir.graph import Atom, Eqn, Var
from functrans.trace.operators import is_operand
from functrans.trace.source import here
from functrans.trace.tracer import Tracer


def refuse(mask: Tracer) -> NoReturn:
    """Raise the error of an operation that needs the number of selected elements."""
    raise TracerIndexError(
        f"how many elements a mask takes is not known{here()}: the mask is traced "
        f"by {mask._owner.kind}. What it takes can be computed with element by element and "
        "assigned back through the same mask, and nothing else.\n"
        "Go on with the whole array: np.where(mask, x, 0.0) instead of x[mask], "
        "x.sum(where=mask) instead of x[mask].sum()."
    )


class Selected:
    """The elements of an array where a mask is true; their number is unknown."""

    __slots__ = ("full", "mask")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, full: Tracer, mask: Tracer) -> None:
        # the present values: a boolean selection is a copy, and the array may be assigned to
        full._refresh()
        mask._refresh()
        self.full = Tracer(full._owner, full._variable, full._value)
        self.mask = Tracer(mask._owner, mask._variable, mask._value)

    def __repr__(self) -> str:
        kind = self.mask._owner.kind
        return f"<the elements of {self.full._aval} where a mask traced by {kind} holds>"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        target = kwargs.pop("out", (None,))[0]
        foreign = target is not None and target is not self
        by_element = ufunc.signature is None and ufunc.nout == 1
        if method != "__call__" or kwargs or foreign or not by_element:
            refuse(self.mask)
        full = ufunc(*(self._whole(x) for x in inputs))
        if target is None:
            return Selected(full, self.mask)
        if not np.can_cast(full.dtype, self.full.dtype, "same_kind"):
            raise TypeError(
                f"{ufunc.__name__} in place gives {full.dtype}, which NumPy does not cast to "
                f"{self.full.dtype}: convert one of them by .astype"
            )
        self.full = full
        return self

    def _whole(self, x: Any) -> Any:
        """An operand of the whole array's shape for an operation on the selected elements."""
        if isinstance(x, Selected) and same(x.mask, self.mask):
            return x.full
        if is_operand(x) and np.ndim(x) <= self.full.ndim - self.mask.ndim:
            return x
        refuse(self.mask)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(self.mask)


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift, "matmul": np.matmul,
}  # fmt: skip
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _operators(ufunc: np.ufunc) -> tuple[Any, Any, Any]:
    """An operator, reflected, and in place; ``np.add`` itself would dispatch to a tracer first."""
    return (
        lambda self, other: self.__array_ufunc__(ufunc, "__call__", self, other),
        lambda self, other: self.__array_ufunc__(ufunc, "__call__", other, self),
        lambda self, other: self.__array_ufunc__(ufunc, "__call__", self, other, out=(self,)),
    )


for _name, _ufunc in _BINARY.items():
    for _prefix, _operator in zip(("", "r", "i"), _operators(_ufunc), strict=True):
        setattr(Selected, f"__{_prefix}{_name}__", _operator)
for _name, _ufunc in _COMPARISONS.items():
    setattr(Selected, f"__{_name}__", _operators(_ufunc)[0])
for _name, _function in _UNARY.items():
    setattr(
        Selected,
        f"__{_name}__",
        lambda self, ufunc=_function: self.__array_ufunc__(ufunc, "__call__", self),
    )


for _name in ("array", "array_function", "getitem", "setitem", "len", "iter", "bool"):
    setattr(Selected, f"__{_name}__", lambda self, *args, **kwargs: refuse(self.mask))


# -- whether two masks are the same ----------------------------------------------------------------


def same(first: Tracer, second: Tracer) -> bool:
    """Whether two tracers stand for the same value, or for values of equal computations.

    ``y[x > 0] = x[x > 0]``, for example, computes its mask twice.
    """
    if first._owner is not second._owner:
        return False
    makers = {var: eqn for eqn in first._owner.eqns for var in eqn.outputs}
    return _same(first._variable, second._variable, makers)


def _same(first: Atom, second: Atom, makers: dict[Var, Eqn]) -> bool:
    if first is second:
        return True
    if not isinstance(first, Var) or not isinstance(second, Var):
        return (
            not isinstance(first, Var) and not isinstance(second, Var) and first.key == second.key
        )
    one, other = makers.get(first), makers.get(second)
    return (
        one is not None
        and other is not None
        and one.primitive is other.primitive
        and len(one.inputs) == len(other.inputs)
        and one.outputs.index(first) == other.outputs.index(second)
        and one.primitive.keyed(one.params) == other.primitive.keyed(other.params)
        and all(_same(a, b, makers) for a, b in zip(one.inputs, other.inputs, strict=True))
    )
