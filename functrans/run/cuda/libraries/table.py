"""Dispatch of library calls: from the symbol of a `Call` to the function that does it on a GPU.

A symbol is a letter for the dtype and a routine of BLAS or LAPACK, as on the CPU, whose arguments
are in the order of its documentation. Further symbols are `gemm` for ``float16`` (``h``) and
``bfloat16`` (``b``), summed in ``float32``, which is also the dtype of ``alpha`` and ``beta``, and
of the result if an ``s`` precedes the letter (``sbgemm``, as in OpenBLAS); ``gemm_batch_strided``,
with the arguments of `gemm`, a stride after each leading dimension and the number of products at
the end; and the Fourier transforms of `functrans.run.cuda.libraries.fourier`.

An argument is an address on the device (of an element, not of its buffer), a number, or a flag as
``bytes``. The function that `adapter` returns takes `Handles`, a `Workspace` and these arguments,
and puts all of its work on the stream of the handles. It does not wait, unless cuSOLVER does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans import config
from functrans.run.cuda.libraries import factors, fourier, moves, products, spectra, triangles
from functrans.run.cuda.libraries.factors import Routine
from functrans.run.cuda.libraries.handles import Handles, Numbers, Work, Workspace

Adapter = Callable[[Handles, Workspace, Sequence[Any]], None]

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

NUMBERS = {
    one.letter: one
    for one in (
        Numbers("s", FLOAT, 4, "CUDA_R_32F", "COMPUTE_32F"),
        Numbers("d", DOUBLE, 8, "CUDA_R_64F", "COMPUTE_64F"),
        Numbers("h", FLOAT, 2, "CUDA_R_16F", "COMPUTE_32F"),
        Numbers("b", FLOAT, 2, "CUDA_R_16BF", "COMPUTE_32F"),
        Numbers("sh", FLOAT, 4, "CUDA_R_32F", "COMPUTE_32F", narrow="CUDA_R_16F"),
        Numbers("sb", FLOAT, 4, "CUDA_R_32F", "COMPUTE_32F", narrow="CUDA_R_16BF"),
        Numbers("c", FLOAT, 8, "CUDA_C_32F", "COMPUTE_32F"),
        Numbers("z", DOUBLE, 16, "CUDA_C_64F", "COMPUTE_64F"),
    )
}
"""The dtypes, by the letters that symbols begin with."""

TF32 = NUMBERS["s"]._replace(compute="COMPUTE_32F_FAST_TF32")
"""float32 whose factors are rounded to fractions of 10 bits, for tensor cores."""

_PRODUCTS = products.gemm, products.gemm_batch_strided
_BY_LETTERS: Mapping[tuple[str, ...], tuple[Routine, ...]] = {
    ("h", "b", "sh", "sb"): _PRODUCTS,
    ("s", "d"): (
        *_PRODUCTS,
        triangles.trsm, triangles.trsv, moves.lacpy, moves.laset,
        factors.potrf, factors.getrf, factors.getrs, factors.getri,
        factors.geqrf, factors.orgqr,
        spectra.syevd, spectra.gesdd, fourier.rfft, fourier.irfft,
    ),
    ("c", "z"): (fourier.fft,),
}  # fmt: skip

_ROUTINES = {
    letters + routine.__name__: (NUMBERS[letters], routine)
    for all_letters, routines in _BY_LETTERS.items()
    for routine in routines
    for letters in all_letters
}
"""The adapters, by their symbols: each function has the name of the routine that it calls."""

_NOT_CAPTURED = tuple(module.__name__ for module in (factors, spectra, fourier))
"""The modules whose routines are not captured: cuSOLVER does not promise to leave all work to the
stream, and cuFFT's workspace may be as large as its operand.
"""


def symbols() -> tuple[str, ...]:
    """All symbols that have an adapter."""
    return tuple(_ROUTINES)


def has(symbol: str) -> bool:
    """Whether a library has the routine of a symbol on a GPU."""
    return symbol in _ROUTINES


def capturable(symbol: str) -> bool:
    """Whether the call of a symbol may be part of a CUDA graph, under `Handles.captured`."""
    return symbol in _ROUTINES and _ROUTINES[symbol][1].__module__ not in _NOT_CAPTURED


def adapter(symbol: str) -> Adapter:
    """The adapter of a symbol, with the precision that `config.matmul_precision` has now.

    Raises `KeyError` if the symbol has no adapter, as `has` tells.
    """
    numbers, routine = _ROUTINES[symbol]
    if numbers is NUMBERS["s"] and config.matmul_precision == "tf32":
        numbers = TF32
    return partial(_called, numbers, routine)


def _called(
    numbers: Numbers, routine: Routine, handles: Handles, workspace: Workspace,
    arguments: Sequence[Any],
) -> None:  # fmt: skip
    routine(Work(numbers, handles, workspace), arguments)
