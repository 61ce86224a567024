"""Exponentials and logarithms of matrices, and their derivatives by the block method.

The derivative of a matrix function at A along E is the upper right block of its value at
``[[A, E], [0, A]]`` (Higham, "Functions of Matrices", 2008, theorem 3.6). The derivative is a
separate primitive, which is linear in E, and is differentiated by block matrices again: so all
orders of derivatives exist, for every spectrum.

The exponential is computed by scaling and squaring (Al-Mohy and Higham, 2009), by SciPy or, in
compiled programs, by `functrans.ops.linalg.compiled.exponentials`; the logarithm by its inverse
(2012), by SciPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops import dependence
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.define import primitive
from functrans.ops.linalg.matrices import (
    above,
    batch_together,
    beside,
    check_square,
    columns_of,
    decomposed,
    far_apart,
    filled_by_matrix,
    of_matrices,
    promoted,
    real_of_real,
    regular,
    rows_of,
    same_square,
    transposed,
)
from functrans.ops.samples import SQUARES, Domain, cases, stacks

_expm, _logm = lazy("scipy.linalg:expm"), lazy("scipy.linalg:logm")


def _logarithms(a: Any) -> Any:
    """The logarithms; those of real matrices must be real."""

    def of_one(x: Any) -> Any:
        # SciPy warns that single precision results are inaccurate
        wide = x.astype(np.result_type(x.dtype, np.float64))
        return real_of_real(_logm(wide), x, "logarithm")

    return filled_by_matrix(of_one, [a], np.zeros_like(a))


def _along(of_stack: Any) -> Any:
    """The derivative along a matrix, which is scaled to the size of the other one."""

    def along(a: Any, e: Any) -> Any:
        if not a.size:
            return np.zeros_like(e)
        n = a.shape[-1]
        sizes = [np.abs(x).max((-2, -1), keepdims=True) for x in (a, e)]
        own, other = (np.where(size == 0, 1, size).astype(size.dtype) for size in sizes)
        block = np.zeros((*a.shape[:-2], 2 * n, 2 * n), a.dtype)
        block[..., :n, :n] = block[..., n:, n:] = a
        block[..., :n, n:] = e * (own / other)
        return of_stack(block)[..., :n, n:] * (other / own)

    return along


def _infer_derivative(a: Aval, e: Aval) -> Aval:
    check_square(a, "the derivative of a matrix function")
    if e.shape != a.shape:
        raise ShapeError(
            f"the derivative of a matrix function at matrices of shape {a.shape} is along others "
            f"of this shape, not of shape {e.shape}"
        )
    return a.update()


def _block(x: Any, upper: Any) -> Any:
    return above(beside(x, upper), beside(zeros_like(x), x))


def _matrix_function(
    name: str, of_stack: Any, domain: Domain, emit: tuple[Any, Any] = (None, None)
) -> tuple[Primitive, Primitive]:
    """A primitive, and its derivative along a matrix; ``emit`` are the rules of both."""

    def second(a: Any, e: Any, out: Any, da: Any) -> Any:
        n = a.shape[-1]
        whole = along(_block(a, e), _block(da, zeros_like(da)))
        return columns_of(rows_of(whole, 0, n), n, 2 * n)

    along: Primitive = primitive(
        f"{name}_frechet",
        infer=_infer_derivative,
        numpy=_along(of_stack),
        jvp=[second, lambda a, e, out, de: along(a, de)],
        linear=((1,),),
        sparsity=lambda a, e: dependence.along(e, e.aval, e.aval.ndim - 2, e.aval.ndim - 1),
        transpose=[None, lambda ct, a, e: along(transposed(a), ct)],
        batch=lambda *args: batch_together(along, *args),
        emit=emit[1],
        emit_on_grid=None,
        prepare=promoted,
        samples=cases(
            ((domain, (3, 3)), (3, 3), {}), ((domain, (2, 2, 2)), (2, 2, 2), {}),
            ((domain, (1, 1)), (1, 1), {}), (np.zeros((0, 0)), (0, 0), {}),
        ),
    )  # fmt: skip
    whole = of_matrices(
        name,
        infer=same_square(name),
        numpy=of_stack,
        jvp=[lambda a, out, da: along(a, da)],
        emit=emit[0],
        emit_on_grid=None,
        samples=stacks(domain, *SQUARES),
    )
    return whole, along


expm_p, expm_frechet_p = _matrix_function(
    "expm",
    lambda a: _expm(a) if a.size else np.zeros_like(a),
    far_apart,
    (
        decomposed(lazy("functrans.ops.linalg.compiled.exponentials:expm")),
        decomposed(lazy("functrans.ops.linalg.compiled.exponentials:frechet")),
    ),
)
logm_p, logm_frechet_p = _matrix_function("logm", _logarithms, regular)
