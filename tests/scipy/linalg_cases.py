"""Calls of SciPy's linear algebra, ``l`` being scipy.linalg or functrans.scipy.linalg."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """``call(l, *operands)``; the operands are what is traced."""

    name: str
    call: Callable[..., Any]
    operands: tuple[Any, ...]


def _rng():
    return np.random.default_rng(7)


square = _rng().normal(size=(4, 4)) + 4 * np.eye(4)
small = square / 9
indefinite = np.array([[0.1, 2.0, 1.0, 0.3], [2.0, 0.2, 3.0, 0.1], [1.0, 3.0, 0.3, 2.0],
                       [0.3, 0.1, 2.0, -0.4]])  # fmt: skip
rotating = np.array([[1.0, -2.0, 0.3, 0.1], [1.5, 1.0, 0.3, -0.4], [0.2, 0.1, 3.0, 2.0],
                     [0.1, -0.2, -3.0, 2.5]])  # fmt: skip
definite = square @ square.T
stack = _rng().normal(size=(2, 3, 3)) + 4 * np.eye(3)
definites = stack @ stack.swapaxes(1, 2)
tall = _rng().normal(size=(5, 3)) + 0.5
columns = _rng().normal(size=(4, 2))
v = _rng().normal(size=4) + 2
w = _rng().normal(size=3)
u = _rng().normal(size=5)
k = _rng().normal(size=(2, 5))
bands = np.array([[0.0, 1.0, 2.0, 0.5], [5.0, 6.0, 7.0, 8.0], [1.0, 0.3, -1.0, 0.0]])
upper_half = np.array([[0.0, 1.0, 0.2, 0.3], [4.0, 5.0, 6.0, 7.0]])
lower_half = np.array([[4.0, 5.0, 6.0, 7.0], [1.0, 0.2, 0.3, 0.0]])


def case(call, *operands):
    """A case named by the text of the call."""
    names = "abcd"[: len(operands)]
    function = eval(f"lambda l, {', '.join(names)}: {call}", {"np": np})
    return Case(f"{call}|{','.join(str(list(x.shape)) for x in operands)}", function, operands)


def each(calls, *operands):
    return [case(call, *operands) for call in calls]


FACTORS = [
    *each(
        ["l.cholesky(a)", "l.cholesky(a, lower=True)", "l.cho_factor(a)", "l.cho_factor(a, True)"],
        definite,
    ),
    case("l.cholesky(a)", definites),
    case("l.cho_solve(l.cho_factor(a), b)", definite, columns),
    case("l.cho_solve(l.cho_factor(a, True), b)", definite, v),
    case("l.cho_solve((l.cholesky(a), False), b)", definites, w),
    case("l.cho_solve((l.cholesky(a), np.array([False, False])), b)", definites, w),
    *[
        case(call, x)
        for call in ("l.lu(a)", "l.lu(a, permute_l=True)", "l.lu(a, p_indices=True)",
                     "l.lu_factor(a)", "l.qr(a)", "l.qr(a, mode='r')", "l.qr(a, mode='economic')",
                     "l.qr(a, pivoting=True)", "l.rq(a)", "l.rq(a, mode='r')",
                     "l.rq(a, mode='economic')", "l.polar(a)", "l.polar(a, 'left')")
        for x in (square[[2, 0, 3, 1]], tall, tall.T, stack[:, ::-1])
    ],
    *[case(f"l.lu_solve(l.lu_factor(a), b, {t})", square[[2, 0, 3, 1]], x)
      for t in (0, 1, 2) for x in (v, columns)],
    case("l.lu_solve(l.lu_factor(a), b)", stack[:, ::-1], w),
    case("l.qr_multiply(a, b)", tall, k),
    case("l.qr_multiply(a, b, 'left', True)", tall, w),
    case("l.qr_multiply(a, b, conjugate=True)", tall, u),
    *each(["l.ldl(a)", "l.ldl(a, lower=False)", "l.ldl(a, hermitian=False)"], square + square.T),
    case("l.ldl(a)", indefinite),
    case("l.ldl(a, lower=False)", indefinite),
    case("l.ldl(a)", stack),
    *each(["l.svd(a)", "l.svd(a, full_matrices=False)", "l.svd(a, compute_uv=False)",
           "l.svdvals(a)", "l.orth(a)", "l.null_space(a.T)"], tall),
    *each(["l.diagsvd(a, 4, 6)", "l.diagsvd(a, 6, 4)"], v),
]  # fmt: skip

SPECTRA = [
    *each(["abs(l.eigh(a)[1])", "l.eigh(a, eigvals_only=True)", "l.eigvalsh(a, lower=False)",
           "l.eigvalsh(a, subset_by_index=[1, 2])"], definite),
    *[case(f"l.eigh(a, b, type={kind}, lower={lower})[0]", square, definite)
      for kind in (1, 2, 3) for lower in (True, False)],
    *[case(f"abs(l.eigh(a, b, type={kind})[1])", square, definite) for kind in (1, 2, 3)],
    case("l.eigvalsh(a, b)", stack, definites),
    *each(["l.eig_banded(a)[0]", "l.eigvals_banded(a, select='i', select_range=(0, 1))"],
          upper_half),
    case("l.eigvals_banded(a, lower=True)", lower_half),
    *each(["l.eigh_tridiagonal(a, b, eigvals_only=True)", "l.eigvalsh_tridiagonal(a, b)",
           "abs(l.eigh_tridiagonal(a, b, select='i', select_range=(1, 2))[1])"], v, w),
]  # fmt: skip

GENERAL = [
    *each(["l.eig(a)", "l.eig(a, right=False)", "l.eigvals(a)"], square),
    case("l.eig(a)", np.array([[1.0, -2.0, 0.0], [1.5, 1.0, 0.3], [0.2, 0.0, 4.0]])),
    case("l.eigvals(a)", stack),
]  # fmt: skip

FORMS = [
    *[case(call, x)
      for call in ("l.hessenberg(a)", "l.hessenberg(a, calc_q=True)", "l.schur(a)")
      for x in (square, rotating, stack, square[:2, :2], square[:1, :1])],
    *[case(call, x) for call in ("np.abs(l.schur(a, 'complex')[0])", "l.matrix_balance(a)",
                                 "l.matrix_balance(a, permute=0, separate=1)",
                                 "l.cdf2rdf(*np.linalg.eig(a))")
      for x in (square, rotating)],
    case("l.rsf2csf(*l.schur(a))", rotating),
    case("l.rsf2csf(a, b)", square, definite),
    case("l.matrix_balance(a * np.array([1.0, 1e3, 1.0, 1e-2]), scale=0)", np.triu(square)),
]  # fmt: skip

STRUCTURES = (None, "gen", "sym", "her", "pos", "upper triangular", "lower triangular")

SOLUTIONS = [
    *[case(f"l.solve(a, b, assume_a={kind!r}, lower={lower})", definite, columns)
      for kind in STRUCTURES for lower in (True, False)],
    *[case(f"l.solve(a, b, assume_a={kind!r}, transposed=True)", definite, v)
      for kind in STRUCTURES],
    *[case(f"l.inv(a, assume_a={kind!r}, lower={lower})", definite)
      for kind in STRUCTURES for lower in (True, False)],
    *each(["l.solve(a, b, assume_a='diagonal')", "l.solve(a, b, assume_a='tridiagonal')",
           "l.solve(a, b, assume_a='banded')"], np.diag(v), columns),
    case("l.solve(a, b)", stack, w),
    case("l.solve(a, b)", stack, stack),
    *[case(f"l.solve_triangular(a, b, {trans!r}, {lower}, {unit})", square, v)
      for trans in (0, 1, "C") for lower in (True, False) for unit in (True, False)],
    *each(["l.det(a)", "l.norm(a)", "l.norm(a, 2)", "l.norm(a, 'nuc')",
           "l.norm(a, 1, axis=0, keepdims=True)"], square),
    case("l.det(a)", stack),
    case("l.lstsq(a, b)", tall, u),
    case("l.lstsq(a, b, 0.2)", tall, k.T),
    case("l.lstsq(a, b)", tall.T, w),
    *each(["l.pinv(a)", "l.pinv(a, atol=0.5, rtol=0.4, return_rank=True)"], tall),
    *each(["l.pinvh(a, return_rank=True)", "l.pinvh(a, lower=False, atol=5.0)"], square),
    case("l.solve_sylvester(a, b, c)", square, definite[:2, :2], columns),
    case("l.solve_sylvester(a, a, a)", stack),
    case("l.solve_continuous_lyapunov(a, b)", square, definite),
    case("l.solve_discrete_lyapunov(a, b)", small, definite),
    case("l.solve_discrete_lyapunov(a, b, 'bilinear')", small, definite),
    case("l.solve_continuous_are(a, b, c + c.T, np.eye(2))", square, columns, definite),
    case("l.solve_discrete_are(a, b, c + c.T, np.eye(2))", small, columns, definite),
    case("l.solve_banded((1, 1), a, b)", bands, v),
    case("l.solve_banded((2, 0), a, b)", bands[[1, 0, 2]], columns),
    case("l.solveh_banded(a, b)", upper_half, columns),
    case("l.solveh_banded(a, b, lower=True)", lower_half, v),
    case("l.cholesky_banded(a)", upper_half),
    case("l.cholesky_banded(a, lower=True)", lower_half),
    case("l.cho_solve_banded((l.cholesky_banded(a), False), b)", upper_half, columns),
    case("l.cho_solve_banded((l.cholesky_banded(a, lower=True), True), b)", lower_half, v),
    case("l.solve_toeplitz(a, b)", definite[0], v),
    case("l.solve_toeplitz((a, a / 3), b)", definite[0], columns),
    case("l.matmul_toeplitz(a, b)", v, columns),
    case("l.matmul_toeplitz((a, b), b)", w, v),
    case("l.solve_circulant(a, b)", definite[0], v),
    case("l.solve_circulant(a, b, caxis=0, baxis=1, outaxis=1)", definite[0], columns.T),
]  # fmt: skip

FUNCTIONS = [
    *each(["l.expm(a)", "l.cosm(a)", "l.sinm(a)", "l.tanm(a)", "l.coshm(a)", "l.sinhm(a)",
           "l.tanhm(a)", "l.signm(a - np.eye(4) / 2)"], small),
    case("l.expm(a)", stack / 4),
    *each(["l.logm(a)", "l.sqrtm(a)", "l.fractional_matrix_power(a, 0.3)",
           "l.fractional_matrix_power(a, -2)"], definite),
    case("l.expm_cond(a)", small),
    *each(["l.expm_frechet(a, b)", "l.expm_frechet(a, b, compute_expm=False)"], small, square),
]  # fmt: skip

STRUCTURED = [
    *[case(call, x)
      for call in ("l.toeplitz(a)", "l.circulant(a)", "l.companion(a)", "l.fiedler(a)",
                   "l.convolution_matrix(a, 2)", "l.convolution_matrix(a, 6, 'same')",
                   "l.convolution_matrix(a, 3, 'same')", "l.convolution_matrix(a, 6, 'valid')")
      for x in (v, tall)],
    *[case("l.fiedler_companion(a)", np.arange(1.0, n + 1)) for n in (1, 2, 3, 4, 5, 8)],
    case("l.toeplitz(a, 3.0)", v),
    *each(["l.toeplitz(a, b)", "l.hankel(a, b)", "l.leslie(a, b)"], v, w),
    case("l.hankel(a)", v),
    case("l.block_diag(a, b, c)", tall, v, square),
    case("l.block_diag(a, b)", stack, stack[:, :1]),
    case("l.khatri_rao(a, a)", tall),
    case("l.clarkson_woodruff_transform(a, 3, rng=1)", tall),
    case("l.clarkson_woodruff_transform(a, 2, rng=1)", stack),
    case("l.orthogonal_procrustes(a, b)", tall, tall[::-1]),
    case("l.subspace_angles(a, a[:, :2] + b / 100)", tall, tall[::-1, :2]),
    case("l.subspace_angles(a[:, :2], a + b)", tall, tall[::-1]),
    *each(["l.issymmetric(a)", "l.issymmetric(a + 1e-9 * np.eye(4)[0], 1e-6)", "l.ishermitian(a)",
           "l.bandwidth(a)"], np.round(definite)),
]  # fmt: skip

CASES = {
    one.name: one
    for one in (*FACTORS, *SPECTRA, *GENERAL, *FORMS, *SOLUTIONS, *FUNCTIONS, *STRUCTURED)
}

ONLY_THE_SPACE_IS_DETERMINED = (
    "l.null_space", "l.qr(a)|[5, 3]", "l.qr(a, pivoting=True)|[5, 3]", "l.rq(a)|[3, 5]",
    "l.svd(a)|[5, 3]",
)  # fmt: skip

SHAPE_FOLLOWS_VALUES = ("l.orth", "l.null_space", "l.bandwidth")
