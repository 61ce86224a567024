"""Error replay: NumPy computes a failed call again, and says what the failure was about.

Machine code tells that an index was out of bounds, not which. NumPy's exception has the index and
the size, and the evaluation of a graph adds the line of the user's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Graph
from functrans.loop.failures import FAILURES
from functrans.run.call.ownership import own
from functrans.trace.floating_point import warning_users

COMPILED_CODES = (IndexError, np.linalg.LinAlgError, RuntimeError, ValueError)
"""The exceptions that say little when compiled code is their cause."""

_BRIEF = {(each.exception, each.message) for each in FAILURES.values()}


def by_numpy(graph: Graph, operands: Sequence[Any]) -> Sequence[Any]:
    """The results as compiled code gives them, computed by NumPy: its warnings and errors come."""
    values = [
        x if isinstance(x, (np.ndarray, np.generic)) else aval.dtype.type(x)
        for x, aval in zip(operands, graph.in_avals, strict=True)
    ]
    with warning_users():
        return own(evaluate(graph, values), values)


def explained(error: Exception, graph: Graph, operands: Sequence[Any]) -> Exception:
    """The exception that NumPy raises where compiled code gave a code; others as they are."""
    if (type(error), str(error)) not in _BRIEF:
        return error
    try:
        evaluate(graph, operands)
    except COMPILED_CODES as found:
        return found.with_traceback(None)
    except Exception:
        return error
    return error
