"""Filling, copying and transposing matrices, by the driver's memory commands and by cuBLAS.

Matrices are stored by columns, whose distance is ``leading`` elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.run.cuda.libraries.bindings import checked
from functrans.run.cuda.libraries.handles import Handles, Work

WORD = 4
"""The size in bytes of the words that memory is set to."""

LARGEST_PITCH = (1 << 31) - 1
"""The greatest pitch: rows of one command on memory are at most this many bytes apart."""


def lacpy(on: Work, arguments: Sequence[Any]) -> None:
    """Copy a matrix, or one of its triangles with the diagonal."""
    uplo, m, n, a, lda, b, ldb = arguments
    if uplo not in (b"U", b"L"):
        copy(on, m, n, a, lda, b, ldb)
        return
    order = min(m, n)
    if order == 0:
        return
    library = on.handles.libraries.cublas
    packed = on.room(order * (order + 1) // 2)
    part = fill_mode(on.handles, uplo)
    pack = on.routine(library, "trttp")
    pack(on.handles.blas, part, order, a, lda, packed)
    unpack = on.routine(library, "tpttr")
    unpack(on.handles.blas, part, order, packed, b, ldb)
    rows, columns, row, column = _rest(uplo, m, n)
    beyond_a = a + (row + column * lda) * on.size
    beyond_b = b + (row + column * ldb) * on.size
    copy(on, rows, columns, beyond_a, lda, beyond_b, ldb)


def laset(on: Work, arguments: Sequence[Any]) -> None:
    """Set a matrix, or one of its triangles, to one number, and the diagonal to another."""
    uplo, m, n, others, diagonal, a, lda = arguments
    order = min(m, n)
    if order == 0:
        return
    if uplo not in (b"U", b"L"):
        fill(on, m, n, others, a, lda)
    else:
        count = order * (order + 1) // 2
        packed = on.room(count)
        fill(on, count, 1, others, packed, count)
        unpack = on.routine(on.handles.libraries.cublas, "tpttr")
        unpack(on.handles.blas, fill_mode(on.handles, uplo), order, packed, a, lda)
        rows, columns, row, column = _rest(uplo, m, n)
        beyond = a + (row + column * lda) * on.size
        fill(on, rows, columns, others, beyond, lda)
    fill(on, 1, order, diagonal, a, lda + 1)


def _rest(uplo: bytes, m: int, n: int) -> tuple[int, int, int, int]:
    """The remainder of a trapezoid besides its square triangle: extents, and where it begins."""
    return (m, max(n - m, 0), 0, m) if uplo == b"U" else (max(m - n, 0), n, n, 0)


def fill_mode(handles: Handles, uplo: bytes) -> Any:
    """The triangle of a flag, ``U`` or ``L``."""
    mode = handles.libraries.cublas.FillMode
    return mode.UPPER if uplo == b"U" else mode.LOWER


def fill(on: Work, rows: int, columns: int, value: Any, a: int, leading: int) -> None:
    """Set the elements of a matrix to a number."""
    if rows == 0 or columns == 0:
        return
    if leading == rows:
        rows, columns, leading = rows * columns, 1, rows * columns
    words = np.array([value], on.numbers.dtype).view(np.uint32).tolist()
    size = on.size
    if len(set(words)) == 1:
        _set_words(on.handles, a, leading * size, words[0], rows * len(words), columns)
        return
    if rows == 1:
        lines = [(a, leading, columns)]
    else:
        lines = [(a + j * leading * size, 1, rows) for j in range(columns)]
    for start, apart, count in lines:
        for i, word in enumerate(words):
            _set_words(on.handles, start + i * WORD, apart * size, word, 1, count)


def succeed(handles: Handles, info: int) -> None:
    """Write an ``info`` of 0, LAPACK's sign of success."""
    _set_words(handles, info, WORD, 0, 1, 1)


def clear_words(handles: Handles, address: int, pitch: int, width: int, height: int) -> None:
    """Set ``height`` times ``width`` words to 0, which begin ``pitch`` bytes apart."""
    if width and height:
        _set_words(handles, address, pitch, 0, width, height)


def _set_words(
    handles: Handles, address: int, pitch: int, word: int, width: int, height: int
) -> None:
    driver = handles.libraries.driver
    if height > 1 and pitch > LARGEST_PITCH:
        for row in range(height):
            _set_words(handles, address + row * pitch, pitch, word, width, 1)
    elif height == 1:
        checked(driver.cuMemsetD32Async(address, word, width, handles.stream))
    else:
        checked(driver.cuMemsetD2D32Async(address, pitch, word, width, height, handles.stream))


def copy(on: Work, m: int, n: int, a: int, lda: int, b: int, ldb: int) -> None:
    """Copy a matrix."""
    if m == 0 or n == 0:
        return
    driver, size = on.handles.libraries.driver, on.size
    if n == 1 or lda == ldb == m:
        checked(driver.cuMemcpyDtoDAsync(b, a, m * n * size, on.handles.stream))
        return
    if max(lda, ldb) * size > LARGEST_PITCH:
        for j in range(n):
            copy(on, m, 1, a + j * lda * size, lda, b + j * ldb * size, ldb)
        return
    command = driver.CUDA_MEMCPY2D()
    command.srcMemoryType = command.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    command.srcDevice, command.srcPitch = a, lda * size
    command.dstDevice, command.dstPitch = b, ldb * size
    command.WidthInBytes, command.Height = m * size, n
    checked(driver.cuMemcpy2DAsync(command, on.handles.stream))


def transpose(on: Work, m: int, n: int, a: int, lda: int, b: int, ldb: int) -> None:
    """Make ``b`` the transpose of the ``m`` times ``n`` matrix ``a``."""
    if m == 0 or n == 0:
        return
    library = on.handles.libraries.cublas
    one, zero = np.ones(1, on.numbers.dtype), np.zeros(1, on.numbers.dtype)
    turned, same = library.Operation.T, library.Operation.N
    add = on.routine(library, "geam_64")
    # the second matrix is multiplied by 0, and may be the result itself
    add(
        on.handles.blas, turned, same, n, m, one.ctypes.data, a, lda,
        zero.ctypes.data, b, ldb, b, ldb,
    )  # fmt: skip
