"""NaN detection: a context in which the first NaN of a call stops the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functrans import config


@contextmanager
def nans(infinities: bool = False) -> Iterator[None]:
    """Raise an error if a result contains a NaN, which says where it arose.

    Inside the with statement, the results of functions made by `grad`, `vmap`, `jit` and the other
    transforms are checked. If there is a NaN that is not in the arguments, the program is evaluated
    again, operation by operation, and the NaN is traced back to the operation that created it; this
    works for compiled programs, too. A NaN that never reaches a result (in the branch that
    ``where`` does not select) is not reported.

    It sets ``functrans.config.check_values``, for all threads. Without a NaN, it costs only the
    check of the results.

    Parameters
    ----------
    infinities : bool, optional
        Whether an infinity counts as well.

    Raises
    ------
    NonFiniteError
        By the call, with your line, the operation, the operands at that element, and the loop step.
        For a backward pass, it is the line of the forward operation.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, grad
    >>> def norm(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> with debug.nans():
    ...     grad(norm)(np.zeros(2))
    Traceback (most recent call last):
    ...
    functrans.errors.NonFiniteError: multiply gives NaN in the derivative of the line at ...
      of operands 0.0, inf, element [0] of float64[2]
      the infinity was made by ...
    """
    before = config.check_values
    config.check_values = "finite" if infinities else "nan"
    try:
        yield
    finally:
        config.check_values = before
