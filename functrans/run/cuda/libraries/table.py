"""Which library does what: from the symbol of a `Call` to the function that does it on a GPU.

A symbol is a letter for the dtype and a routine of BLAS or LAPACK, as on the CPU, whose arguments
are in the order of its documentation. To these come `gemm` for ``float16`` (``h``) and ``bfloat16``
(``b``), summed in ``float32``, which their ``alpha`` and ``beta`` are, too; ``gemm_batch_strided``,
whose arguments are those of `gemm` with a stride behind each leading dimension and the number of
products at the end; and the Fourier transforms of `functrans.run.cuda.libraries.fourier`.

An argument is an address on the device (of an element, not of its buffer), a number, or a flag as
``bytes``. What `adapter` gives is called with `Handles`, a `Workspace` and these, and puts all of
its work on the stream of the handles: it waits for nothing, except for what cuSOLVER does itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans import config
from functrans.run.cuda.libraries import factors, fourier, moves, products, spectra, triangles
from functrans.run.cuda.libraries.handles import Handles, Numbers, Workspace

Routine = Callable[[Numbers, Handles, Workspace, Sequence[Any]], None]

Adapter = Callable[[Handles, Workspace, Sequence[Any]], None]

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

NUMBERS = {
    one.letter: one
    for one in (
        Numbers("s", FLOAT, 4, "CUDA_R_32F", "COMPUTE_32F"),
        Numbers("d", DOUBLE, 8, "CUDA_R_64F", "COMPUTE_64F"),
        Numbers("h", FLOAT, 2, "CUDA_R_16F", "COMPUTE_32F"),
        Numbers("b", FLOAT, 2, "CUDA_R_16BF", "COMPUTE_32F"),
        Numbers("c", FLOAT, 8, "CUDA_C_32F", "COMPUTE_32F"),
        Numbers("z", DOUBLE, 16, "CUDA_C_64F", "COMPUTE_64F"),
    )
}
"""By the letters that symbols begin with."""

TF32 = NUMBERS["s"]._replace(compute="COMPUTE_32F_FAST_TF32")
"""float32 whose products are of numbers with 10 bits behind the point, on tensor cores."""

_ROUTINES: Mapping[str, tuple[str, Routine]] = {
    "gemm": ("sdhb", products.gemm),
    "gemm_batch_strided": ("sdhb", products.gemm_batch_strided),
    "syrk": ("sd", triangles.syrk),
    "trsm": ("sd", triangles.trsm),
    "trsv": ("sd", triangles.trsv),
    "lacpy": ("sd", moves.lacpy),
    "laset": ("sd", moves.laset),
    "potrf": ("sd", factors.potrf),
    "getrf": ("sd", factors.getrf),
    "getrs": ("sd", factors.getrs),
    "getri": ("sd", factors.getri),
    "geqrf": ("sd", factors.geqrf),
    "orgqr": ("sd", factors.orgqr),
    "gelqf": ("sd", factors.gelqf),
    "orglq": ("sd", factors.orglq),
    "syevd": ("sd", spectra.syevd),
    "gesdd": ("sd", spectra.gesdd),
    "fft": ("cz", fourier.fft),
    "rfft": ("sd", fourier.rfft),
    "irfft": ("sd", fourier.irfft),
}
"""By their names without the letter, which is one of those beside them."""

_ON_THE_HOST_TOO = {
    "potrf", "getrf", "getrs", "getri", "geqrf", "orgqr", "gelqf", "orglq", "syevd", "gesdd",
}  # fmt: skip
"""Routines of which cuSOLVER does not promise that they leave all work to the stream."""


def symbols() -> tuple[str, ...]:
    """Every symbol that there is an adapter for."""
    return tuple(letter + name for name, (letters, _) in _ROUTINES.items() for letter in letters)


def has(symbol: str) -> bool:
    """Whether a library does on a GPU what a symbol names."""
    letters, _ = _ROUTINES.get(symbol[1:], ("", None))
    return symbol[:1] != "" and symbol[:1] in letters


def capturable(symbol: str) -> bool:
    """Whether the call of a symbol may be part of a CUDA graph."""
    return has(symbol) and symbol[1:] not in _ON_THE_HOST_TOO


def adapter(symbol: str) -> Adapter:
    """What calls the library for a symbol, as `config.matmul_precision` is now.

    Raises
    ------
    KeyError
        If there is none: ask `has`.
    """
    letters, routine = _ROUTINES[symbol[1:]]
    if symbol[0] not in letters:
        raise KeyError(symbol)
    numbers = NUMBERS[symbol[0]]
    if symbol[0] == "s" and config.matmul_precision == "tf32":
        numbers = TF32
    return partial(routine, numbers)
