"""Makes one call in several ways (plain, traced, batched, compiled), and reports differences."""

import numpy as np

from functrans.ir.evaluate import evaluate
from functrans.ir.types import aval_of
from functrans.trace.stage import stage
from functrans.trace.tracer import Tracer

TOLERANCES = {"float16": 5e-3, "float32": 1e-5, "complex64": 1e-5}


def leaves(result):
    """The arrays in nested tuples and lists."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


NEWEST = np.lib.NumpyVersion(np.__version__) >= "2.4.0"

MENDED = {"np.linalg.cond(a, 'fro')|complex128[3, 3]"}
"""What older ones give in another dtype."""


def is_known(case):
    """Whether the installed NumPy takes what a case is about: some of it came after 2.1."""
    if NEWEST:
        return True
    if case.name in MENDED:
        return False
    try:
        case.call(*case.operands)
    except (AttributeError, TypeError):
        return False
    return True


def attempt(function, *arguments):
    """The results, or the exception."""
    try:
        return leaves(function(*arguments))
    except Exception as error:
        return error


def traced(function, operands, with_values):
    """The results of a function of tracers, computed from its graph."""
    results = []

    def run(*tracers):
        results.extend(leaves(function(*tracers)))
        return [r for r in results if isinstance(r, Tracer)]

    avals = [aval_of(x) for x in operands]
    staged = stage(run, avals, kind="test", values=operands if with_values else None)
    if with_values:
        found = iter([staged.value_of(atom) for atom in staged.graph.outputs])
    else:
        found = iter(evaluate(staged.graph, [*operands, *staged.captures]))
    return [next(found) if isinstance(r, Tracer) else r for r in results]


def difference(found, expected, signs=False):
    """What is wrong with results, or None; ``signs`` of zeros count if it is asked for."""
    if isinstance(found, Exception) or isinstance(expected, Exception):
        same = isinstance(found, Exception) and isinstance(expected, Exception)
        return None if same else f"found {found!r}, expected {expected!r}"
    for x, y in zip(found, expected, strict=True):
        if not isinstance(y, (np.ndarray, np.generic)):
            if x != y:
                return f"found {x!r}, expected {y!r}"
            continue
        x = np.asarray(x)
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"found {x.dtype}{x.shape}, expected {y.dtype}{y.shape}"
        tolerance = TOLERANCES.get(y.dtype.name, 1e-11)
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"found {x}, expected {y}"
        if (
            signs
            and y.dtype.kind == "f"
            and not np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))
        ):
            return f"found {x}, expected {y}: the signs of zeros"
    return None
