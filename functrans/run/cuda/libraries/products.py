"""Matrix products by cuBLASLt: `gemm`, for single matrices and for stacks.

The library chooses the algorithm of a problem once: it depends on the shapes, leading dimensions
and strides, and on how the matrices are aligned. The descriptors that are passed with it are kept,
too, so that the next product of the same kind takes a look-up and a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import DeviceError
from functrans.records import NamedTuple
from functrans.run.cuda.libraries.handles import Handles, Owned, Work
from functrans.run.cuda.libraries.moves import fill

LARGEST_WORKSPACE = 32 << 20
"""The most bytes of an algorithm's workspace: NVIDIA's recommendation for Hopper and later."""

ALIGNED = 256
"""The largest alignment, in bytes, that an algorithm requires, and that of memory from a pool."""


class Problem(NamedTuple):
    """A product without the addresses of its matrices, but with their alignments in bytes."""

    kind: str
    narrow: str | None
    compute: str
    flag_a: bytes
    flag_b: bytes
    m: int
    n: int
    k: int
    alpha: float
    beta: float
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int
    batch: int
    aligned_a: int
    aligned_b: int
    aligned_c: int


class Algorithm(NamedTuple):
    """The algorithm of a problem: handles and addresses, and the objects that own these."""

    operation: int
    layouts: tuple[int, int, int]
    alpha: int
    beta: int
    chosen: int
    workspace: int
    alive: tuple[object, ...]


def gemm(on: Work, arguments: Sequence[Any]) -> None:
    """``C = alpha op(A) op(B) + beta C``."""
    flag_a, flag_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = arguments
    batched = (
        flag_a, flag_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, ldc * n, 1,
    )  # fmt: skip
    gemm_batch_strided(on, batched)


def gemm_batch_strided(on: Work, arguments: Sequence[Any]) -> None:
    """`gemm` for stacks of matrices at a distance in elements, which is 0 for a common matrix."""
    (
        flag_a, flag_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
        batch,
    ) = arguments  # fmt: skip
    if m == 0 or n == 0 or batch == 0:
        return
    if k == 0 or alpha == 0:
        for number in range(batch):
            _scale(on, m, n, beta, c + number * stride_c * on.size, ldc)
        return
    problem = (
        on.numbers.kind, on.numbers.narrow, on.numbers.compute, flag_a, flag_b, m, n, k,
        alpha, beta, lda, ldb, ldc, stride_a, stride_b, stride_c, batch,
        min(a & -a, ALIGNED), min(b & -b, ALIGNED), min(c & -c, ALIGNED),
    )  # fmt: skip
    known: Algorithm | None = on.handles.products.get(problem)
    if known is None:
        known = _algorithm(on, Problem(*problem))
        on.handles.products.remember(problem, known)
    room = on.workspace(known.workspace) if known.workspace else 0
    first, second, result = known.layouts
    on.handles.libraries.cublas_lt.matmul(
        on.handles.light, known.operation, known.alpha, a, first, b, second, known.beta, c, result,
        c, result, known.chosen, room, known.workspace, on.handles.stream,
    )  # fmt: skip


def _scale(on: Work, m: int, n: int, beta: Any, c: int, ldc: int) -> None:
    """``C = beta C``; ``C`` is not read if ``beta`` is 0."""
    if beta == 0:
        fill(on, m, n, 0, c, ldc)
    elif beta != 1:
        library, kind = on.handles.libraries.cublas, on.kind
        scale = np.array([beta], on.numbers.dtype)
        exact = on.handles.libraries.data_type[f"CUDA_R_{8 * on.numbers.dtype.itemsize}F"]
        for column in range(n):
            start = c + column * ldc * on.size
            library.scal_ex_64(on.handles.blas, m, scale.ctypes.data, exact, start, kind, 1, exact)


def _algorithm(on: Work, problem: Problem) -> Algorithm:
    """Describe a problem to the library, and have it choose."""
    m, n, k = problem.m, problem.n, problem.k
    operation = _operation(on, problem)
    given = on.numbers.narrow or on.numbers.kind
    layouts = (
        _layout(given, on.handles, problem, m, k, problem.flag_a, problem.lda, problem.stride_a),
        _layout(given, on.handles, problem, k, n, problem.flag_b, problem.ldb, problem.stride_b),
        _layout(on.numbers.kind, on.handles, problem, m, n, b"N", problem.ldc, problem.stride_c),
    )
    first, second, result = (one.handle for one in layouts)
    chosen = _choice(on.handles, problem, operation, (first, second, result))
    scales = np.array([problem.alpha, problem.beta], on.numbers.dtype)
    return Algorithm(
        operation.handle,
        (first, second, result),
        scales.ctypes.data,
        scales[1:].ctypes.data,
        chosen["algo"].ctypes.data,
        int(chosen["workspace_size"][0]),
        (operation, layouts, chosen, scales),
    )


def _operation(on: Work, problem: Problem) -> Owned:
    library, blas = on.handles.libraries.cublas_lt, on.handles.libraries.cublas
    scales = on.handles.libraries.data_type[f"CUDA_R_{8 * on.numbers.dtype.itemsize}F"]
    made = library.matmul_desc_create(blas.ComputeType[on.numbers.compute], scales)
    operation = on.handles.owned(made, library.matmul_desc_destroy)
    attributes, flags = library.MatmulDescAttribute, blas.Operation
    for attribute, flag in (
        (attributes.TRANSA, problem.flag_a),
        (attributes.TRANSB, problem.flag_b),
    ):
        turned = flags.N if flag == b"N" else flags.T
        _set(library.matmul_desc_set_attribute, made, attribute, turned, np.int32)
    return operation


def _layout(
    kind: str, handles: Handles, problem: Problem, rows: int, columns: int, flag: bytes,
    leading: int, stride: int,
) -> Owned:  # fmt: skip
    """The matrices of a batch as they are in memory, which may be their transposes."""
    library = handles.libraries.cublas_lt
    if flag != b"N":
        rows, columns = columns, rows
    made = library.matrix_layout_create(handles.libraries.data_type[kind], rows, columns, leading)
    layout = handles.owned(made, library.matrix_layout_destroy)
    attributes, set_one = library.MatrixLayoutAttribute, library.matrix_layout_set_attribute
    if problem.batch > 1:
        _set(set_one, made, attributes.BATCH_COUNT, problem.batch, np.int32)
        _set(set_one, made, attributes.STRIDED_BATCH_OFFSET, stride, np.int64)
    return layout


def _choice(
    handles: Handles, problem: Problem, operation: Owned, layouts: tuple[int, int, int]
) -> np.ndarray[Any, Any]:
    """The first choice of the library's heuristics."""
    library = handles.libraries.cublas_lt
    made = library.matmul_preference_create()
    preference = handles.owned(made, library.matmul_preference_destroy)
    attributes, set_one = library.MatmulPreferenceAttribute, library.matmul_preference_set_attribute
    _set(set_one, made, attributes.MAX_WORKSPACE_BYTES, LARGEST_WORKSPACE, np.uint64)
    # by default, it assumes that all matrices begin at multiples of 256 bytes
    for which, aligned in (
        ("A", problem.aligned_a),
        ("B", problem.aligned_b),
        ("C", problem.aligned_c),
        ("D", problem.aligned_c),
    ):
        _set(set_one, made, attributes[f"MIN_ALIGNMENT_{which}_BYTES"], aligned, np.uint32)
    found = np.zeros(1, library.matmul_heuristic_result_dtype)
    count = np.zeros(1, np.int32)
    first, second, result = layouts
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
