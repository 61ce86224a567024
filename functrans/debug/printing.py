"""Side effects of traced functions: printing, callbacks and breakpoints when values are known."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from string import Formatter
from typing import Any

import numpy as np

from functrans.api.arguments import as_array, check_callable
from functrans.api.originals import original
from functrans.ops.calls.effect import perform
from functrans.records import dataclass
from functrans.trace.source import Source, user_source
from functrans.tracebacks import boundary
from functrans.tree import core as tree
from functrans.tree.compare import Structure


@dataclass(frozen=True)
class _Call:
    """A function of pytrees, called with flat arrays; equal ones make equal programs."""

    function: Callable[..., object]
    arguments: Structure

    def __call__(self, *values: Any) -> None:
        # copies, so that the function cannot change the program's arrays
        args, kwargs = tree.unflatten(self.arguments, [np.array(x)[()] for x in values])
        self.function(*args, **kwargs)


@boundary
def callback(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
    """Call a function for its side effects, with the values of arrays, when they are known.

    It works under every transform: under `jit` the call is part of the compiled program, in a loop
    it happens in each step, under `vmap` for each example. Calls in a function's body happen in the
    order in which they are written. Derivatives ignore them and do not repeat them, unless
    `checkpoint` computes the function again.

    Under `vmap`, if examples take different branches of a `functrans.lax.cond`, both branches are
    computed, and have their effects, for all examples. A function without results has no effects,
    because there is nothing to compute.

    Parameters
    ----------
    function : callable
        Its result is ignored; its exceptions are raised by the call of the program. The program
        refers to it, so pass the same function each time.
    *args, **kwargs
        Arrays, tracers, numbers, or pytrees of them. It is called with copies of their values.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, grad, jit
    >>> seen = []
    >>> def loss(x):
    ...     debug.callback(seen.append, x * 2.0)
    ...     return x * x
    >>> jit(grad(loss))(3.0)
    np.float64(6.0)
    >>> seen
    [np.float64(6.0)]
    """
    check_callable(function, "debug.callback")
    leaves, structure = tree.flatten((args, kwargs))
    arrays = [
        as_array(x, lambda i: f"value {i} of debug.callback", i) for i, x in enumerate(leaves)
    ]
    perform(_Call(original(function), structure), *arrays)


@dataclass(frozen=True)
class _Print:
    text: str

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        builtins.print(self.text.format(*args, **kwargs))


@boundary
def print(text: str, /, *args: Any, **kwargs: Any) -> None:
    """Print values of arrays when they are known; see `callback` for when that is.

    Parameters
    ----------
    text : str
        As for `str.format`: ``"loss {:.3f}"``, ``"x = {x}"``.
    *args, **kwargs
        Arrays, tracers, numbers, or pytrees of them.

    Raises
    ------
    ValueError
        If the text refers to a missing value, or not to all values.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, jit, lax
    >>> @jit
    ... def total(xs):
    ...     def step(sum, x):
    ...         debug.print("{sum:.1f} + {x:.1f}", sum=sum, x=x)
    ...         return sum + x, None
    ...     return lax.scan(step, 0.0, xs)[0]
    >>> total(np.array([1.0, 2.0]))
    0.0 + 1.0
    1.0 + 2.0
    np.float64(3.0)
    """
    _check(text, args, kwargs)
    callback(_Print(text), *args, **kwargs)


def _check(text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise now, and not when the program runs, unless a format string matches the values."""
    asked: set[str | int] = set()
    count = 0
    for _, field, _, _ in Formatter().parse(text):
        if field is not None:
            name = field.replace(".", "[").split("[")[0]
            asked.add(count if not name else int(name) if name.isdecimal() else name)
            count += not name
    given: set[str | int] = {*range(len(args)), *kwargs}
    for names, what in ((asked - given, "asks for"), (given - asked, "does not ask for")):
        if names:
            shown = ", ".join(sorted(f"{{{name}}}" for name in names))
            where = "which is not given" if what == "asks for" else "which is given"
            raise ValueError(f"debug.print({text!r}, ...) {what} {shown}, {where}")


@dataclass(frozen=True)
class _Break:
    """Stops in the debugger, with values by their names."""

    source: Source | None

    def __call__(self, **values: Any) -> None:
        file = f"<debug.breakpoint at {self.source}>"
        exec(builtins.compile("breakpoint()", file, "exec"), values)


@boundary
def breakpoint(**values: Any) -> None:
    """Stop in Python's debugger when values are known; see `callback` for when that is.

    The values are variables there, under their names. ``sys.breakpointhook`` and
    ``PYTHONBREAKPOINT`` select the debugger, as for Python's own `breakpoint`.

    Parameters
    ----------
    **values
        Arrays, tracers, numbers, or pytrees of them.

    Examples
    --------
    >>> import sys
    >>> from functrans import debug, jit
    >>> stops = []
    >>> def hook():                 # in place of pdb
    ...     stops.append(sys._getframe(1).f_globals["x"])
    >>> before, sys.breakpointhook = sys.breakpointhook, hook
    >>> def f(x):
    ...     y = x * 2.0
    ...     debug.breakpoint(x=x, y=y)
    ...     return y
    >>> jit(f)(3.0), stops
    (np.float64(6.0), [np.float64(3.0)])
    >>> sys.breakpointhook = before
    """
    callback(_Break(user_source()), **values)
