"""Instruction selection for linear algebra: small matrices are unrolled, others are LAPACK's."""

from __future__ import annotations

from collections.abc import Callable

from functrans.loop.target import Matrices
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled import decompositions, lapack, written_out

Rule = Callable[[Emission], None]


def _by_size(
    small: Rule, large: Rule, largest: Callable[[Matrices], int] = lambda limits: limits.largest
) -> Rule:
    """One rule for matrices of so many rows at most, and another one for all that are larger."""

    def rule(at: Emission) -> None:
        if any(0 in x.aval.shape for x in at.eqn.outputs):
            return
        n = at.eqn.inputs[0].aval.shape[-1]
        (small if n <= largest(at.target.matrices) else large)(at)

    return rule


solve = _by_size(written_out.solve, lapack.solve)
triangular_solve = _by_size(written_out.triangular_solve, lapack.triangular_solve)
cholesky = _by_size(written_out.cholesky, lapack.cholesky)
inv = _by_size(written_out.inv, lapack.inv, lambda limits: limits.largest_inverted)
det = _by_size(written_out.det, lapack.det)
slogdet = _by_size(written_out.slogdet, lapack.slogdet)
cofactor = _by_size(lapack.cofactor, lapack.cofactor)
eigh = decompositions.eigh
eigvalsh = decompositions.eigvalsh
svd = decompositions.svd
svdvals = decompositions.svdvals
qr = decompositions.qr
r = decompositions.r
