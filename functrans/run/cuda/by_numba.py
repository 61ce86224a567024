"""Translation of kernel source to LLVM IR by Numba, the alternative compiler.

It takes three to thirty times as long as `functrans.emit.cuda.translation`, since it supports all
of Python. It serves for comparison, as on the CPU (docs/backends.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.emit.cuda import names as emit_names
from functrans.emit.cuda.site import numba_type
from functrans.locks import importing


def modules_by_numba(
    source: str,
    name: str,  # the name of the function that it defines
    signature: Sequence[str],  # the types of its arguments
    capability: tuple[int, int],  # of the device: ``(9, 0)``
    threads: int | None,  # the most threads of a block, if known
    blocks: int,  # the number of blocks for which a multiprocessor must have registers
) -> list[str]:
    """The LLVM IR of a kernel, for NVVM."""
    compiler, nvvm = _numba_cuda()
    scope: dict[str, Any] = {"np": np, "math": math, **emit_names.names()}
    exec(source, scope)
    kinds = [numba_type(kind) for kind in signature]
    # holds Numba's compiler lock
    library, _ = compiler._compile_pyfunc_with_fixup(
        scope[name],
        numba_type("none")(*kinds),
        device=False,
        cc=capability,
        abi="numba",
        launch_bounds=threads if blocks == 1 else (threads, blocks),
    )
    # the mangled name contains a running number
    mangled = library._entry_name
    return [nvvm.llvm_replace(text).replace(mangled, name) for text in library.llvm_strs]


@once
def _numba_cuda() -> Any:
    with importing:
        from numba.cuda import compiler
        from numba.cuda.cudadrv import nvvm

        with _with_older_names():
            import_module("numba.cuda.np.arrayobj")
        return compiler, nvvm


@contextmanager
def _with_older_names() -> Iterator[None]:
    """Restore a name that NumPy 2.5 has removed, which numba-cuda 0.30 reads on import."""
    if "row_stack" in vars(np):
        yield
        return
    setattr(np, "row_stack", np.vstack)  # noqa: B010 (types know that there is none)
    try:
        yield
    finally:
        delattr(np, "row_stack")
