"""Interoperation with Numba: compiled functions for Numba and C, and Numba functions in traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functrans import config
from functrans.api.arguments import as_array, aval_of_leaf, check_callable, name_of
from functrans.api.options import check_backend
from functrans.caches import cached_property
from functrans.errors import DtypeError
from functrans.ir.graph import Graph
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.calls.external import Elements, external
from functrans.trace.stage import stage
from functrans.tracebacks import boundary

if TYPE_CHECKING:
    from functrans.run.foreign.export import Exported

export = lazy("functrans.run.foreign.export:Exported")
numba_function = lazy("functrans.run.foreign.numba_caller:numba_function")


class Compiled:
    """A compiled function for compiled callers, as `compile` returns it.

    Numba-compiled code may call it. It takes numbers and arrays, which must have the shapes of the
    examples, and returns a number or a new array, or a tuple of several.

    Attributes
    ----------
    numba : callable
        The function that Numba-compiled code calls.
    address : int
        The address of a C function: numbers by value, arrays as pointers to C-contiguous memory. If
        the result is one number it is returned (NaN, if the call failed); otherwise pointers for
        the results follow, and 0 is returned, or 1 if an index was out of bounds, 2 if a matrix was
        singular, 3 if one was not positive definite, 4 if singular values were not found, 5 if
        there was no memory for temporaries.
    ctypes : ctypes function
        The same, typed for ctypes and ``scipy.LowLevelCallable``.
    """

    def __init__(self, graph: Graph, name: str, several: bool, backend: str) -> None:
        self._graph = graph
        self._several = several
        self.__name__ = name
        self._native = backend == "native"
        # raise now if Python would be needed
        _ = self._exported if self._native else self.numba

    @cached_property
    def _exported(self) -> Exported:
        return export(self._graph)

    @cached_property
    def numba(self) -> Any:
        exported = self._exported if self._native else None
        return numba_function(self._graph, self.__name__, self._several, exported)

    @property
    def _numba_type_(self) -> Any:
        """The Numba type of the function, which `numba.typeof` reads."""
        return self.numba._numba_type_

    @cached_property
    def address(self) -> int:
        exported = self._exported
        value = exported.value_address
        return exported.address if value is None else value

    @cached_property
    def ctypes(self) -> Any:
        exported = self._exported
        if exported.value_address is not None:
            return exported.ctypes_value_function()
        return exported.ctypes_function()

    @boundary
    def __call__(self, *args: Any) -> Any:
        return self.numba(*args)


@boundary
def compile(function: Callable[..., Any], *examples: Any, backend: str | None = None) -> Compiled:
    """Compile a function for callers in Numba or C.

    Parameters
    ----------
    function : callable
        Takes arrays and numbers, and returns one or a tuple of them. It may be a transformed
        function: ``compile(grad(f), x)``.
    *examples : arrays and numbers
        Arguments of the types that it will be called with.
    backend : {"native", "numba"}, optional
        The back end for functions that Numba-compiled code calls, as for `jit`. Numba compiles such
        a function together with its caller. C functions always use the native back end.

    Returns
    -------
    Compiled
        Functions compiled by ``@njit`` may call it, and C may call its ``address`` or ``ctypes``,
        without Python in between.

    Raises
    ------
    UnsupportedNumPyError
        If an operation in the function has no compiled form, so that Python would be needed.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> slope = functrans.compile(functrans.grad(np.sin), 0.0)
    >>> slope(0.0), slope.ctypes(0.0)
    (1.0, 1.0)
    >>> import numba
    >>> @numba.njit
    ... def steepest(xs):
    ...     return max([slope(x) for x in xs])
    >>> steepest(np.array([1.0, 0.0]))
    1.0
    """
    check_callable(function, "compile")
    check_backend("compile(backend=...)", backend)
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
            f"{name_of(function)} uses arrays from outside, and compiled code has nowhere to keep "
            "them: pass them as arguments"
        )
    return Compiled(staged.graph, name_of(function), several[0], backend or config.backend)


@boundary
def from_numba(
    function: Callable[..., Any], out_types: Any, *, vectorised: bool = False
) -> Callable[..., Any]:
    """Make an ``@njit`` function (or any other) callable from traced code.

    Parameters
    ----------
    function : callable
        Takes arrays and numbers, and returns one or a tuple of them. It must be pure.
    out_types : Aval, array, or callable
        The shape and dtype of the result, or a tuple of them; or a function that computes them
        from those of the arguments.
    vectorised : bool, optional
        Whether the function is called once under `vmap`, with all examples along a first axis of
        every argument, and returns the results along a first axis too. Otherwise it is called for
        each example.

    Returns
    -------
    callable
        It has no derivative: to define one, wrap it by `custom_jvp` or `custom_vjp`.

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
        results = tuple(Aval(tuple(x.shape), x.dtype) for x in (wanted if several else [wanted]))
        elements = Elements(function, several, vectorised)
        outs = external(*leaves, elements=elements, results=results, lanes=())
        return tuple(outs) if several else outs[0]

    in_trace.__name__ = name_of(function)
    in_trace.__doc__ = function.__doc__
    return in_trace
