"""Instruction selection for linear algebra: unrolled, blocked over tiles, or by LAPACK calls."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from functrans.lazily import lazy_module
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.elimination import Elimination
from functrans.ops.linalg.compiled.interleaved import Interleaving
from functrans.ops.linalg.matrices import Matrices

# a program has few of these operations
blocked_cholesky = lazy_module("functrans.ops.linalg.compiled.cholesky", "cotangent factor")
composed = lazy_module(
    "functrans.ops.linalg.compiled.composed",
    "cholesky_cotangent lstsq pinv svd_by_qr svdvals_by_qr",
)
elimination = lazy_module("functrans.ops.linalg.compiled.elimination", "triangular_solve")
implicit_ql = lazy_module("functrans.ops.linalg.compiled.implicit_ql", "spectrum")
in_parts = lazy_module("functrans.ops.linalg.compiled.in_parts", "eigh eigvalsh qr r svd svdvals")
lapack = lazy_module(
    "functrans.ops.linalg.compiled.lapack",
    "cholesky cofactor det inv slogdet solve triangular_solve",
)
one_sided = lazy_module("functrans.ops.linalg.compiled.one_sided", "singular_values")
reflections = lazy_module("functrans.ops.linalg.compiled.reflections", "qr r")
written_out = lazy_module(
    "functrans.ops.linalg.compiled.written_out",
    "cholesky cofactor det inv slogdet solve triangular_solve",
)

Rule = Callable[[Emission], None]


def of_something(rule: Rule) -> Rule:
    """A rule, applied only if there are elements to compute."""

    def checked(at: Emission) -> None:
        if not all(0 in x.aval.shape for x in at.eqn.outputs):
            rule(at)

    return checked


def by_size(
    small: Rule, large: Rule, largest: Callable[[Matrices], int] = lambda limits: limits.largest
) -> Rule:
    """One rule for matrices up to a number of rows, and another for larger ones."""

    def rule(at: Emission) -> None:
        if any(0 in x.aval.shape for x in at.eqn.outputs):
            return
        n = at.eqn.inputs[0].aval.shape[-1]
        (small if n <= largest(at.target[Matrices]) else large)(at)

    return rule


def blocked(
    ours: Rule, library: Rule, applies: Callable[[Emission], bool] = lambda at: True
) -> Rule:
    """A blocked rule, outside of loops and where products have kernels; otherwise a LAPACK call."""

    def rule(at: Emission) -> None:
        has_kernels = "block_products" in at.target.stages and not at.target.in_loop
        (ours if has_kernels and applies(at) else library)(at)

    return rule


def across_lanes(ours: Rule, library: Rule, most: Callable[[Emission, int], int]) -> Rule:
    """One rule for stacks of small matrices, across vector lanes, and another for all others.

    ``most`` gives the most rows and columns for a number of matrices.
    """

    def rule(at: Emission) -> None:
        *leading, rows, columns = at.eqn.inputs[0].aval.shape
        matrices, limits = prod(leading), at.target[Interleaving]
        fits = matrices >= limits.fewest_matrices and max(rows, columns) <= most(at, matrices)
        (ours if fits else library)(at)

    return rule


def _most_rows(at: Emission, _: int) -> int:
    limits, has_vectors = at.target[Interleaving], len(at.eqn.outputs) > 1
    return limits.most_rows_with_vectors if has_vectors else limits.most_rows


def _most_rotated(at: Emission, matrices: int) -> int:
    limits = at.target[Interleaving]
    return limits.most_rotated_of_many if matrices >= limits.many else limits.most_rotated


def _has_columns(at: Emission) -> bool:
    """Whether there are several right-hand sides: one takes the time of reading the matrix."""
    return at.eqn.inputs[1].aval.shape[-1] > 1


def _has_panels(at: Emission) -> bool:
    """Whether a matrix has enough rows for panels."""
    return at.eqn.inputs[0].aval.shape[-1] >= at.target[Elimination].fewest_rows


def _is_reflected(at: Emission) -> bool:
    """Whether a QR factorisation is large enough, with enough rows if the matrix is wide."""
    a, limits = at.eqn.inputs[0].aval, at.target[Elimination]
    *_, rows, columns = a.shape
    if rows < min(columns, limits.fewest_rows_of_wide):
        return False
    return bool(a.size * min(rows, columns) >= limits.least_reflected)


def _is_of_triangle(at: Emission) -> bool:
    """Whether singular values are those of a triangular factor: under LAPACK's own condition.

    The QR factors of the matrix, or of its transpose, must be large enough for a blocked rule.
    """
    a = at.eqn.inputs[0].aval
    least, most = sorted(a.shape[-2:])
    is_thin = most > least > 1 and most >= 11 * least // 6 and not at.eqn.params.get("full", False)
    return is_thin and bool(a.size * least >= at.target[Elimination].least_reflected)


def largest_inverted(limits: Matrices) -> int:
    return limits.largest_inverted


solve = by_size(written_out.solve, lapack.solve)
triangular_solve = by_size(
    written_out.triangular_solve,
    blocked(elimination.triangular_solve, lapack.triangular_solve, _has_columns),
)
cholesky = by_size(
    written_out.cholesky, blocked(blocked_cholesky.factor, lapack.cholesky, _has_panels)
)
inv = by_size(written_out.inv, lapack.inv, largest_inverted)
det = by_size(written_out.det, lapack.det)
slogdet = by_size(written_out.slogdet, lapack.slogdet)
cholesky_cotangent = of_something(blocked(blocked_cholesky.cotangent, composed.cholesky_cotangent))
cofactor = by_size(written_out.cofactor, lapack.cofactor, lambda limits: limits.largest_of_minors)
eigh = of_something(across_lanes(implicit_ql.spectrum, in_parts.eigh, _most_rows))
eigvalsh = of_something(across_lanes(implicit_ql.spectrum, in_parts.eigvalsh, _most_rows))
svd = of_something(blocked(composed.svd_by_qr, in_parts.svd, _is_of_triangle))
svdvals = of_something(
    across_lanes(
        one_sided.singular_values,
        blocked(composed.svdvals_by_qr, in_parts.svdvals, _is_of_triangle),
        _most_rotated,
    )
)
qr = of_something(blocked(reflections.qr, in_parts.qr, _is_reflected))
r = of_something(blocked(reflections.r, in_parts.r, _is_reflected))
pinv = of_something(composed.pinv)
lstsq = of_something(composed.lstsq)
