"""Instruction selection for linear algebra on a grid: threads, teams of threads, or a library.

A thread computes a small matrix, unrolled. A team computes a larger one, and cuSOLVER the largest
ones if there are few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from functrans.ir.graph import Eqn
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled import composed, in_parts, lapack, written_out
from functrans.ops.linalg.compiled.grid import householder, jacobi, one_sided, teams
from functrans.ops.linalg.compiled.grid.teams import Teams
from functrans.ops.linalg.compiled.matrices import Rule, by_size, largest_inverted, of_something


def by_teams(eqn: Eqn, target: Target, largest: int) -> bool:
    """Whether a team computes each matrix: all matrices but the large ones of a short stack."""
    *leading, rows, columns = eqn.inputs[0].aval.shape
    large = max(rows, columns) > largest
    few = prod(leading) <= target[Teams].most_in_turn
    return not (target.libraries and large and few)


def _large(
    routine: Rule,
    kernel: Rule,
    largest: Callable[[Teams], int] = lambda limits: limits.largest_of_team,
) -> Rule:
    """A library's routine, or a kernel: for all of a number of rows at most."""

    def rule(at: Emission) -> None:
        is_kernel_s = by_teams(at.eqn, at.target, largest(at.target[Teams]))
        (kernel if is_kernel_s else routine)(at)

    return of_something(rule)


def _spectrum(routine: Rule, kernel: Rule) -> Rule:
    return _large(routine, kernel, lambda limits: limits.largest_rotated)


solve = by_size(written_out.solve, _large(lapack.solve, teams.solve))
triangular_solve = by_size(
    written_out.triangular_solve, _large(lapack.triangular_solve, teams.triangular_solve)
)
cholesky = by_size(written_out.cholesky, _large(lapack.cholesky, teams.cholesky))
inv = by_size(written_out.inv, _large(lapack.inv, teams.inv), largest_inverted)
det = by_size(written_out.det, _large(lapack.det, teams.det))
slogdet = by_size(written_out.slogdet, _large(lapack.slogdet, teams.slogdet))
cofactor = _spectrum(lapack.cofactor, composed.cofactor)
eigh = _spectrum(in_parts.eigh, jacobi.spectrum)
eigvalsh = _spectrum(in_parts.eigvalsh, jacobi.spectrum)
svd = _spectrum(in_parts.svd, one_sided.svd)
svdvals = _spectrum(in_parts.svdvals, one_sided.svdvals)
eigh_of_parts = of_something(jacobi.spectrum)
lu = of_something(teams.lu)
pinv = of_something(composed.pinv)
lstsq = of_something(composed.lstsq)
qr = _large(in_parts.qr, householder.qr)
r = _large(in_parts.r, householder.r)
