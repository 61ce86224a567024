"""Plans for a grid, run by emulating the text of their kernels."""

import numpy as np

from functrans.emit.cuda.kernel import emit
from functrans.emit.printer import in_memory
from functrans.loop.scalar import BOOL
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import called, iterations
from tests.emit.cuda.emulator import emulate


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
        run(emit(kernel, grid), given, shape.blocks(count), shape.threads, seed, known)
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
