"""Running plans by the interpreter of the loop language."""

import ctypes

import numpy as np

from functrans.loop.evaluate import Memory, evaluate
from functrans.run.foreign import blas


def call_routine(symbol, arguments):
    """Call a routine of BLAS or LAPACK, which takes everything by its address."""
    kinds = [ctypes.c_void_p] * len(arguments)
    routine = ctypes.CFUNCTYPE(None, *kinds)(blas.address(symbol))
    routine(*(array.ctypes.data for array in arguments))


def evaluate_plan(plan, operands, order=range):
    """The results of a plan for some operands, and its status; memory begins unwritten."""
    shape_of = {one: [int(n.attribute) for n in one.shape] for one in (*plan.inputs, *plan.outputs)}
    memory = {
        one: Memory(np.array(value, one.dtype, order="C"), written=True)
        for one, value in zip(plan.inputs, operands, strict=True)
    }
    for one in (*plan.outputs, *plan.offsets):
        shape = shape_of.get(one) or [int(n.attribute) for n in one.shape]
        memory.setdefault(one, Memory(np.zeros(shape, one.dtype), written=False))
    status = 0
    for step in plan.steps:
        given = [memory[one] for one in step.buffers]
        status = evaluate(step.kernel, given, step.sizes, call_routine, order) or status
    assert all(memory[one].written.all() for one in plan.outputs)
    return [memory[one].array for one in plan.outputs], status
