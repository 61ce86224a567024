"""Native stubs of MPI calls, which add a process's handles to arguments passed by address.

MPI is replaced by a few Python functions, with handles as in MPICH (ints) and Open MPI (addresses).
"""

import ctypes

import numpy as np
import pytest

from functrans.loop.messages import MAX, MIN, NOTHING, SUM, Message, message_of
from functrans.run.code import messages, routines

I32, PTR = ctypes.c_int, ctypes.c_void_p
COMM, TYPE, OP, RANK, NOBODY = 0x44000000, 0x4C00080B, 0x58000003, 3, -2


class Stub:
    """An MPI whose processes all have the same; it writes down what it is called with."""

    functions: dict[str, int]

    def __init__(self, handle):
        self.handle = {I32: "i32", PTR: "i64"}[handle]
        self.large = 0 if handle is I32 else 1 << 40
        self.status = np.zeros(8, np.int64)
        self.heard = []
        self.error = 0
        h = handle
        kinds = {
            "MPI_Allreduce": (PTR, PTR, I32, h, h, h),
            "MPI_Allgather": (PTR, I32, h, PTR, I32, h, h),
            "MPI_Reduce_scatter_block": (PTR, PTR, I32, h, h, h),
            "MPI_Alltoall": (PTR, I32, h, PTR, I32, h, h),
            "MPI_Sendrecv": (PTR, I32, h, I32, I32, PTR, I32, h, I32, I32, h, PTR),
        }
        self._held = {
            name: ctypes.CFUNCTYPE(I32, *types)(self.listener(name))
            for name, types in kinds.items()
        }
        self.functions = {
            name: ctypes.cast(function, PTR).value for name, function in self._held.items()
        }

    def listener(self, name):
        def hear(*arguments):
            self.heard.append((name, *arguments))
            return self.error

        return hear

    def words(self, message):
        handles = [self.large + each for each in (COMM, TYPE, OP)]
        return [*handles, RANK, NOBODY, self.status.ctypes.data]


@pytest.fixture(params=[I32, PTR], ids=["ints", "addresses"])
def stub(request):
    made = Stub(request.param)
    messages.enter(key_of(made), made)
    return made


def key_of(stub):
    return f"stub{id(stub):x}"


def called(stub, kind, *arguments, operation=NOTHING):
    """Call a message as compiled code does: everything by its address."""
    held = [x if isinstance(x, np.ndarray) else np.array(x, np.int32) for x in arguments]
    symbol = Message(kind, operation, "f8", key_of(stub)).symbol
    function = ctypes.CFUNCTYPE(None, *[PTR] * len(held))(routines.address(symbol))
    function(*(each.ctypes.data for each in held))
    return [each.ctypes.data for each in held]


def test_symbols():
    message = Message("allreduce", SUM, "f8", "0123456789abcdef")
    assert message_of(message.symbol) == message
    assert message_of("dgemm") is None
    assert routines.is_message(message.symbol)
    assert not routines.is_message("dgemm")


X, Y = np.zeros(6), np.zeros(6)


def handles(stub):
    return [stub.large + each for each in (COMM, TYPE, OP)]


def test_what_mpi_is_given(stub):
    comm, kind, op = handles(stub)
    status = np.ones(1, np.int32)
    x, y = X.ctypes.data, Y.ctypes.data
    called(stub, "allreduce", 6, 6, X, Y, status, operation=SUM)
    called(stub, "reducescatter", 2, 6, X, Y, status, operation=SUM)
    called(stub, "allgather", 2, 6, X, Y, status)
    called(stub, "alltoall", 3, 6, X, Y, status)
    assert stub.heard == [
        ("MPI_Allreduce", x, y, 6, kind, op, comm),
        ("MPI_Reduce_scatter_block", x, y, 2, kind, op, comm),
        ("MPI_Allgather", x, 2, kind, y, 2, kind, comm),
        ("MPI_Alltoall", x, 3, kind, y, 3, kind, comm),
    ]
    assert status[0] == 0


def test_one_that_sends_to_somebody_and_hears_from_nobody(stub):
    comm, kind, _ = handles(stub)
    called(stub, "sendrecv", 6, 6, X, Y, 1, -1, np.ones(1, np.int32))
    x, y, ignored = X.ctypes.data, Y.ctypes.data, stub.status.ctypes.data
    assert stub.heard == [("MPI_Sendrecv", x, 6, kind, 1, 0, y, 6, kind, NOBODY, 0, comm, ignored)]


def test_the_number_of_a_process(stub):
    number = np.zeros((), np.int64)
    called(stub, "rank", number)
    assert number == RANK


def test_an_error_is_in_the_status(stub):
    stub.error = 17
    status = np.zeros(1, np.int32)
    called(stub, "allreduce", 6, 6, X, Y, status, operation=SUM)
    assert status[0] == 17


def test_processes_that_nobody_has_connected():
    symbol = Message("allreduce", SUM, "f8", "nobody").symbol
    with pytest.raises(RuntimeError, match="along a mesh that this process has not made"):
        routines.address(symbol)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("operation", "ufunc"), [(MAX, np.maximum), (MIN, np.minimum)])
def test_extremes_are_those_of_numpy(operation, ufunc, dtype):
    one, other = np.random.default_rng(0).normal(size=(2, 20)).astype(dtype)
    one[:4], other[2:6] = np.nan, np.nan
    one[7:9], other[8:10] = np.inf, -np.inf
    expected = ufunc(one, other)
    code = f"f{one.itemsize}"
    function = ctypes.CFUNCTYPE(None, PTR, PTR, PTR, PTR)(messages.extreme(operation, code))
    length = np.array(len(one), np.int32)
    function(one.ctypes.data, other.ctypes.data, length.ctypes.data, None)
    np.testing.assert_array_equal(other, expected)
