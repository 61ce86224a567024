"""Calls of `scipy.linalg`'s functions."""

import scipy.linalg

import functrans.scipy.linalg

NAME = "scipy.linalg"
THEIRS = {"linalg": scipy.linalg}
OURS = {"linalg": functrans.scipy.linalg}

CALLS = """
linalg.block_diag(s, m)  linalg.cdf2rdf(*np.linalg.eig(s))
linalg.cho_factor(s @ s.T)[0]  linalg.cho_solve((np.tril(s), True), m)
linalg.cho_solve_banded((s[:2] + 3, True), p[:3])  linalg.cholesky(s @ s.T)
linalg.cholesky_banded(np.stack([p[:3] + 2, q[:3]]), lower=True)  linalg.circulant(x)
linalg.clarkson_woodruff_transform(m, 2, 0)  linalg.companion(y)
linalg.convolution_matrix(x, 3)  linalg.coshm(s)  linalg.cosm(s)  linalg.cossin(s, 1, 1)
linalg.det(s)  linalg.diagsvd(y, 5, 5)  linalg.eig(s)[0]  linalg.eig_banded(np.stack([p, q]))[0]
linalg.eigh(s @ s.T)[0]  linalg.eigh_tridiagonal(x, y[:4])[0]  linalg.eigvals(s)
linalg.eigvals_banded(np.stack([p, q]))  linalg.eigvalsh(s @ s.T)
linalg.eigvalsh_tridiagonal(x, y[:4])  linalg.expm(s)  linalg.expm_cond(s)
linalg.expm_frechet(s, s.T)  linalg.fiedler(x)  linalg.fiedler_companion(y)
linalg.fractional_matrix_power(s, 0.5).real  linalg.funm(s, np.exp)  linalg.hankel(x)
linalg.hessenberg(s)  linalg.inv(s)  linalg.ishermitian(s)  linalg.issymmetric(s)
linalg.khatri_rao(s, s.T)  linalg.ldl(s + s.T)  linalg.leslie(x, y[:4])  linalg.logm(s)
linalg.lstsq(m.T, m[0])[0]  linalg.lu(s)  linalg.lu_factor(s)
linalg.lu_solve((s, np.arange(3)), m)  linalg.matmul_toeplitz(x, y)  linalg.matrix_balance(s)
linalg.norm(x)  linalg.ordqz(s, s.T)
linalg.orthogonal_procrustes(m.T, m.T)[1]  linalg.pinv(m)  linalg.pinvh(s + s.T)
linalg.polar(s)  linalg.qr(s)  linalg.qr_delete(s, s, 0)  linalg.qr_insert(s, s, x[:3], 0)
linalg.qr_multiply(s, x[:3])  linalg.qr_update(s, s, x[:3], y[:3])  linalg.qz(s, s.T)
linalg.rq(s)  linalg.rsf2csf(s, s)  linalg.schur(s)  linalg.signm(s)  linalg.sinhm(s)
linalg.sinm(s)  linalg.solve(s, m)  linalg.solve_banded((1, 0), np.stack([p + 1, q]), x)
linalg.solve_circulant(y, x)  linalg.solve_continuous_are(s, np.eye(3), s @ s.T, np.eye(3))
linalg.solve_continuous_lyapunov(s, s)  linalg.solve_lyapunov(s, s)
linalg.solve_discrete_are(s, np.eye(3), s @ s.T, np.eye(3))
linalg.solve_discrete_lyapunov(0.1 * s, s)  linalg.solve_sylvester(s, s, s)
linalg.solve_toeplitz(y + np.array([5.0, 0, 0, 0, 0]), x)  linalg.solve_triangular(s, m)
linalg.solveh_banded(np.stack([p[:3], q[:3] + 3]), x[:3])  linalg.sqrtm(s)
linalg.subspace_angles(m.T[:, :2], m.T[:, 2:])  linalg.svd(m, False)[1]
linalg.svdvals(m)  linalg.tanhm(s)  linalg.tanm(s)  linalg.toeplitz(x, y)
"""

KNOWN = """
linalg.bandwidth(s)  linalg.null_space(m)  linalg.orth(m)
"""

NO_ARRAYS = """
dft find_best_blas_type get_blas_funcs get_lapack_funcs hadamard helmert hilbert invhilbert
invpascal pascal
"""


def public():
    """Its functions."""
    found = ((name, getattr(scipy.linalg, name)) for name in scipy.linalg.__all__)
    return sorted(name for name, f in found if callable(f) and not isinstance(f, type))
