"""Numba both ways: compiled functions for callers in Numba and C, and Numba's functions in traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from functrans.api.arguments import as_array, aval_of_leaf, check_callable, name_of
from functrans.errors import DtypeError
from functrans.ir.types import Aval
from functrans.ops.external import Elements, external
from functrans.run.export import Exported
from functrans.trace.stage import stage


class Compiled:
    """A compiled function for callers that are compiled: what `compile` returns.

    Attributes
    ----------
    numba : callable
        A function that Numba-compiled code may call: numbers and arrays in, numbers and new arrays
        out (a tuple, if there are several). Arrays must have the shapes of the examples.
    address : int
        The address of a C function: numbers by value, arrays as pointers to C-contiguous memory. If
        the result is one number it is returned (NaN, if an index was out of bounds); otherwise
        pointers for the results follow, and 0 is returned, or 1 if an index was out of bounds.
    ctypes : ctypes function
        The same, typed for ctypes and ``scipy.LowLevelCallable``.
    """

    def __init__(self, exported: Exported, name: str, several: bool) -> None:
        self._exported = exported
        self._name = name
        self._several = several
        self.__name__ = name
        if exported.value_address is not None:
            self.address = exported.value_address
            self.ctypes = exported.ctypes_value_function()
        else:
            self.address = exported.address
            self.ctypes = exported.ctypes_function()

    @property
    def numba(self) -> Any:
        if not hasattr(self, "_numba"):
            self._numba = _numba_function(self._exported, self._name, self._several)
        return self._numba

    def __call__(self, *args: Any) -> Any:
        return self.numba(*args)


def compile(function: Callable[..., Any], *examples: Any) -> Compiled:  # noqa: A001
    """Compile a function for callers that are compiled themselves.

    Parameters
    ----------
    function : callable
        Takes arrays and numbers, and returns one or a tuple of them; a transform of a function will
        do: ``compile(grad(f), x)``.
    *examples : arrays and numbers
        What it will be called with; only types matter.

    Returns
    -------
    Compiled
        Its ``numba`` may be called inside of ``@njit`` functions, its ``address`` and ``ctypes``
        from C, with no Python in between.

    Raises
    ------
    UnsupportedNumPyError
        If something in the function has no compiled form, so that Python would be needed.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> slope = functrans.compile(functrans.grad(np.sin), 0.0)
    >>> slope(0.0), slope.ctypes(0.0)
    (1.0, 1.0)
    """
    check_callable(function, "compile")
    leaves = [
        as_array(x, lambda i=i: f"example {i} for {name_of(function)}")
        for i, x in enumerate(examples)
    ]
    several: list[bool] = []

    def flat(*tracers: Any) -> list[Any]:
        result = function(*tracers)
        several.append(isinstance(result, (tuple, list)))
        results = result if several[-1] else [result]
        return [as_array(x, lambda: f"a result of {name_of(function)}") for x in results]

    avals = [aval_of_leaf(x) for x in leaves]
    staged = stage(flat, [Aval(a.shape, a.dtype) for a in avals], kind="jit")
    if staged.captures:
        raise DtypeError(
            f"{name_of(function)} uses arrays from outside: compiled code has nowhere to keep them; "
            "pass them as arguments"
        )
    return Compiled(Exported(staged.graph), name_of(function), several[0])


def _numba_function(exported: Exported, name: str, several: bool) -> Any:
    import numba

    arguments = [f"a{i}" for i in range(len(exported.in_avals))]
    scope: dict[str, Any] = {
        "np": np,
        "native": exported.ctypes_function(),
        "as_given": _as_given(),
    }
    lines = [f"def compiled({', '.join(arguments)}):"]
    passed = []
    for i, aval in enumerate(exported.in_avals):
        scope[f"in{i}"] = aval.dtype.type
        if aval.shape == ():
            passed.append(f"in{i}(a{i})")
            continue
        lines += [
            f"    if a{i}.shape != {aval.shape}:",
            f"        raise ValueError('argument {i} of {name} was compiled for shape {aval.shape}')",
            f"    c{i} = as_given(a{i}, in{i})",
        ]
        passed.append(f"c{i}.ctypes.data")
    for i, aval in enumerate(exported.out_avals):
        scope[f"out{i}"] = aval.dtype.type
        lines.append(f"    r{i} = np.empty({aval.shape}, out{i})")
        passed.append(f"r{i}.ctypes.data")
    lines += [
        f"    if native({', '.join(passed)}) != 0:",
        "        raise IndexError('an index is out of bounds for the axis that it indexes')",
    ]
    results = [f"r{i}[()]" if a.shape == () else f"r{i}" for i, a in enumerate(exported.out_avals)]
    lines.append(f"    return {'(' + ', '.join(results) + ',)' if several else results[0]}")
    exec("\n".join(lines), scope)
    return numba.njit(scope["compiled"])


@cache
def _as_given() -> Any:
    """A function, for Numba, that gives an array as C-contiguous memory of a dtype."""
    import numba
    from numba.core import types
    from numba.extending import overload

    def as_given(array: Any, dtype: Any) -> Any:
        raise NotImplementedError

    @overload(as_given)
    def _(array, dtype):  # type: ignore[no-untyped-def]  # Numba compares the signatures
        wanted = dtype.dtype if isinstance(dtype, types.NumberClass) else types.boolean
        if not isinstance(array, types.Array) or array.dtype != wanted:
            raise numba.core.errors.TypingError(
                f"the function was compiled for an array of {wanted}, not for {array}"
            )
        if array.layout == "C":
            return lambda array, dtype: array
        return lambda array, dtype: array.copy()

    return as_given


def from_numba(
    function: Callable[..., Any],
    out_types: Any,
    *,
    vectorised: bool = False,
) -> Callable[..., Any]:
    """An ``@njit`` function (or any other) for use in traced code.

    Parameters
    ----------
    function : callable
        Takes arrays and numbers, and returns one or a tuple of them. It must be pure.
    out_types : Aval, array, or callable
        The shape and dtype of the result, or a tuple of such; or a function that gives them from
        those of the arguments.
    vectorised : bool, optional
        Whether, under `vmap`, the function takes all examples at once, along a first axis of every
        argument, and gives all results so. Else it is called for each example.

    Returns
    -------
    callable
        It has no derivative: define one by `custom_jvp` or `custom_vjp` around it.

    Examples
    --------
    >>> import numba, numpy as np
    >>> import functrans
    >>> @numba.njit
    ... def smallest_gap(x):
    ...     return np.diff(np.sort(x)).min()
    >>> gap = functrans.from_numba(smallest_gap, functrans.Aval((), float))
    >>> functrans.vmap(gap)(np.array([[1.0, 4.0, 2.0], [3.0, 9.0, 0.0]]))
    array([1., 3.])
    """
    check_callable(function, "from_numba")

    def in_trace(*args: Any) -> Any:
        leaves = [
            as_array(x, lambda i=i: f"argument {i} of {name_of(function)}")
            for i, x in enumerate(args)
        ]
        avals = [aval_of_leaf(x) for x in leaves]
        wanted = out_types(*avals) if callable(out_types) else out_types
        several = isinstance(wanted, (tuple, list))
        results = tuple(_as_aval(x) for x in (wanted if several else [wanted]))
        elements = Elements(function, several, vectorised)
        outs = external(*leaves, elements=elements, results=results, lanes=())
        return tuple(outs) if several else outs[0]

    in_trace.__name__ = name_of(function)
    in_trace.__doc__ = function.__doc__
    return in_trace


def _as_aval(x: Any) -> Aval:
    return Aval(tuple(x.shape), x.dtype)
