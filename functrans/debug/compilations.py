"""Compilations: each time that a compiled function was traced, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import name_of
from functrans.api.cached_calls import CachedCalls
from functrans.api.history import CompilationReport
from functrans.api.methods import JitMethod
from functrans.tracebacks import boundary


@boundary
def why_compiled(function: Callable[..., Any], /) -> CompilationReport:
    """List each trace of a compiled function, and how its call differed from earlier ones.

    Parameters
    ----------
    function : callable
        A result of `functrans.jit`.

    Returns
    -------
    CompilationReport
        Prints as a list. Its ``compilations`` have the reasons, the types of the arguments, the
        time that tracing took, and whether the program's kernels were compiled, or found on disk or
        in memory.

    Raises
    ------
    TypeError
        If it is not a compiled function.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, jit
    >>> @jit
    ... def mean(x):
    ...     return np.sum(x) / x.size
    >>> _ = mean(np.ones(3)), mean(np.ones(4)), mean(np.ones(3))
    >>> debug.why_compiled(mean)
    mean has been traced 2 times
      1. first call with x: f64[3]; traced in ... ms, made in ... ms (...)
      2. x: f64[3] -> f64[4]; traced in ... ms, made in ... ms (...)
    """
    if not isinstance(function, (JitMethod, CachedCalls)):
        raise TypeError(
            f"debug.why_compiled takes a function that jit has returned, not {name_of(function)}"
        )
    return function.compilations()
