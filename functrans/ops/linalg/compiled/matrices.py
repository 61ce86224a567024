"""Instruction selection for linear algebra: small matrices are unrolled, others are LAPACK's.

On a grid, others are a team's each, and cuSOLVER has the largest if there are few of them.
"""

from __future__ import annotations

from collections.abc import Callable

from functrans.loop.target import Matrices
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled import (
    composed,
    decompositions,
    householder,
    jacobi,
    lapack,
    one_sided,
    teams,
    written_out,
)
from functrans.ops.linalg.matrices import by_teams

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


def _of_something(rule: Rule) -> Rule:
    """A rule, where there is something to compute."""

    def checked(at: Emission) -> None:
        if not all(0 in x.aval.shape for x in at.eqn.outputs):
            rule(at)

    return checked


def _large(
    routine: Rule,
    kernel: Rule,
    largest: Callable[[Matrices], int] = lambda limits: limits.largest_of_team,
) -> Rule:
    """A library's routine, or a kernel: for all of so many rows at most."""

    def rule(at: Emission) -> None:
        is_kernel_s = by_teams(at.eqn, at.target, largest(at.target.matrices))
        (kernel if is_kernel_s else routine)(at)

    return _of_something(rule)


def _spectrum(routine: Rule, kernel: Rule) -> Rule:
    return _large(routine, kernel, lambda limits: limits.largest_rotated)


solve = _by_size(written_out.solve, _large(lapack.solve, teams.solve))
triangular_solve = _by_size(
    written_out.triangular_solve, _large(lapack.triangular_solve, teams.triangular_solve)
)
cholesky = _by_size(written_out.cholesky, _large(lapack.cholesky, teams.cholesky))
inv = _by_size(
    written_out.inv, _large(lapack.inv, teams.inv), lambda limits: limits.largest_inverted
)
det = _by_size(written_out.det, _large(lapack.det, teams.det))
slogdet = _by_size(written_out.slogdet, _large(lapack.slogdet, teams.slogdet))
cofactor = _spectrum(lapack.cofactor, composed.cofactor)
eigh = _spectrum(decompositions.eigh, jacobi.spectrum)
eigvalsh = _spectrum(decompositions.eigvalsh, jacobi.spectrum)
svd = _spectrum(decompositions.svd, one_sided.svd)
svdvals = _spectrum(decompositions.svdvals, one_sided.svdvals)
eigh_of_parts = _of_something(jacobi.spectrum)
lu = _of_something(teams.lu)
pinv = _of_something(composed.pinv)
lstsq = _of_something(composed.lstsq)
qr = _large(decompositions.qr, householder.qr)
r = _large(decompositions.r, householder.r)
