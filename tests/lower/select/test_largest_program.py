"""The bound on the number of unrolled elements of a whole program."""

import numpy as np
import pytest

from functrans.ir.types import Aval
from functrans.loop.statements import For
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.select.root import extent_of
from functrans.lower.select.unrolling import Unrolling
from functrans.trace.stage import rewrite
from tests.benchmarks.models import bundle_blocks
from tests.benchmarks.one import functrans_library
from tests.targets import target as made_up


def _loops(largest):
    """How many loops there are in a program of three small arrays, each made of the last one."""

    def program(x):
        for _ in range(3):
            x = np.sin(x) @ x
        return (x,)

    graph = rewrite(program, [Aval((2, 2), np.dtype(np.float64))])
    target = made_up(CPU, unrolling={"largest_program": largest})
    plan = pipeline.plan(graph, target, ())
    return sum(isinstance(each, For) for kernel in plan.kernels for each in walk(kernel.body))


def test_small_arrays_are_loops_where_the_program_is_large():
    assert _loops(CPU[Unrolling].largest_program) == 0
    assert _loops(0) >= 6


@pytest.mark.dear
def test_zeros_and_ones_of_a_jacobian_are_not_counted_as_operations():
    """Blocks of 2 by 12, most of whose tangents are constants: all of it stays in registers."""
    library, compiled, _ = functrans_library()
    job = bundle_blocks(300)(library)
    call = compiled(job.function)
    assert call.lower(*job.arguments).cost().temporary_bytes == 0
    p, seen = job.arguments
    found = call(p, seen)
    for column in range(12):
        step = np.zeros(12)
        step[column] = 1e-6
        slope = (job.primal(p + step, seen) - job.primal(p - step, seen)) / 2e-6
        np.testing.assert_allclose(found[:, :, column], slope, rtol=1e-6, atol=1e-7)


def _longest_vectors(windows, width):
    """The longest loop with vectors of what spreads numbers over windows, times something else."""

    def spread(means, x):
        each = np.broadcast_to(means[:, :, None], (*means.shape, width))
        return (np.reshape(each, x.shape) * np.tanh(x),)

    avals = [Aval((40, n), np.dtype(np.float32)) for n in (windows, windows * width)]
    target = made_up(CPU, unrolling={"largest_program": 0})
    kernels = pipeline.plan(rewrite(spread, avals), target, ()).kernels
    loops = (each for kernel in kernels for each in walk(kernel.body) if isinstance(each, For))
    return max(extent_of(each.index) for each in loops if each.lanes > 1)


def test_vectors_are_not_as_short_as_windows_where_the_program_is_large():
    for windows, width in ((12, 2), (17, 3), (33, 4)):
        assert _longest_vectors(windows, width) == windows
    # where windows are as few as a row of them is long, or these fill a vector, nothing is gained
    assert _longest_vectors(17, 8) == 8
    assert _longest_vectors(3, 3) == 3
