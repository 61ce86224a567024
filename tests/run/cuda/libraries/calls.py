"""Calls of routines with one set of arguments: by Fortran on host memory, and by the adapters."""

from dataclasses import dataclass

import numpy as np

from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.libraries.table import adapter
from tests.loop.plans import call_routine
from tests.run.cuda.libraries.stub import Machine

LETTERS = {"s": np.float32, "d": np.float64}
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}


@dataclass
class At:
    """Memory from one of its elements on, as an argument."""

    array: np.ndarray
    first: int = 0


def column_major(matrix, leading, first=0, rng=None):
    """Memory that holds a matrix column by column, with other numbers around it."""
    rows, columns = matrix.shape
    rng = rng or np.random.default_rng(7)
    memory = rng.normal(size=first + leading * columns + 3).astype(matrix.dtype)
    body = memory[first : first + leading * columns].reshape(columns, leading)
    body[:, :rows] = matrix.T
    return At(memory, first)


def by_fortran(symbol, arguments):
    """The memory of the addresses among the arguments after the call."""
    kept, passed = [], []
    for one in arguments:
        if isinstance(one, At):
            kept.append(one.array.copy())
            passed.append(kept[-1][one.first :])
        elif isinstance(one, bytes):
            passed.append(np.frombuffer(one, np.uint8))
        elif isinstance(one, int):
            passed.append(np.array([one], np.int32))
        else:
            passed.append(np.array([one], LETTERS[symbol[0]]))
    call_routine(symbol, passed)
    return kept


def by_library(symbol, arguments, machine=None):
    """The same by an adapter."""
    machine = machine or Machine()
    memory = machine.memory
    places, passed = [], []
    for one in arguments:
        if isinstance(one, At):
            # another buffer might begin at any element of the arena that is aligned
            address = memory.place(one.array)
            places.append((address, one.array))
            passed.append(address + one.first * one.array.itemsize)
        else:
            passed.append(one)
    handles = handles_for(machine.stream, machine.bindings)
    adapter(symbol)(handles, memory.allocate, passed)
    return [memory.array(at, like.size, like.dtype).copy() for at, like in places]


def agree(symbol, arguments, but=()):
    """Whatever is in memory is the same after both, except in some of the arguments."""
    expected, found = by_fortran(symbol, arguments), by_library(symbol, arguments)
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if number in but:
            continue
        tolerance = TOLERANCE.get(one.dtype, 0)
        np.testing.assert_allclose(
            other, one, rtol=tolerance, atol=20 * tolerance, err_msg=f"{symbol}, memory {number}"
        )
    return found
