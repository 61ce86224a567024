"""Calls of `numpy.linalg`'s functions."""

import numpy as np

NAME = "numpy.linalg"
THEIRS = {"np": np}
OURS = {"np": np}

CALLS = """
np.linalg.cholesky(s @ s.T)  np.linalg.cond(s)  np.linalg.cross(x[:3], y[:3])  np.linalg.det(s)
np.linalg.diagonal(m)  np.linalg.eig(s)  np.linalg.eigh(s @ s.T)[0]  np.linalg.eigvals(s)
np.linalg.eigvalsh(s @ s.T)  np.linalg.inv(s)  np.linalg.lstsq(m.T, m[0])[0]
np.linalg.matmul(s, m)  np.linalg.matrix_norm(m)  np.linalg.matrix_power(s, 3)
np.linalg.matrix_rank(m)  np.linalg.matrix_transpose(m)  np.linalg.multi_dot([s, m, m.T])
np.linalg.norm(x)  np.linalg.outer(x, y)  np.linalg.pinv(m)  np.linalg.qr(m.T)
np.linalg.slogdet(s)  np.linalg.solve(s, m)  np.linalg.svd(m, False)[1]  np.linalg.svdvals(m)
np.linalg.tensordot(x, y, axes=1)  np.linalg.tensorinv(s, 1)  np.linalg.tensorsolve(s, s[0])
np.linalg.trace(s)  np.linalg.vecdot(x, y)  np.linalg.vector_norm(x)
"""

NO_ARRAYS = ""


def public():
    """Its functions."""
    found = ((name, getattr(np.linalg, name)) for name in np.linalg.__all__)
    return sorted(name for name, f in found if callable(f) and not isinstance(f, type))
