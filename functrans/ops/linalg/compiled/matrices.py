"""Instruction selection for linear algebra: small matrices are unrolled, others are LAPACK's."""

from __future__ import annotations

from collections.abc import Callable

from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled import composed, decompositions, lapack, written_out
from functrans.ops.linalg.matrices import Matrices

Rule = Callable[[Emission], None]


def of_something(rule: Rule) -> Rule:
    """A rule, where there is something to compute."""

    def checked(at: Emission) -> None:
        if not all(0 in x.aval.shape for x in at.eqn.outputs):
            rule(at)

    return checked


def by_size(
    small: Rule, large: Rule, largest: Callable[[Matrices], int] = lambda limits: limits.largest
) -> Rule:
    """One rule for matrices up to a number of rows, and another one for all that are larger."""

    def rule(at: Emission) -> None:
        if any(0 in x.aval.shape for x in at.eqn.outputs):
            return
        n = at.eqn.inputs[0].aval.shape[-1]
        (small if n <= largest(at.target[Matrices]) else large)(at)

    return rule


def largest_inverted(limits: Matrices) -> int:
    return limits.largest_inverted


solve = by_size(written_out.solve, lapack.solve)
triangular_solve = by_size(written_out.triangular_solve, lapack.triangular_solve)
cholesky = by_size(written_out.cholesky, lapack.cholesky)
inv = by_size(written_out.inv, lapack.inv, largest_inverted)
det = by_size(written_out.det, lapack.det)
slogdet = by_size(written_out.slogdet, lapack.slogdet)
cofactor = of_something(lapack.cofactor)
eigh = of_something(decompositions.eigh)
eigvalsh = of_something(decompositions.eigvalsh)
svd = of_something(decompositions.svd)
svdvals = of_something(decompositions.svdvals)
qr = of_something(decompositions.qr)
r = of_something(decompositions.r)
pinv = of_something(composed.pinv)
lstsq = of_something(composed.lstsq)
