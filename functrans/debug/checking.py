"""NaN detection: a context in which the first NaN of a call stops the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functrans import config


@contextmanager
def nans(infinities: bool = False) -> Iterator[None]:
    """Have a NaN in a result raise an error that says where it began.

    Inside of the with statement the results of functions made by `grad`, `vmap`, `jit` and the
    other transforms are looked at. If there is a NaN that is not the arguments' own, the program is
    evaluated once more, operation by operation, and the NaN is followed back to the operation that
    made it of numbers: of a compiled program, too. What never reaches a result (the branch of a
    ``where`` that is not taken) is not reported.

    It sets ``functrans.config.check_values``, for all threads. Until a NaN is met, it costs a look
    at the results.

    Parameters
    ----------
    infinities : bool, optional
        Whether an infinity counts as well.

    Raises
    ------
    NonFiniteError
        By the call, with the line of the user's, the operation, the operands at the place, and the
        step of a loop. Of a backward pass, it is the forward line that the derivative is of.

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
