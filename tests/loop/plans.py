"""Running plans by the interpreter of the loop language."""

import ctypes

import numpy as np

from functrans.loop.walk import stored
from functrans.lower.plan import called
from functrans.run import blas
from tests.loop.evaluate import Memory, evaluate
from tests.loop.evaluate_grid import evaluate_grid


def gemm_batch_strided(arguments):
    """Products of matrices that lie so many elements apart, column by column."""
    arguments = [x if x.dtype == np.uint8 else x.reshape(-1) for x in arguments]
    flags = [bytes(flag) for flag in arguments[:2]]
    m, n, k, lda, apart_a, ldb, apart_b, ldc, apart_c, count = (
        int(arguments[i][0]) for i in (2, 3, 4, 7, 8, 10, 11, 14, 15, 16)
    )
    a, b, c = arguments[6], arguments[9], arguments[13]

    def matrix(array, start, rows, columns, leading):
        strides = (array.itemsize, leading * array.itemsize)
        return np.lib.stride_tricks.as_strided(array[start:], (rows, columns), strides)

    def operand(flag, array, start, rows, columns, leading):
        if flag == b"N":
            return matrix(array, start, rows, columns, leading)
        return matrix(array, start, columns, rows, leading).T

    for number in range(count):
        x = operand(flags[0], a, number * apart_a, m, k, lda)
        y = operand(flags[1], b, number * apart_b, k, n, ldb)
        wide = np.float32 if c.dtype == np.float16 else c.dtype
        matrix(c, number * apart_c, m, n, ldc)[...] = x.astype(wide) @ y.astype(wide)


def transform(symbol, arguments):
    """Fourier transforms along the middle axis of arrays, not scaled."""
    direction, *sizes = arguments[-6:-2] if len(arguments) == 6 else (b"", *arguments[:-2])
    outer, points, inner = (int(one[0]) for one in sizes)
    x, y = (one.reshape(-1) for one in arguments[-2:])
    whole, half = (outer, points, inner), (outer, points // 2 + 1, inner)

    def numbers(array, shape, is_complex):
        part = array[: np.prod(shape) * (1 + is_complex)]
        return (part.view(np.result_type(part, np.complex64)) if is_complex else part).reshape(
            shape
        )

    if symbol.endswith("irfft"):
        made = np.fft.irfft(numbers(x, half, True), points, axis=1, norm="forward")
        numbers(y, whole, False)[...] = made
    elif symbol.endswith("rfft"):
        numbers(y, half, True)[...] = np.fft.rfft(numbers(x, whole, False), axis=1)
    elif bytes(direction) == b"F":
        numbers(y, whole, True)[...] = np.fft.fft(numbers(x, whole, True), axis=1)
    else:
        numbers(y, whole, True)[...] = np.fft.ifft(numbers(x, whole, True), axis=1, norm="forward")


def call_routine(symbol, arguments):
    """Call a routine of BLAS or LAPACK, which takes everything by its address."""
    if symbol.endswith("fft"):
        transform(symbol, arguments)
        return
    if symbol.endswith("gemm_batch_strided"):
        gemm_batch_strided(arguments)
        return
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
    for one, (base, start) in plan.views.items():
        part = memory[base].array.reshape(-1)[start : start + one.count]
        memory[one] = Memory(part.reshape(one.extents), written=True)
    for one in plan.outputs:
        memory.setdefault(one, Memory(np.zeros(one.extents, one.dtype), written=False))
    arena = np.zeros(plan.arena, np.uint8)
    places = {one: (first, first + one.nbytes) for one, first in plan.offsets.items()}
    for one, (first, end) in places.items():
        assert end <= plan.arena
        array = arena[first:end].view(one.dtype).reshape(one.extents)
        memory[one] = Memory(array, written=False)
    status = 0
    for step, turns in called(plan.schedule, lambda one: bool(memory[one].array[()])):
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
