"""Spectra of Hermitian matrices with separate arrays of real and imaginary parts.

Programs for a grid have no complex numbers: after all derivatives have been taken, these replace
the operations in `functrans.ops.linalg.eigen` (`functrans.optimise.machine.complex_parts`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.compiled.pairs import Pair
from functrans.ops.define import primitive
from functrans.ops.linalg.matrices import check_square, far_apart, on_grid, promoted
from functrans.ops.samples import cases


def _infer_values(re: Aval, im: Aval, *, lower: bool) -> Aval:
    check_square(re, "eigh_of_parts")
    if re.shape != im.shape:
        raise ShapeError(
            f"the parts of Hermitian matrices are of one shape, not of {re.shape} and {im.shape}"
        )
    return re.update(shape=re.shape[:-1])


def _infer(re: Aval, im: Aval, *, lower: bool) -> tuple[Aval, Aval, Aval]:
    return _infer_values(re, im, lower=lower), re.update(), re.update()


def _eigh(re: Any, im: Any, *, lower: bool) -> Any:
    values, vectors = np.linalg.eigh(re + 1j * im, "L" if lower else "U")
    return tuple(x.astype(re.dtype) for x in (values, vectors.real, vectors.imag))


def _eigvalsh(re: Any, im: Any, *, lower: bool) -> Any:
    return np.linalg.eigvalsh(re + 1j * im, "L" if lower else "U").astype(re.dtype)


_late = not_differentiable("the compiler makes it, when all derivatives are made")

_samples = cases(
    ((far_apart, (3, 3)), (3, 3), {"lower": True}), ((far_apart, (4, 4)), (4, 4), {"lower": False}),
    ((far_apart, (2, 2, 2)), (2, 2, 2), {"lower": True}),
    ((far_apart, (1, 1)), (1, 1), {"lower": True}),
)  # fmt: skip

eigh_of_parts: Primitive = primitive(
    "eigh_of_parts",
    emit_on_grid=on_grid(lazy("functrans.ops.linalg.compiled.grid.matrices:eigh_of_parts")),
    infer=_infer,
    numpy=_eigh,
    several=True,
    jvp=_late,
    prepare=promoted,
    samples=_samples,
)

eigvalsh_of_parts: Primitive = primitive(
    "eigvalsh_of_parts",
    emit_on_grid=on_grid(lazy("functrans.ops.linalg.compiled.grid.matrices:eigh_of_parts")),
    infer=_infer_values,
    numpy=_eigvalsh,
    jvp=_late,
    prepare=promoted,
    samples=_samples,
)


def eigh_in_parts(a: Pair, *, lower: bool) -> Any:
    """Eigenvalues, which are real, and eigenvectors."""
    values, re, im = eigh_of_parts(a.re, a.im, lower=lower)
    return values, Pair(re, im)


def eigvalsh_in_parts(a: Pair, *, lower: bool) -> Any:
    """Eigenvalues, which are real."""
    return eigvalsh_of_parts(a.re, a.im, lower=lower)
