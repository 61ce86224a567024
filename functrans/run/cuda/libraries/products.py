"""Matrix products by cuBLASLt: `gemm`, alone and for the matrices of a batch.

The library is asked once for the algorithm of a problem: its shapes, leading dimensions, strides
and how its matrices are aligned, which is what the answer depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrans.errors import DeviceError
from functrans.run.cuda.libraries.handles import Handles, Numbers, Owned, Workspace
from functrans.run.cuda.libraries.moves import fill

LARGEST_WORKSPACE = 32 << 20
"""Bytes that an algorithm may take: what NVIDIA advises for Hopper and later."""

ALIGNED = 256
"""No algorithm asks for more bytes, and memory of a pool begins at multiples of them."""


class Problem(NamedTuple):
    """What the choice of an algorithm depends on."""

    kind: str
    compute: str
    transpose_a: bool
    transpose_b: bool
    m: int
    n: int
    k: int
    leading: tuple[int, int, int]
    strides: tuple[int, int, int]
    batch: int
    alignments: tuple[int, int, int]


class Algorithm(NamedTuple):
    """A problem as the library has it, and how it is solved."""

    operation: Owned
    layouts: tuple[Owned, Owned, Owned]
    chosen: np.ndarray[Any, Any]
    workspace: int


def gemm(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """``C = alpha op(A) op(B) + beta C``."""
    flag_a, flag_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = arguments
    batched = (
        flag_a, flag_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, ldc * n, 1,
    )  # fmt: skip
    gemm_batch_strided(numbers, handles, workspace, batched)


def gemm_batch_strided(
    numbers: Numbers, handles: Handles, workspace: Workspace, arguments: Sequence[Any]
) -> None:
    """The same for matrices that lie so many elements apart: 0 for one that all have in common."""
    (
        flag_a, flag_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
        batch,
    ) = arguments  # fmt: skip
    if m == 0 or n == 0 or batch == 0:
        return
    if k == 0 or alpha == 0:
        for number in range(batch):
            _scale(numbers, handles, m, n, beta, c + number * stride_c * numbers.itemsize, ldc)
        return
    problem = Problem(
        numbers.kind, numbers.compute, flag_a != b"N", flag_b != b"N", m, n, k,
        (lda, ldb, ldc), (stride_a, stride_b, stride_c), batch,
        (_alignment(a), _alignment(b), _alignment(c)),
    )  # fmt: skip
    algorithm = handles.products.get(problem)
    if algorithm is None:
        algorithm = _algorithm(numbers, handles, problem)
        handles.products.remember(problem, algorithm)
    scales = np.array([alpha, beta], numbers.dtype)
    room = workspace(algorithm.workspace) if algorithm.workspace else 0
    layouts = [one.handle for one in algorithm.layouts]
    handles.libraries.cublas_lt.matmul(
        handles.light, algorithm.operation.handle,
        scales.ctypes.data, a, layouts[0], b, layouts[1],
        scales[1:].ctypes.data, c, layouts[2], c, layouts[2],
        algorithm.chosen["algo"].ctypes.data, room, algorithm.workspace, handles.stream,
    )  # fmt: skip


def _alignment(address: int) -> int:
    """The largest power of two that an address is a multiple of, as far as it matters."""
    return min(address & -address, ALIGNED)


def _scale(numbers: Numbers, handles: Handles, m: int, n: int, beta: Any, c: int, ldc: int) -> None:
    """``C = beta C``, which is not read for 0."""
    if beta == 0:
        fill(numbers, handles, m, n, 0, c, ldc)
    elif beta != 1:
        library, kind = handles.libraries.cublas, handles.kind(numbers)
        scale = np.array([beta], numbers.dtype)
        exact = handles.libraries.data_type[f"CUDA_R_{8 * numbers.dtype.itemsize}F"]
        for column in range(n):
            start = c + column * ldc * numbers.itemsize
            library.scal_ex_64(handles.blas, m, scale.ctypes.data, exact, start, kind, 1, exact)


def _algorithm(numbers: Numbers, handles: Handles, problem: Problem) -> Algorithm:
    """Describe a problem to the library, and have it choose."""
    m, n, k = problem.m, problem.n, problem.k
    operation = _operation(numbers, handles, problem)
    extents = (
        (k, m) if problem.transpose_a else (m, k),
        (n, k) if problem.transpose_b else (k, n),
        (m, n),
    )
    places = zip(extents, problem.leading, problem.strides, strict=True)
    first, second, result = (
        _layout(numbers, handles, rows, columns, leading, problem.batch, stride)
        for (rows, columns), leading, stride in places
    )
    layouts = first, second, result
    chosen = _choice(handles, problem, operation, layouts)
    return Algorithm(operation, layouts, chosen, int(chosen["workspace_size"][0]))


def _operation(numbers: Numbers, handles: Handles, problem: Problem) -> Owned:
    library, blas = handles.libraries.cublas_lt, handles.libraries.cublas
    scales = handles.libraries.data_type[f"CUDA_R_{8 * numbers.dtype.itemsize}F"]
    made = library.matmul_desc_create(blas.ComputeType[numbers.compute], scales)
    operation = handles.owned(made, library.matmul_desc_destroy)
    attributes, flags = library.MatmulDescAttribute, blas.Operation
    for attribute, turned in (
        (attributes.TRANSA, problem.transpose_a),
        (attributes.TRANSB, problem.transpose_b),
    ):
        flag = flags.T if turned else flags.N
        _set(library.matmul_desc_set_attribute, made, attribute, flag, np.int32)
    return operation


def _layout(
    numbers: Numbers, handles: Handles, rows: int, columns: int, leading: int, batch: int,
    stride: int,
) -> Owned:  # fmt: skip
    library = handles.libraries.cublas_lt
    made = library.matrix_layout_create(handles.kind(numbers), rows, columns, leading)
    layout = handles.owned(made, library.matrix_layout_destroy)
    attributes, set_one = library.MatrixLayoutAttribute, library.matrix_layout_set_attribute
    if batch > 1:
        _set(set_one, made, attributes.BATCH_COUNT, batch, np.int32)
        _set(set_one, made, attributes.STRIDED_BATCH_OFFSET, stride, np.int64)
    return layout


def _choice(
    handles: Handles, problem: Problem, operation: Owned, layouts: tuple[Owned, Owned, Owned]
) -> np.ndarray[Any, Any]:
    """What the library's heuristics put first."""
    library = handles.libraries.cublas_lt
    made = library.matmul_preference_create()
    preference = handles.owned(made, library.matmul_preference_destroy)
    attributes, set_one = library.MatmulPreferenceAttribute, library.matmul_preference_set_attribute
    _set(set_one, made, attributes.MAX_WORKSPACE_BYTES, LARGEST_WORKSPACE, np.uint64)
    # unless told otherwise, it takes all matrices to begin at multiples of 256 bytes
    for which, bytes_ in zip("ABCD", (*problem.alignments, problem.alignments[2]), strict=True):
        attribute = attributes[f"MIN_ALIGNMENT_{which}_BYTES"]
        _set(set_one, made, attribute, bytes_, np.uint32)
    found = np.zeros(1, library.matmul_heuristic_result_dtype)
    count = np.zeros(1, np.int32)
    first, second, result = (one.handle for one in layouts)
    library.matmul_algo_get_heuristic(
        handles.light, operation.handle, first, second, result, result, preference.handle,
        1, found.ctypes.data, count.ctypes.data,
    )  # fmt: skip
    if count[0] == 0:
        raise DeviceError(f"cuBLASLt has no algorithm for the product {problem}")
    return found


def _set(function: Any, handle: int, attribute: Any, value: int, dtype: Any) -> None:
    """Set an attribute, which is passed by its address and size."""
    word = np.array([value], dtype)
    function(handle, attribute, word.ctypes.data, word.nbytes)
