"""Error replay: NumPy evaluates a failed call again, to raise a detailed exception.

Machine code reports that an index was out of bounds, but not which. NumPy's exception has the index
and the size, and the evaluation of a graph adds the line of the user's code.
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
"""The exceptions of compiled code, which lack details."""

_BRIEF = {(each.exception, each.message) for each in FAILURES.values()}


def by_numpy(graph: Graph, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of compiled code, computed by NumPy, with NumPy's warnings and errors."""
    values = [
        x if isinstance(x, (np.ndarray, np.generic)) else aval.dtype.type(x)
        for x, aval in zip(operands, graph.in_avals, strict=True)
    ]
    with warning_users():
        return own(evaluate(graph, values), values)


def explained(error: Exception, graph: Graph, operands: Sequence[Any]) -> Exception:
    """NumPy's exception in place of that of compiled code; other exceptions unchanged."""
    if (type(error), str(error)) not in _BRIEF:
        return error
    try:
        evaluate(graph, operands)
    except COMPILED_CODES as found:
        return found.with_traceback(None)
    except Exception:
        return error
    return error
