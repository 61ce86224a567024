"""Programs for a grid: planned, run by two interpreters (of plans, of texts), and compiled."""

import numpy as np

from functrans import jit
from functrans.emit.cuda.kernel import emit
from functrans.emit.printer import in_memory
from functrans.loop.scalar import BOOL
from functrans.lower import pipeline
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import called, iterations
from functrans.lower.verify import verify
from functrans.run.cuda import launches
from tests.emit.cuda.emulator import emulate
from tests.loop.plans import evaluate_plan, shuffled


def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def normed(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def plan(function, *operands, machine=CUDA):
    """The plan of a function that uses nothing from outside."""
    return pipeline.plan(jit(function).lower(*operands).graph(), machine)


def interpreted(made, operands, seed=0):
    """The results of a plan: verified, and done by the interpreter with threads in any order."""
    assert verify(made) == 0
    found, status = evaluate_plan(made, operands, shuffled(seed))
    assert status == 0
    return found


def emulated(made, operands, grid=CUDA.grid):
    """The results of a plan, whose kernels' text is emulated."""
    found, status = emulate_plan(made, operands, grid)
    assert status == 0
    return found


def in_both_ways(made, operands, grid=CUDA.grid, seed=0):
    """The results of a plan, interpreted and emulated."""
    return interpreted(made, operands, seed), emulated(made, operands, grid)


def machine_code(kernel, grid=CUDA.grid, architecture="sm_90", spills=0):
    """A kernel as it is launched: without more spills than so, and with room in shared memory."""
    made = launches.compiled(kernel, grid, architecture).cubin
    assert made.resources.spills <= spills
    assert made.resources.shared <= grid.shared
    return made


def in_registers(kernel, architecture="sm_90", stack=0):
    """A kernel as it is launched: but for so many bytes, a thread's numbers are in registers."""
    made = machine_code(kernel, architecture=architecture, spills=2 * stack)
    assert made.resources.stack <= stack
    assert ".local" not in made.ptx
    return made


def stored_as(dtype):
    """The dtype of the numbers in memory: a byte for a bool, bits for half floats."""
    return np.dtype(np.uint8) if dtype == BOOL else in_memory(dtype)


def emulate_plan(plan, operands, grid=CUDA.grid, seed=0, run=emulate):
    """The results of a plan for some operands, and its status.

    Memory that nobody has written may not be read; what is written to a temporary destroys those
    that share its place.
    """
    arrays, written = {}, {}
    for one, value in zip(plan.inputs, operands, strict=True):
        arrays[one] = np.array(value, one.dtype, order="C").reshape(-1).view(stored_as(one.dtype))
        written[one] = np.ones(one.count, bool)
    for one in (*plan.outputs, *plan.offsets):
        if one not in arrays:
            arrays[one] = np.zeros(one.count, stored_as(one.dtype))
            written[one] = np.zeros(one.count, bool)
    flag = np.zeros(1, np.int64)
    for step, turns in called(plan.schedule):
        kernel = step.kernel
        shape = launch(kernel, grid)
        count = iterations(kernel, step.sizes)
        if not count:
            continue
        given = [flag, *(arrays[one] for one in step.buffers), *step.sizes, *turns]
        known = {number: written[one] for number, one in enumerate(step.buffers, 1)}
        before = {one: written[one].copy() for one in step.buffers}
        blocks = shape.blocks(count)
        run(emit(kernel, grid), given, blocks, shape.threads, seed, known, shape.shared)
        for one in step.buffers:
            if one in plan.offsets and not np.array_equal(before[one], written[one]):
                _destroy(plan, one, written)
    assert all(written[one].all() for one in plan.outputs)
    return [arrays[one].view(one.dtype).reshape(one.extents) for one in plan.outputs], int(flag[0])


def _destroy(plan, changed, written):
    first, end = plan.offsets[changed], plan.offsets[changed] + changed.nbytes
    for other, start in plan.offsets.items():
        if other is not changed and start < end and first < start + other.nbytes:
            written[other][:] = False
