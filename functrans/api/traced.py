"""Whether a value is traced, for code that accepts plain arrays and traced values."""

from __future__ import annotations

from functrans.trace.tracer import Tracer


def is_traced(x: object) -> bool:
    """Whether a value is traced, that is, stands for an array while a function is transformed.

    Parameters
    ----------
    x : Any

    Returns
    -------
    bool
        True for tracers, which a transformed function receives in place of arrays, and for values
        that it computes from them; False for arrays, numbers, containers and everything else.

    Notes
    -----
    The result of a function should not depend on this. It is meant for code that must not pass
    tracers to other code, such as a solver that takes plain arrays only. For containers, use
    `functrans.tree.leaves`. Libraries that dispatch on classes use `functrans.extend.Tracer`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, is_traced
    >>> def f(x):
    ...     print(is_traced(x), is_traced(np.sin(x)), is_traced(np.ones(3)))
    ...     return x * x
    >>> grad(f)(3.0)
    True True False
    np.float64(6.0)
    >>> is_traced(3.0)
    False
    """
    return isinstance(x, Tracer)
