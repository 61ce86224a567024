"""Compiled collectives call MPI: here a stub of a few Python functions, for one process of two.

The other process is assumed to have sent the same data. `tests/distributed` has real processes.
"""

import ctypes
from typing import NamedTuple

import numpy as np
import pytest

from functrans import jit
from functrans.loop.messages import message_of
from functrans.ops.arrays.structural import made
from functrans.ops.collectives.collectives import (
    all_gather,
    all_to_all,
    lane_number,
    own_part,
    pmax,
    ppermute,
    psum,
    psum_scatter,
)
from functrans.run.code import messages

I32, PTR = ctypes.c_int, ctypes.c_void_p
RANK, NOBODY = 1, -5


class Twin:
    """Functions of MPI's for a process whose twin sends the same; elements are float64."""

    handle = "i32"

    def __init__(self):
        self.error, self.calls = 0, []
        p, i = PTR, I32
        kinds = {
            "MPI_Allreduce": (p, p, i, i, i, i),
            "MPI_Allgather": (p, i, i, p, i, i, i),
            "MPI_Reduce_scatter_block": (p, p, i, i, i, i),
            "MPI_Alltoall": (p, i, i, p, i, i, i),
            "MPI_Sendrecv": (p, i, i, i, i, p, i, i, i, i, i, p),
        }
        self._held = {
            name: ctypes.CFUNCTYPE(I32, *types)(self.heard(name)) for name, types in kinds.items()
        }
        self.functions = {name: ctypes.cast(f, PTR).value for name, f in self._held.items()}

    def words(self, message):
        return [0, 0, {"sum": 0, "max": 1, "none": 2}[message.operation], RANK, NOBODY, 0]

    def heard(self, name):
        def call(*arguments):
            self.calls.append(name)
            getattr(self, name)(*arguments)
            return self.error

        return call

    def MPI_Allreduce(self, x, out, n, kind, op, comm):
        at(out, n)[:] = at(x, n) * (2 if op == 0 else 1)

    def MPI_Allgather(self, x, n, kind, out, m, kind2, comm):
        at(out, 2 * m)[:] = np.tile(at(x, n), 2)

    def MPI_Reduce_scatter_block(self, x, out, n, kind, op, comm):
        at(out, n)[:] = 2 * at(x, 2 * n)[RANK * n :]

    def MPI_Alltoall(self, x, n, kind, out, m, kind2, comm):
        at(out, 2 * m)[:] = np.tile(at(x, 2 * n)[RANK * n :], 2)

    def MPI_Sendrecv(self, x, n, kind, to, tag, out, m, kind2, sender, tag2, comm, status):
        self.calls[-1] = f"to {to} from {sender}"
        if sender != NOBODY:
            at(out, m)[:] = at(x, n)


def at(address, count):
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))


TWIN = Twin()
messages.enter("twin", TWIN)


class Engine(NamedTuple):
    """What a mesh has for an axis of it."""

    key: str | None = "twin"

    def psum(self, x):
        return x * 2


ALONG = {"name": "i", "size": 2, "engine": Engine()}


@pytest.fixture(autouse=True)
def nothing_was_called():
    TWIN.error = 0
    TWIN.calls.clear()


def number():
    return made(lane_number, **ALONG, dtype=np.dtype(np.int64))


X = np.random.default_rng(0).normal(size=(2, 3, 2))
TWICE = np.stack([X, X])
CASES = {
    "psum": (lambda x: psum(x, number(), **ALONG), 2 * X),
    "pmax": (lambda x: pmax(x, number(), **ALONG), X),
    "all_gather": (lambda x: all_gather(x, number(), axis=0, **ALONG), TWICE),
    "all_gather 2": (lambda x: all_gather(x, number(), axis=2, **ALONG), np.stack([X, X], 2)),
    "psum_scatter": (lambda x: psum_scatter(x, number(), axis=0, **ALONG), 2 * X[1]),
    "psum_scatter 2": (lambda x: psum_scatter(x, number(), axis=2, **ALONG), 2 * X[:, :, 1]),
    "all_to_all": (lambda x: all_to_all(x, number(), axis=0, **ALONG), X[[1, 1]]),
    "all_to_all 2": (lambda x: all_to_all(x, number(), axis=2, **ALONG), X[:, :, [1, 1]]),
    "own_part": (lambda x: own_part(x, number(), axis=2, **ALONG), X[:, :, 1]),
    "swap": (lambda x: ppermute(x, number(), moves=((0, 1), (1, 0)), **ALONG), X),
    "to nobody": (lambda x: ppermute(x, number(), moves=((0, 1),), **ALONG), X),
    "from nobody": (lambda x: ppermute(x, number(), moves=((1, 0),), **ALONG), 0 * X),
}


@pytest.mark.parametrize("name", CASES)
def test_a_collective_is_a_call_of_mpi(name):
    function, expected = CASES[name]
    np.testing.assert_array_equal(jit(function)(X), expected)
    assert len(TWIN.calls) == (name != "own_part")
    assert "call NumPy" not in jit(function).lower(X).schedule()


def test_whom_a_process_sends_to_and_hears_from():
    for name, heard in (("swap", "to 0 from 0"), ("to nobody", "to -5 from 0")):
        jit(CASES[name][0])(X)
        assert TWIN.calls.pop() == heard


def test_arrays_without_elements_are_not_sent():
    assert jit(CASES["psum"][0])(np.zeros((0, 3))).shape == (0, 3)
    assert jit(CASES["all_gather"][0])(np.zeros((0, 3))).shape == (2, 0, 3)
    assert not TWIN.calls


def test_a_message_that_fails_is_an_error():
    f = jit(CASES["psum"][0])
    f(X)
    TWIN.error = 3
    with pytest.raises(RuntimeError, match="MPI could not pass a message between processes"):
        f(X)
    TWIN.error = 0
    np.testing.assert_array_equal(f(X), 2 * X)


def test_an_engine_that_code_cannot_call_is_called_by_python():
    along = {**ALONG, "engine": Engine(None)}
    f = jit(lambda x: psum(x, 0, **along) + 1)
    np.testing.assert_array_equal(f(X), 2 * X + 1)
    assert not TWIN.calls
    assert "call NumPy" in f.lower(X).schedule()


def test_the_symbol_says_all_that_is_sent():
    program = jit(CASES["pmax"][0]).lower(np.zeros(3, np.int16)).source()
    (symbol,) = {word.partition("(")[0] for word in program.split() if "mpi_allreduce" in word}
    assert message_of(symbol) == ("allreduce", "max", "i2", "twin")
