"""Primitives on a grid: planned, verified, and evaluated with blocks and threads in any order."""

import numpy as np

from functrans.ir.evaluate import evaluate as by_numpy
from functrans.ir.primitive import bind
from functrans.ir.types import aval_of
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import iterations
from functrans.trace.stage import rewrite
from tests.emit.cuda.programs import emulated, interpreted, machine_code
from tests.targets import target

SMALL = target(
    CUDA,
    grid={
        "warp": 2,
        "block": 4,
        "largest_team": 4,
        "shortest": 3,
        "iterations": 2,
        "busy": 6,
        "sort_registers": 4,
        "shared": 256,
        "crowded": 20,
        "updates": 8,
    },
    reductions={"blocks": 3, "few_iterations": 8, "long": 30},
    transforms={"long": 8, "short": 4, "largest_tile": 256},
)
"""A GPU for which small arrays are large."""

GRIDS = {"CUDA": CUDA, "small": SMALL}


def graph_of(primitive, *operands, **params):
    """A primitive, applied to operands of these types."""

    def run(*inputs):
        found = bind(primitive, inputs, params)
        return found if primitive.several else [found]

    return rewrite(run, [aval_of(np.asarray(x)) for x in operands])


def check(primitive, *operands, on=CUDA, seed=0, close=None, **params):
    """Assert that the plan of a primitive is right; gives what it computes.

    The results are NumPy's bit by bit, or as ``close`` as that.
    """
    graph = graph_of(primitive, *operands, **params)
    plan = pipeline.plan(graph, on)
    with np.errstate(all="ignore"):
        found = interpreted(plan, operands, seed)
        wanted = by_numpy(graph, operands)
    for x, y in zip(found, map(np.asarray, wanted), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if close is None:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=close, atol=close)
    return found


def threads(primitive, *operands, **params):
    """How many threads each kernel has, operands being given by their types alone."""
    plan = pipeline.plan(graph_of(primitive, *operands, **params), CUDA)
    return [iterations(step.kernel, step.sizes) * step.kernel.team for step in plan.steps]


def like(shape, dtype=np.float32):
    """An array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def emulate(primitive, *operands, close=0.0, **params):
    """Assert that the text of all kernels computes what NumPy does."""
    graph = graph_of(primitive, *operands, **params)
    found = emulated(pipeline.plan(graph, CUDA), operands)
    for x, y in zip(found, by_numpy(graph, operands), strict=True):
        np.testing.assert_allclose(x, y, rtol=close, atol=close)


def compile_all(primitive, *operands, **params):
    """Assert that all kernels become machine code, with nothing spilled."""
    for kernel in pipeline.plan(graph_of(primitive, *operands, **params), CUDA).kernels:
        machine_code(kernel)
