"""What is written out element by element is bounded for a whole program."""

import numpy as np

from functrans.ir.types import Aval
from functrans.loop.statements import For
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.select.unrolling import Unrolling
from functrans.trace.stage import rewrite
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
