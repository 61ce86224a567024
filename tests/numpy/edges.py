"""Calls that NumPy's own tests make, whose results differed or were refused."""

import numpy as np

from tests.numpy.case import case, each, k, m, v, w

EDGES = [
    *each(["np.full_like(a, -np.inf, complex)", "np.isin(a, [1, 3], kind='table')",
           "np.einsum('i,j->ij', a, a, dtype=float)",
           "np.einsum(a, [0], a, [0], dtype='f4', casting='unsafe')"], k),
    case("np.vander(a, 2)", np.array([complex(np.inf, 0), complex(-0.0, -0.0), 2 - 3j])),
    case("np.unique(a, axis=-1)", k, needs_values=True),
    case("np.bincount(a, minlength=9)", np.array([8, 1, 1], np.uint64)),
    case("np.ravel_multi_index((a, np.zeros((0, 1), int)), (3, 0))", np.array(-1)),
    *each(["np.concatenate([a, 1.5], None)", "np.concatenate([2, a[:2], 1j], axis=None)",
           "np.concatenate([1.5, 2, a.astype('i1')], axis=None)",
           "np.concatenate([a, [1.5]], axis=None)", "np.append(a, 1.5)"],
          np.arange(3, dtype=np.float32)),
    *each(["np.linalg.lstsq(a, a.sum(0))", "np.linalg.lstsq(a, a.sum(0), -1)"],
          np.diag(np.array([1.0, 1.5e-16], np.float32))),
    *each(["np.add.reduceat(a, [])", "a.flatten('f')", "np.ravel(a, 'c')", "a.copy('f')",
           "a.reshape(1, -1, copy=True)",
           "np.percentile(a, 40, 1, weights=abs(a[0]), method='inverted_cdf', keepdims=True)",
           "np.nanquantile(np.where(a > 0, a, np.nan), 0.5, (0, 1), weights=a * a,"
           " method='inverted_cdf')"], m),
    case("np.quantile(a, [0.2, 0.9], weights=abs(b), method='inverted_cdf')", v, w),
]  # fmt: skip
