"""NumPy's promotion of dtypes (NEP 50), computed by NumPy itself.

Operands are brought to one dtype before an equation is recorded, by casts that the graph shows; the
primitives themselves take operands of equal dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import DtypeError
from functrans.ir.on_device import OnDevice
from functrans.ir.types import aval_of, describe, is_bfloat16, is_complex, is_inexact, is_supported
from functrans.ops.arrays import structural
from functrans.ops.arrays.numbers import as_number
from functrans.subclasses import PLAIN
from functrans.trace.foreign import check_plain, refuse_labelled
from functrans.trace.forms import PYTHON_NUMBERS
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

DtypeKey = np.dtype[Any] | type
"""A dtype, or Python's bool, int, float or complex for a weak operand."""

Promotion = Callable[[tuple[DtypeKey, ...]], tuple[np.dtype[Any], ...]]
"""Maps the dtypes of operands to the dtypes to cast them to."""


def dtype_key(x: Any) -> DtypeKey:
    """The key of a value in promotion."""
    if isinstance(x, Tracer):
        return x._variable.aval.promotes_as
    if type(x) not in PLAIN:
        check_plain(x)
    if isinstance(x, (np.ndarray, np.generic, OnDevice)):
        if not is_supported(x.dtype):
            raise DtypeError(
                f"expected an array of bool, integer, float or complex dtype"
                f"{here()}, found {describe(x)}"
            )
        return x.dtype
    if isinstance(x, bool):
        return bool
    if isinstance(x, int):
        return int
    if isinstance(x, float):
        return float
    if isinstance(x, complex):
        return complex
    refuse_labelled(x)
    raise DtypeError(f"expected an array or a number{here()}, found {describe(x)}")


def cast(x: Any, dtype: np.dtype[Any]) -> Any:
    """The value in a dtype that promotion has chosen for it."""
    if isinstance(x, Tracer):
        if x._variable.aval.dtype == dtype:
            return x
        return structural.cast(x, dtype=dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return x if x.dtype == dtype else x.astype(dtype)
    if isinstance(x, OnDevice):
        return x if x.dtype == dtype else structural.cast(x, dtype=dtype)
    return dtype.type(x)


def _operand(x: Any, dtype: np.dtype[Any], weak: bool) -> Any:
    """Like `cast`, but a Python number among ``weak`` operands remains weak."""
    if weak and isinstance(x, Tracer):
        return x if x.dtype == dtype else as_number(x, dtype=dtype)
    if isinstance(x, (Tracer, np.ndarray, np.generic, OnDevice)):
        return cast(x, dtype)
    return PYTHON_NUMBERS.get(dtype, dtype.type)(x)


def promote(promotion: Promotion, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cast operands to the dtypes that a primitive takes."""
    keys = tuple(
        [x._variable.aval.promotes_as if type(x) is Tracer else dtype_key(x) for x in operands]
    )
    casts = _casts(promotion, keys)
    if casts is None:
        return operands
    dtypes, weak = casts
    return tuple(
        [
            x if key is dtype else _operand(x, dtype, weak)
            for x, key, dtype in zip(operands, keys, dtypes, strict=True)
        ]
    )


@cached(8192)
def _casts(
    promotion: Promotion, keys: tuple[DtypeKey, ...]
) -> tuple[tuple[np.dtype[Any], ...], bool] | None:
    """The dtypes that operands are cast to, and whether all are weak; None if they have these."""
    dtypes = promotion(keys)
    if all(a is b for a, b in zip(keys, dtypes, strict=True)):
        return None
    numbers = all(isinstance(key, type) for key in keys)
    return dtypes, numbers and all(dtype in PYTHON_NUMBERS for dtype in dtypes)


def _strong(keys: tuple[DtypeKey, ...]) -> tuple[DtypeKey, ...]:
    """The keys that NumPy promotes: those of Python scalars alone are their default dtypes.

    Beside an array, a Python bool is one of NumPy's.
    """
    if all(isinstance(key, type) for key in keys):
        return tuple(np.dtype(key) for key in keys)
    return tuple([_BOOL if key is bool else key for key in keys])


_INSTEAD = {
    "c": ".\nTake np.real(x) or np.abs(x).",
    "f": ".\nConvert floats by .astype(int); for conditions, write (x > 0) & (y > 0).",
    "b": ".\nFor conditions, write x ^ y or ~x; to compute with 0 and 1, convert by .astype(int).",
}
"""What to write where a ufunc is not defined for complex numbers, floats, or bools."""


def loop_of(resolve: Callable[[], np.ufunc]) -> Promotion:
    """The dtypes of operands and results of the loop that a ufunc takes for its operands."""

    @cached(1024)
    def loop(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
        ufunc = resolve()
        try:
            return ufunc.resolve_dtypes((*_strong(keys), *(None,) * ufunc.nout))
        except TypeError:
            names = ", ".join(str(np.dtype(key)) for key in keys)
            kinds = {np.dtype(key).kind for key in keys}
            instead = next((text for kind, text in _INSTEAD.items() if kind in kinds), "")
            raise DtypeError(
                f"{ufunc.__name__} is not defined for {names}{here()}{instead}"
            ) from None

    return loop


def ufunc_promotion(resolve: Callable[[], np.ufunc]) -> Promotion:
    """The promotion of a ufunc, which is resolved on first use."""
    loop = loop_of(resolve)
    return lambda keys: loop(keys)[: len(keys)]


def scipy_promotion(name: str, resolve: Callable[[], np.ufunc]) -> Promotion:
    """The promotion of a SciPy ufunc.

    Nearly all have a loop for each float dtype. For floats the ufunc is not inspected, because
    importing `scipy.special` takes longer than a first call.
    """
    asked = ufunc_promotion(resolve)
    if name in _WITHOUT_LOOPS_OF_FLOATS:
        return asked
    weak: tuple[type, ...] = (float,) if name in _WITH_LOOPS_OF_INTEGERS else (int, float)

    def promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
        kinds = set(keys)
        if _FLOAT64 in kinds:
            kinds.difference_update(weak)
        if len(kinds) == 1 and (kind := kinds.pop()) in _FLOATS:
            return (np.dtype(kind),) * len(keys)
        return asked(keys)

    return promotion


_BOOL = np.dtype(np.bool_)
_FLOAT64 = np.dtype(np.float64)
_FLOATS = (np.dtype(np.float32), _FLOAT64)
_WITH_LOOPS_OF_INTEGERS = frozenset(
    "bdtr bdtrc bdtri eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer "
    "eval_genlaguerre eval_jacobi eval_laguerre eval_legendre eval_sh_chebyt eval_sh_chebyu "
    "eval_sh_jacobi eval_sh_legendre expn kn nbdtr nbdtrc nbdtri pdtri smirnov smirnovi yn".split()
)
_WITHOUT_LOOPS_OF_FLOATS = frozenset(
    ["eval_hermite", "eval_hermitenorm", "hankel1", "hankel1e", "hankel2", "hankel2e", "wofz"]
)


@cached(1024)
def common(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """All operands in their common dtype, as ``np.result_type`` gives it."""
    return (result_type(keys),) * len(keys)


@cached(1024)
def floating(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """All operands in their common dtype, or in float64 if that is an integer or bool."""
    dtype = result_type(keys)
    return (dtype if is_inexact(dtype) else np.dtype(np.float64),) * len(keys)


def real_floats(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """All operands in their common dtype, or in float64 if that is an integer; none is complex."""
    dtypes = floating(keys)
    if is_complex(dtypes[0]):
        raise DtypeError("an operation of real numbers is not defined for complex ones")
    return dtypes


def result_type(keys: tuple[DtypeKey, ...]) -> np.dtype[Any]:
    """``np.result_type`` with weak Python scalars.

    Raises `DtypeError` if NumPy has none: for bfloat16 and float16, or an integer of more than 8
    bits.
    """
    weak = {int: 0, float: 0.0, complex: 0j}
    given = _strong(keys)
    numbers = [weak[key] for key in given if isinstance(key, type)]
    dtypes = [key for key in given if not isinstance(key, type)]
    try:
        if any(map(is_bfloat16, dtypes)):
            # pairwise: for a dtype of ours, NumPy promotes two dtypes at a time
            dtypes = [reduce(np.promote_types, dtypes)]
        return np.result_type(*dtypes, *numbers)
    except TypeError:
        names = " and ".join(dict.fromkeys(np.dtype(key).name for key in keys))
        raise DtypeError(
            f"{names} have no dtype in common{here()}: convert one of them, for "
            "example by .astype(np.float32)"
        ) from None


def unchanged(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """Every operand in its own dtype."""
    return tuple(np.dtype(key) for key in keys)


def strong_dtype(x: Any) -> np.dtype[Any]:
    """The dtype that a value has on its own."""
    return aval_of(x).dtype if not isinstance(x, Tracer) else x._variable.aval.dtype
