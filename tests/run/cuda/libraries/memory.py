"""Host memory in place of device memory, and cuBLAS's names of dtypes."""

import ctypes
import enum

import ml_dtypes
import numpy as np

from tests.run.cuda.libraries.record import written

RECORD = written()

DATA_TYPE = enum.IntEnum("cudaDataType", RECORD["cudaDataType"])
DTYPES = {
    DATA_TYPE.CUDA_R_16F: np.dtype(np.float16),
    DATA_TYPE.CUDA_R_16BF: np.dtype(ml_dtypes.bfloat16),
    DATA_TYPE.CUDA_R_32F: np.dtype(np.float32),
    DATA_TYPE.CUDA_R_64F: np.dtype(np.float64),
}
BY_LETTER = {"s": np.dtype(np.float32), "d": np.dtype(np.float64)}
HEURISTIC = np.dtype(
    [("algo", [("data_", "<u8", (8,))]), ("workspace_size", "<u8"), ("state", "<i4"),
     ("waves_count", "<f4"), ("reserved", "<i4", (4,))]
)  # fmt: skip


class Memory:
    """Host memory that plays a device's: blocks that end where others do not begin.

    New memory is NaN, as whatever is read too early should be.

    Parameters
    ----------
    anywhere : bool
        Whether memory that was allocated by others may be used too.
    """

    def __init__(self, anywhere=False):
        self.anywhere = anywhere
        self.blocks = {}

    def allocate(self, nbytes):
        assert isinstance(nbytes, int) and nbytes > 0
        whole = np.full(nbytes + 512, 0xFF, np.uint8)
        address = -(-whole.ctypes.data // 256) * 256
        self.blocks[address] = (nbytes, whole)
        return address

    def place(self, array, before=0):
        """Where a copy of an array's memory is, so many of its elements behind the alignment."""
        first = before * array.itemsize
        address = self.allocate(max(first + array.nbytes, 1)) + first
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
        return address

    def bytes(self, address, nbytes):
        inside = self.anywhere or any(
            start <= address and address + nbytes <= start + length
            for start, (length, _) in self.blocks.items()
        )
        assert inside, "this memory was not allocated"
        return np.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), np.uint8)

    def array(self, address, count, dtype):
        dtype = np.dtype(dtype)
        assert address % min(dtype.itemsize, 8) == 0, "misaligned"
        return self.bytes(address, count * dtype.itemsize).view(dtype)

    def matrix(self, address, rows, columns, leading, dtype):
        """A matrix that lies column by column."""
        assert leading >= max(1, rows), "a leading dimension is too small"
        span = (columns - 1) * leading + rows
        flat = self.array(address, span, dtype)
        strides = flat.itemsize, leading * flat.itemsize
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), strides)


def apart(result, *operands):
    """Hold that a result overlaps none of some operands."""
    assert not any(np.shares_memory(result, one) for one in operands), (
        "a result overlaps an operand"
    )
