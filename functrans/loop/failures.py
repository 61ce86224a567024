"""Error codes of compiled code, and the exceptions that they represent.

Machine code cannot raise exceptions. It stores a code (its status, 0 if there was no error) and
continues, with results that are discarded; the caller raises NumPy's exception, in NumPy's words.
If there is no memory for its temporaries, it returns that code immediately.
"""

from __future__ import annotations

import numpy as np

from functrans.errors import NonFiniteError, StepLimitError
from functrans.records import NamedTuple


class Failure(NamedTuple):
    """A failure: Python's exception and its message."""

    exception: type[Exception]
    message: str

    def error(self) -> Exception:
        """The exception, to be raised."""
        return self.exception(self.message)


OUT_OF_BOUNDS = 1
SINGULAR = 2
NOT_POSITIVE_DEFINITE = 3
NOT_CONVERGED = 4
OUT_OF_MEMORY = 5
EIGENVALUES_NOT_CONVERGED = 6
NO_SOLUTION = 7
STEP_LIMIT = 8

INTERRUPTED = 9
"""A signal handler has raised an exception, which Python has recorded; the program stopped
early."""

NOT_FINITE = 10
"""A value that is being searched for (`functrans.api.origins`) was computed."""

NOT_SENT = 11
NOT_ALL_FINITE = 12
SCHUR_NOT_FINITE = 13
SCHUR_NOT_FOUND = 14
NEGATIVE_POWER = 15
ALL_NAN = 16
INVALID_COORDINATES = 17
OUTSIDE_OF_SHAPE = 18

FAILURES = {
    OUT_OF_BOUNDS: Failure(IndexError, "an index is out of bounds for the axis that it indexes"),
    SINGULAR: Failure(np.linalg.LinAlgError, "Singular matrix"),
    NOT_POSITIVE_DEFINITE: Failure(np.linalg.LinAlgError, "Matrix is not positive definite"),
    NOT_CONVERGED: Failure(np.linalg.LinAlgError, "SVD did not converge"),
    OUT_OF_MEMORY: Failure(MemoryError, "memory for temporaries could not be allocated"),
    EIGENVALUES_NOT_CONVERGED: Failure(np.linalg.LinAlgError, "Eigenvalues did not converge"),
    NO_SOLUTION: Failure(RuntimeError, "no solution was found"),
    STEP_LIMIT: Failure(StepLimitError, "a while_loop has not ended after max_steps steps"),
    NOT_FINITE: Failure(NonFiniteError, "a result is not finite"),
    NOT_SENT: Failure(RuntimeError, "MPI could not pass a message between processes"),
    NOT_ALL_FINITE: Failure(np.linalg.LinAlgError, "Array must not contain infs or NaNs"),
    # in SciPy's words
    SCHUR_NOT_FINITE: Failure(ValueError, "array must not contain infs or NaNs"),
    SCHUR_NOT_FOUND: Failure(
        np.linalg.LinAlgError, "Schur form not found. Possibly ill-conditioned."
    ),
    NEGATIVE_POWER: Failure(ValueError, "Integers to negative integer powers are not allowed."),
    ALL_NAN: Failure(ValueError, "All-NaN slice encountered"),
    INVALID_COORDINATES: Failure(ValueError, "invalid entry in coordinates array"),
    OUTSIDE_OF_SHAPE: Failure(ValueError, "an index is out of bounds for the shape given"),
}
"""Every status except 0 and `INTERRUPTED`."""
