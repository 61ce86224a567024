"""Running plans by the interpreter of the loop language."""

import ctypes

import numpy as np

from functrans.loop.evaluate import Memory, evaluate
from functrans.loop.evaluate_grid import evaluate_grid
from functrans.loop.walk import stored
from functrans.lower.plan import called
from functrans.run.foreign import blas


def call_routine(symbol, arguments):
    """Call a routine of BLAS or LAPACK, which takes everything by its address."""
    kinds = [ctypes.c_void_p] * len(arguments)
    routine = ctypes.CFUNCTYPE(None, *kinds)(blas.address(symbol))
    routine(*(array.ctypes.data for array in arguments))


def shuffled(seed):
    """An order for bands of parallel loops, another one for each kernel."""
    rng = np.random.default_rng(seed)
    return rng.permutation


def evaluate_plan(plan, operands, order=range):
    """The results of a plan for some operands, and its status.

    Memory begins unwritten. Temporaries are where the plan puts them: what is written to one is
    lost for those that share its place.
    """
    memory = {
        one: Memory(np.array(value, one.dtype, order="C"), written=True)
        for one, value in zip(plan.inputs, operands, strict=True)
    }
    for one in plan.outputs:
        memory.setdefault(one, Memory(np.zeros(one.extents, one.dtype), written=False))
    arena = np.zeros(plan.arena, np.uint8)
    places = {one: (first, first + one.nbytes) for one, first in plan.offsets.items()}
    for one, (first, end) in places.items():
        assert end <= plan.arena
        array = arena[first:end].view(one.dtype).reshape(one.extents)
        memory[one] = Memory(array, written=False)
    status = 0
    for step, turns in called(plan.schedule):
        own = dict(zip(step.kernel.buffers, step.buffers, strict=True))
        changed = [own[each] for each in stored(step.kernel.body) if own.get(each) in places]
        for one in changed:
            for other, (first, end) in places.items():
                if other is not one and first < places[one][1] and places[one][0] < end:
                    memory[other].written[...] = False
        given = [memory[one] for one in step.buffers]
        sizes = (*step.sizes, *turns)
        if step.kernel.team:
            status = evaluate_grid(step.kernel, given, sizes, order) or status
        else:
            status = evaluate(step.kernel, given, sizes, call_routine, order) or status
    assert all(memory[one].written.all() for one in plan.outputs)
    return [memory[one].array for one in plan.outputs], status
