"""Calls of NumPy functions, each tested on plain arrays and in traces with and without values."""

import numpy as np

from tests.numpy.case import case, each, f32, holes, k, kb, ki, m, n, spd, sq, t, v, w
from tests.numpy.edges import EDGES

AXES = [None, 0, -1, (0, 2), ()]

REDUCTIONS = [
    case(f"np.{name}(a, axis={axis}{keep})", x)
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "ptp")
    for axis in AXES
    for keep in ("", ", keepdims=True")
    for x in (t,)
    if not (name == "ptp" and axis == ())
]

OPTIONS = [
    *each(
        [
            "np.sum(a, dtype=np.float32)", "np.sum(a, 1, np.float32)", "np.sum(a, initial=3.0)",
            "np.sum(a, where=a > 0)", "np.any(a > 0, where=[True, False, True, True])",
            "np.var(a, dtype=np.complex64)",
            "np.sum(a, axis=1, where=np.array([True, False, True, True]))",
            "np.prod(a, initial=2.0, where=a > 0)", "np.mean(a, where=a > 0)",
            "np.mean(a, dtype=np.float32)", "np.var(a, ddof=1)", "np.std(a, axis=0, ddof=1)",
            "np.var(a, correction=1)", "np.var(a, where=a > 0)",
            "np.var(a, axis=1, mean=np.mean(a, axis=1, keepdims=True))",
            "np.max(a, initial=0.5)", "np.max(a, where=a[0, 0] > 0, initial=0.5)",
            "np.min(a, where=a > 0, initial=9.0)", "np.amax(a)", "np.amin(a, 1)", "np.argmax(a)",
            "np.argmin(a, 1, keepdims=True)", "np.argmax(a, keepdims=True)", "np.cumsum(a)",
            "np.cumsum(a, axis=-1)", "np.cumprod(a, 1)", "np.count_nonzero(a > 0, axis=1)",
            "np.any(a > 1, axis=1)", "np.all(a > -9)", "np.average(a)", "np.average(a, axis=1)",
            "np.average(a, axis=1, weights=np.array([1, 2, 3, 4.0]))",
            "np.average(a, axis=0, weights=np.arange(3), returned=True)",
            "np.average(a, axis=(1, 0), weights=np.arange(12).reshape(4, 3))",
            "np.median(a)", "np.median(a, axis=1, keepdims=True)", "np.quantile(a, 0.3)",
            "np.quantile(a, [0.1, 0.7], axis=0)", "np.percentile(a, 40, axis=1)",
            "np.percentile(a, 75, method='lower')", "np.percentile(a, 45, method='higher')",
            "np.quantile(a, 0.4, axis=1, method='midpoint')",
            "np.quantile(a, 0.3, axis=(0, 1), keepdims=True, method='nearest')",
        ],
        m,
    ),
    *each(
        [
            f"np.{name}(a, axis={axis})"
            for name in (
                "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin",
                "nancumsum", "nancumprod", "nanargmax", "nanargmin", "nanmedian",
            )
            for axis in (None, 0, 1)
        ],
        holes,
    ),
    *each(["np.cumulative_sum(a, include_initial=True)", "np.cumulative_prod(a)"], v),
    *each(["np.cumulative_sum(a, axis=1)"], m),
    *each("np.argsort(a) np.take(a,0,0) np.repeat(a,2,0) np.compress([1],a,-1)".split(), v[0]),
]  # fmt: skip

ELEMENTWISE = [
    *each(
        [
            "np.clip(a, -0.5, 0.5)", "np.clip(a, None, 0.5)", "np.clip(a, min=-0.5)",
            "np.clip(a, -np.arange(5.0), 0.2)", "np.round(a, 1)", "np.round(a)", "np.fix(a)",
            "np.sinc(a)", "np.i0(a)", "np.kaiser(4, np.max(a))", "np.kaiser(1, np.max(a))",
            "np.real(a)", "np.imag(a)", "np.angle(a)", "np.isposinf(a)",
            "np.isneginf(a)", "np.isreal(a)", "np.iscomplex(a)", "np.nan_to_num(a)",
            "np.where(a > 0, a, 0)", "np.where(a > 0, a, np.float32(2))", "np.where(a, 1.5, -a)",
            "np.select([a > 1, a > 0], [a, a * 2], -1.0)", "np.isclose(a, a + 1e-9)",
            "np.piecewise(a, [a < 0, a > 1], [lambda x: -x, 3.0, lambda x: x**2])",
            "np.allclose(a, a)", "np.array_equal(a, a)", "np.array_equiv(a, a[:1])",
            "np.add(a, [1, 2, 3, 4, 5])", "np.multiply(a, (1.0, 2.0, 3.0, 4.0, 5.0))",
            "np.around(a, 2)", "np.divmod(a, 0.7)", "np.modf(a)", "np.conj(a)",
            "np.real_if_close(a)", "np.isclose(a, [1, 2, 3, 4, np.nan], equal_nan=True)",
        ],
        v,
    ),
    case("np.choose(a, [a, a * 10, a * 100, -a], mode='clip')", k),
    case("np.nan_to_num(a, nan=2.0, posinf=9.0)", np.array([np.nan, np.inf, -np.inf, 1.5])),
    *each(["np.clip(a, 0, 2)", "np.round(a, 2)", "a.choose(a, a * 10, -a, mode='clip')"], k),
    case("np.round(a, -1)", v * 30),
    case("np.where(a > 0, a, 2)", f32),
    case("np.where(a > 0, a, 2.5)", k),
]  # fmt: skip

SHAPES = [
    *each(
        [
            "np.reshape(a, (4, 6))", "np.reshape(a, -1)", "np.reshape(a, (2, -1), order='F')",
            "np.reshape(a, np.array([2, -1, 2]))", "np.reshape(a, (-7, 4))",
            "np.resize(a, np.array([5, 5]))", "np.broadcast_to(a, np.array([2, *a.shape]))",
            "np.ravel(a)", "np.ravel(a, order='F')", "np.transpose(a)",
            "np.transpose(a, (1, 2, 0))", "np.permute_dims(a, (2, 0, 1))",
            "np.matrix_transpose(a)", "np.swapaxes(a, 0, -1)", "np.moveaxis(a, 0, 2)",
            "np.moveaxis(a, [0, 1], [-1, 0])", "np.rollaxis(a, 2)", "np.rollaxis(a, 0, 3)",
            "np.squeeze(a[:1])", "np.squeeze(a[:, :1], axis=1)", "np.expand_dims(a, (0, -1))",
            "np.broadcast_to(a, (5, 2, 3, 4))", "np.broadcast_arrays(a, a[0])", "np.flip(a)",
            "np.flip(a, 1)", "np.flip(a, (0, 2))", "np.fliplr(a)", "np.flipud(a)",
            "np.roll(a, 5)", "np.roll(a, -1, axis=1)", "np.roll(a, (1, 2), axis=(0, 2))",
            "np.rot90(a)", "np.rot90(a, 2)", "np.rot90(a, 3, axes=(1, 2))", "np.rot90(a, 4)",
            "np.tile(a, 2)", "np.tile(a, (2, 1, 1, 3))", "np.repeat(a, 2)",
            "np.repeat(a, [3], axis=0)", "np.repeat(a, 0, axis=1)",
            "np.repeat(a, [1, 0, 2], axis=1)", "np.resize(a, (5, 7))", "np.append(a, a)",
            "np.append(a, a, axis=1)", "np.delete(a, 1, axis=2)", "np.delete(a, [0, 3], axis=-1)",
            "np.delete(a, slice(1, 3), 1)", "np.insert(a, 1, 5.0, axis=1)",
            "np.insert(a, [0, 2], a[0, :2, 0], axis=2)", "np.insert(a, 2, a[:, :, 0], axis=2)",
            "np.atleast_3d(a)", "np.size(a)", "np.shape(a)", "np.ndim(a)", "np.size(a, 1)",
            "np.split(a, 2, axis=2)", "np.split(a, [1, 2], axis=1)", "np.array_split(a, 3, axis=2)",
            "np.hsplit(a, 3)", "np.vsplit(a, 2)", "np.dsplit(a, 2)", "np.unstack(a, axis=1)",
            "np.diagonal(a)", "np.diagonal(a, 1, 1, 2)", "np.trace(a)", "np.trace(a, -1, 1, 2)",
            "np.concatenate([a, a], axis=-1)", "np.concatenate([a, a], axis=None)",
            "np.concatenate([a, a * 2], dtype=np.float32)", "np.concat([a, a], axis=2)",
            "np.stack([a, a], axis=-1)", "np.vstack([a, a])", "np.hstack([a, a])",
            "np.dstack([a, a])", "np.column_stack([a[0, 0], a[0]. T])",
            "np.atleast_1d(a[0, 0, 0], a)", "np.atleast_2d(a[0, 0])",
            "np.block([[a[0], a[1]], [a[1], a[0]]])",
        ],
        t,
    ),
    *each(
        [
            "np.hstack([a, a])", "np.vstack([a, a])", "np.dstack([a, a])", "np.diag(a)",
            "np.diag(a, 2)", "np.diag(a, -1)", "np.diagflat(a)", "np.vander(a)",
            "np.vander(a, 3, increasing=True)", "np.atleast_3d(a)", "np.atleast_2d(a)",
            "np.hsplit(a, [2])", "np.meshgrid(a, a[:2])",
            "np.meshgrid(a, a[:2], indexing='ij', sparse=True)", "np.concatenate([a, a[:0]])",
            "np.insert(a, [1, 3], [9.0, 8.0])", "np.insert(a, 1, [9.0, 8.0])", "np.delete(a, -1)",
            "np.insert(a, [1], [9.0, 8.0])", "np.insert(a, np.array([1, 0, 1, 0, 0], bool), 9.0)",
            "np.insert(a, [], [])", "np.delete(a, [])",
            "np.block([a, a[:2]])", "np.unstack(a)",
        ],
        v,
    ),
    *each(["np.diag(a)", "np.diag(a, 1)", "np.diag(a, -2)", "np.tril(a)", "np.triu(a, 1)",
           "np.tril(a, -1)", "np.triu(a, -1)", "np.tril(a, -2**62)", "np.triu(a, 2**62)"], m),
    *each(
        [
            f"np.pad(a, {width}, {mode})"
            for width in ("2", "(1, 2)", "((1, 0), (2, 3))")
            for mode in ("'edge'", "'reflect'", "'symmetric'", "'wrap'", "constant_values=1.5")
        ],
        m,
    ),
    *each(
        [
            f"np.pad(a, {width}, {mode})"
            for width in ("((1, 0), (2, 3))", "9")
            for mode in (
                "'linear_ramp'", "'linear_ramp', end_values=(3.0, -2.0)", "'maximum'", "'minimum'",
                "'mean', stat_length=((1, 9), (2, 3))", "'median', stat_length=2",
                "'reflect', reflect_type='odd'", "'symmetric', reflect_type='odd'",
            )
        ],
        m,
    ),
    *each(["np.pad(a, 2, 'mean')", "np.pad(a, 5, 'linear_ramp')", "np.pad(a, 1, 'median')",
           "np.pad(a, 4, 'reflect', reflect_type='odd')"], ki),
    *each(["np.pad(a, 1)", "np.pad(a, ((0, 1), (2, 0)), constant_values=((1, 2), (3, 4)))",
           "np.pad(a, {1: 2})"], m),
]  # fmt: skip

CREATION = each(
    [
        "np.zeros_like(a)", "np.ones_like(a)", "np.full_like(a, 2.5)", "np.full_like(a, a[0])",
        "np.zeros_like(a, dtype=int)", "np.ones_like(a, shape=(2, 2))", "np.copy(a)",
        "np.zeros(3, like=a)", "np.ones((2, 2), dtype=np.float32, like=a)",
        "np.full(3, 7, like=a)", "np.full((2, 5), a, like=a)", "np.eye(3, k=1, like=a)",
        "np.identity(2, like=a)", "np.tri(3, like=a)", "np.arange(2, 9, 3, like=a)",
        "np.arange(2, 9, 3, np.float32, like=a)", "np.arange(stop=9, start=2, like=a)",
        "np.eye(2, 3, k=10**30, like=a)", "np.tri(3, k=-2**62, like=a)",
        "np.linspace(a, 2.0, 4)", "np.linspace(a[0], a[1], 4, endpoint=False)",
        "np.linspace(a, a + 1, 3, axis=-1)", "np.linspace(a[0], 1.0, 4, retstep=True)",
        "np.logspace(a[0], 1.0, 4)", "np.geomspace(np.exp(a[0]), 9.0, 4)",
        "np.linspace(a[0], 1.0, 1)", "np.result_type(a, np.float32(1)) == np.float64",
        "np.astype(a, np.float32)", "np.can_cast(a, np.float32)", "np.empty_like(a).shape",
    ],
    v,
)  # fmt: skip

INDEXING = [
    *each(
        [
            "np.take(a, 2)", "np.take(a, [[0, 3], [1, 1]])", "np.take(a, [2, 0], axis=1)",
            "np.take(a, [5, -7], axis=1, mode='wrap')", "np.take(a, [9, -7], mode='clip')",
            "np.take_along_axis(a, np.argsort(a, axis=1), axis=1)",
            "np.take_along_axis(a, np.argmax(a, axis=0, keepdims=True), axis=0)",
            "np.take_along_axis(a, np.array([3, 1]), axis=None)",
            "np.compress([True, False, True], a, axis=0)", "np.sort(a)", "np.sort(a, axis=0)",
            "np.sort(a, axis=None)", "np.argsort(a, axis=0)", "np.lexsort(a)",
            "np.lexsort((a[0], a[1]))",
            "np.extract(np.arange(12) % 2 == 0, a)",
        ],
        m,
    ),
    case("np.searchsorted(np.sort(a), b)", v, w),
    case("np.searchsorted(np.sort(a), b, side='right')", k, k),
    case("np.digitize(a, np.array([-1.0, 0.0, 1.0]))", v),
    case("np.digitize(a, np.array([1.0, 0.0, -1.0]), right=True)", v),
    case("np.ix_(a[:2], a)", k),
    *each(
        [
            "np.nonzero(a)", "np.flatnonzero(a)", "np.argwhere(a)", "np.unique(a)", "np.where(a)",
            "np.unique(a, return_index=True, return_inverse=True, return_counts=True)",
            "np.extract(a > 0, a)", "np.compress(a > 0, a)", "np.trim_zeros(a)",
            "np.trim_zeros(np.pad(a, 2)[None], axis=1)", "np.zeros(a[2:3])",
            "np.delete(a, a[3])", "np.repeat(a, a[2])", "np.arange(int(a[0]), like=a)",
        ],
        k,
        needs_values=True,
    ),
]  # fmt: skip

CONTRACTION = [
    *each(
        ["np.dot(a, b)", "np.matmul(a, b)", "a @ b", "np.tensordot(a, b, 1)",
         "np.einsum('ij,jk->ki', a, b)", "np.einsum('ij,jk', a, b, optimize=True)", "np.kron(a, b)",
         "np.outer(a, b)", "np.linalg.matmul(a, b)", "np.linalg.multi_dot([a, b, b.T])",
         "np.matmul(a, np.stack([b, b]))"], m, n,
    ),
    *each(
        [
            "np.inner(a, b)", "np.vdot(a, b)", "np.outer(a, b)", "np.dot(a, b)", "np.vecdot(a, b)",
            "np.cross(a[:3], b[:3])", "np.correlate(a, b[:3])", "np.correlate(a, b[:3], 'same')",
            "np.correlate(a[:2], b, 'full')", "np.correlate(a[:2], b, 'same')",
            "np.convolve(a, b[:3])", "np.convolve(a[:2], b, 'same')", "np.convolve(a, b, 'valid')",
            "np.interp(a, np.cumsum(b), b)", "np.interp(a, np.cumsum(b), b, left=0.0, right=b[0])",
            "np.interp(a, np.cumsum(b), b, period=2.0)", "np.trapezoid(a)", "np.trapezoid(a, b)",
            "np.trapezoid(a, dx=0.1)", "np.cov(a, b)", "np.corrcoef(a, b)", "np.polyval(a, b)",
            "np.trapezoid(a, np.outer([1, 2], b))", "np.polyadd(a[:1], b[None])",
            "np.cov(a, aweights=b)", "np.cov(a)", "np.gradient(a, np.cumsum(b))",
            "np.gradient(a, np.array([9, 7, 4, 3, 1], np.uint8))",
            "np.ediff1d(a, to_begin=b[0], to_end=b[:2])", "np.diff(a, prepend=b[0])",
            "np.diff(a, append=b)", "np.diff(a, 0, prepend=b[0], append=b) + 0.0",
        ],
        v, w,
    ),
    *each(
        ["np.diff(a)", "np.diff(a, 2, axis=0)", "np.gradient(a)", "np.gradient(a, 2.0, axis=1)",
         "np.gradient(a, 0.5, np.array([0.0, 1, 3, 4]))", "np.gradient(a, edge_order=2)",
         "np.ediff1d(a)", "np.trapezoid(a, axis=0)", "np.trapezoid(a, np.arange(3.0), axis=0)",
         "np.cov(a)", "np.cov(a, rowvar=False, bias=True)", "np.corrcoef(a)",
         "np.cross(a[:, :3], a[:, 1:])", "np.einsum('ij->j', a)", "np.einsum('ij,ij->', a, a)",
         "np.cov(a, fweights=np.array([1, 2, 1, 3]))"], m,
    ),
    case("np.diff(a)", kb),
    case("np.interp(a, [1, 2, 3, 4], [1, np.nan, 3, 4])", np.array([1, 2, 2.5, 3.5, np.nan])),
    case("np.interp(a, [1, 2, 3, 4], [1, 2, np.inf, 4])", np.array([1.0, 2.0, 2.5, np.nan, 0, 9])),
    case("np.interp(a, [1, 2, 3], [1j, 2, np.inf * 1j])", np.array([1.0, 2.0, 2.5, np.nan, 0, 9])),
    case("np.histogram(a, [0, 2, 3], weights=b)", np.array([1.3, 2.5, 2.3]),
         np.array([1 + 2j, -1 + 1j, 2 + 2j])),
]  # fmt: skip

LINALG = [
    *each(
        ["np.linalg.inv(a)", "np.linalg.det(a)", "np.linalg.slogdet(a)",
         "np.linalg.matrix_power(a, 3)",
         "np.linalg.matrix_power(a, -2)", "np.linalg.solve(a, a[0])", "np.linalg.solve(a, a.T)",
         "np.linalg.trace(a)", "np.linalg.diagonal(a)", "np.linalg.cond(a, 1)",
         "np.linalg.tensorinv(a, ind=1)", "np.linalg.tensorsolve(a, a[0])"], sq,
    ),
    *each(
        ["np.linalg.cholesky(a)", "np.linalg.cholesky(a, upper=True)", "np.linalg.eigh(a)",
         "np.linalg.eigh(a, 'U')", "np.linalg.eigvalsh(a)", "np.linalg.svd(a, hermitian=True)",
         "np.linalg.pinv(a - 9 * np.eye(3), hermitian=True)",
         "np.linalg.matrix_rank(a, hermitian=True)",
         "np.linalg.svd(a - 9 * np.eye(3), compute_uv=False, hermitian=True)"], spd,
    ),
    *each(
        ["np.linalg.svd(a)", "np.linalg.svd(a, full_matrices=False)",
         "np.linalg.svd(a, compute_uv=False)", "np.linalg.svdvals(a)", "np.linalg.qr(a)",
         "np.linalg.qr(a.T, 'complete')", "np.linalg.qr(a, mode='r')", "np.linalg.pinv(a)",
         "np.linalg.pinv(a, 0.5)", "np.linalg.pinv(a, rtol=None)", "np.linalg.lstsq(a, a[:, 0])",
         "np.linalg.lstsq(a, a[:, 0], 1.0)", "np.linalg.lstsq(a, a[:, 0], -1)",
         "np.linalg.lstsq(a.T, a.T[:, :2])", "np.linalg.lstsq(a.T, a[0], 1e-3)",
         "np.linalg.matrix_rank(a)", "np.linalg.matrix_rank(a, 2.5)", "np.linalg.matrix_rank(a[0])",
         "np.linalg.matrix_rank(a, rtol=0.5)", "np.linalg.cond(a)", "np.linalg.cond(a, -2)",
         "np.linalg.norm(a, 2)", "np.linalg.norm(a, -2)", "np.linalg.norm(a, 'nuc')"], m,
    ),
    *each(["np.linalg.eig(a)", "np.linalg.eigvals(a)", "np.poly(a)"], sq - 4 * np.eye(3) + spd),
    *each(["np.linalg.eigvals(a)", "np.poly(a)"], np.stack([sq[1], -sq[0], sq[2]])),
    *each(["np.roots(a)", "np.poly(a)"], w),
    *each(["np.polyfit(a, b, 2)", "np.polyfit(a, b, 1, cov=True)", "np.polyfit(a, b, 1, w=b)",
           "np.polyfit(a, np.stack([b, a], 1), 2, full=True)[:4]",
           "np.polyfit(a, b, 1, cov='unscaled')"], v, w),
    *each(
        ["np.linalg.cond(a, 'nuc')", "np.linalg.cond(a, 'fro')", "np.linalg.cond(a, -1)"], sq,
    ),
    *each(
        ["np.linalg.svd(a, False)", "np.linalg.qr(a)", "np.linalg.norm(a, 'nuc', axis=(0, 2))",
         "np.linalg.norm(a, 2, axis=(2, 0), keepdims=True)", "np.linalg.matrix_norm(a, ord=-2)",
         "np.linalg.pinv(a, np.array([0.5, 0.1]))", "np.linalg.matrix_rank(a)"], t,
    ),
    *each(
        [f"np.linalg.norm(a, {order}, axis={axis})" for order in (None, 1, 2, 3, 0.5, np.inf, 0)
         for axis in (0, 1)], m,
    ),
    *each(
        ["np.linalg.norm(a)", "np.linalg.norm(a, 'fro')", "np.linalg.norm(a, 1)",
         "np.linalg.norm(a, -1)", "np.linalg.norm(a, axis=1, keepdims=True)",
         "np.linalg.norm(a, keepdims=True)", "np.linalg.vector_norm(a)",
         "np.linalg.vector_norm(a, ord=3)", "np.linalg.matrix_norm(a)"], m,
    ),
    case("np.linalg.norm(a, np.inf)".replace("np.inf", "float('inf')"), m),
    case("np.linalg.norm(a)", t),
    case("np.linalg.norm(a, axis=(0, 2))", t),
]  # fmt: skip

METHODS = [
    *each(
        [
            "a.T", "a.mT", "a.sum()", "a.sum(0)", "a.sum(axis=1, keepdims=True)", "a.mean(1)",
            "a.std(axis=0, ddof=1)", "a.var()", "a.prod(1)", "a.max()", "a.min(axis=1)",
            "a.any()", "a.all(1)", "a.argmax()", "a.argmin(axis=0)", "a.cumsum()", "a.cumsum(1)",
            "a.cumprod(axis=0)", "a.reshape(4, 3)", "a.reshape((2, -1))", "a.reshape(-1)",
            "a.reshape(4, 3, order='F')", "a.ravel()", "a.flatten()", "a.flatten('F')",
            "a.transpose()", "a.transpose(1, 0)", "a.transpose((1, 0))", "a.swapaxes(0, 1)",
            "a.squeeze()", "a.astype(np.float32)", "a.astype(int)", "a.copy()", "a.clip(-1, 1)",
            "a.clip(min=0)", "a.dot(a.T)", "a.round()", "a.round(1)", "a.argsort()",
            "a.repeat(2, axis=1)", "a.take([0, 1], axis=1)", "a.trace()", "a.diagonal()",
            "a.conj()", "a.real", "a.imag", "a[0].searchsorted(0.5)",
            "a.compress([True, False], 0)",
            "a.size", "a.shape", "a.ndim", "a.itemsize", "a.nbytes", "abs(a)", "-a", "a ** 2",
            "a.sum(dtype=np.float32)", "a.max(initial=3.0, where=a > 0)", "a.mean(where=a > 0)",
        ],
        m,
    ),
    *each(
        [
            "np.add.reduce(a)", "np.add.reduce(a, axis=None)",
            "np.add.reduce(a, axis=1, keepdims=True)",
            "np.multiply.reduce(a, axis=(0, 1))", "np.maximum.reduce(a, axis=1)",
            "np.minimum.reduce(a, initial=0.1)", "np.logical_and.reduce(a > 0, axis=0)",
            "np.logical_or.reduce(a > 0)", "np.logaddexp.reduce(a, axis=1)",
            "np.logaddexp.reduce(a, axis=1, initial=2.0, where=a > 0)",
            "np.hypot.reduce(a, initial=3.0)", "np.hypot.reduce(a, where=a > 1)",
            "np.maximum.reduce(a, dtype=np.float32)",
            "np.hypot.reduce(-a[:1])", "np.hypot.reduce(a, 1)", "np.hypot.reduce(-a, axis=())",
            "np.gcd.reduce(np.rint(-a[:1]).astype(int))", "np.add.accumulate(a)",
            "np.add.reduceat(a, [0, 2, 1])", "np.multiply.reduceat(a, [1, 0, 0], axis=1)",
            "np.maximum.reduceat(a, [0, 1])", "np.add.reduceat(a > 0, [0, 1])",
            "np.multiply.accumulate(a, axis=1)", "np.maximum.accumulate(a, 1)",
            "np.minimum.accumulate(a)", "np.subtract.outer(a[0], a)",
            "np.multiply.outer(a[0], a[1])",
            "np.add(a, 1, dtype=np.float32)", "np.fmax.reduce(a)", "np.bitwise_and.reduce(a > 0)",
            "np.add.reduce(a, dtype=np.float32)", "np.add.reduce(a, where=a > 0)",
        ],
        m,
    ),
    case("np.add.reduce(a)", ki.astype(np.int8)),
    case("np.bitwise_or.reduce(a, axis=1)", ki),
]  # fmt: skip

OTHERS = [
    *each(
        [
            "np.apply_along_axis(np.sum, 0, a)", "np.apply_along_axis(np.cumsum, 1, a)",
            "np.apply_along_axis(np.diag, 1, a)", "np.apply_over_axes(np.sum, a, [0, 1])",
            "np.apply_along_axis(lambda r, s: r * s, -1, a, 3.0)",
            "np.isin(a, a[0])", "np.isin(a, [1, 2], invert=True)",
        ],
        m,
    ),
    *each(
        [
            "np.polyadd(a, b[:2])", "np.polysub(a[:1], b)", "np.polymul(a, b[:3])",
            "np.polyder(a)", "np.polyder(a, 2)", "np.polyint(a)", "np.polyint(a, 2, k=[1.0, 2.0])",
            "np.bincount(np.array([0, 2, 2, 5, 0]), a)", "np.unwrap(a * 5)",
            "np.partition(np.sort(a), 2)", "np.argpartition(np.sort(a), 2)",
        ],
        v, w,
    ),
    *each(
        [
            "np.bincount(abs(a))", "np.sort(np.unique_values(a))",
            "np.unique_counts(a)", "np.unique_inverse(a)", "np.unique_all(a)",
        ],
        k,
        needs_values=True,
    ),
    case("np.bincount(a, minlength=9)", np.array([8, 1, 1])),
    *each(
        [
            "np.interp(a, np.cumsum(b), b, left=1.0, period=2.0)", "a.transpose(np.int64(0))",
            "np.vecdot(a, b, axis=0, keepdims=True)", "np.gradient(a, axis=())",
            "np.tensordot(a, b, axes=(range(1), range(1)))", "np.logaddexp.accumulate(a)",
            "np.logaddexp2.reduce(a)", "np.hypot.reduce(a)", "np.linspace(a[0], b, 0)",
            "np.logspace(0.0, a, 3, base=b)", "np.trapezoid(a[:0])",

            "np.signbit(np.clip(a * 0.0, 0, 100))", "np.unwrap(a * 5, period=3.0, discont=2.5)",
        ],
        v, w,
    ),
    case("np.unwrap(a, period=4)", k),
    *each(
        ["np.median(a[:0])", "np.median(np.append(a, [np.inf] * 7))", "np.angle(a * np.nan)",
         "np.cov(a[0, :1])"], f32,
    ),
    *each(
        [
            "np.nanquantile(a, 0.3, axis=1)", "np.nanquantile(a, [0.2, 0.9])",
            "np.nanpercentile(a, 60, axis=0, keepdims=True)",
        ],
        holes,
    ),
    *each(
        ["np.tril_indices_from(a)", "np.triu_indices_from(a, 1)", "np.diag_indices_from(a[:, :3])"],
        m,
    ),
]  # fmt: skip

z = v + 1j * w
zm = m + 1j * m[::-1]
zsq = sq + 1j * sq.T / 3
hermitian = zsq @ zsq.conj().T
z64 = z.astype(np.complex64)

COMPLEX = [
    *each(
        [
            "np.real(a)", "np.imag(a)", "a.real", "a.imag", "np.conj(a)", "a.conj()",
            "a.conjugate()", "np.abs(a)", "abs(a)", "np.absolute(a) ** 2", "np.angle(a)",
            "np.angle(a, deg=True)", "np.sign(a)", "np.isreal(a)", "np.iscomplex(a)",
            "np.iscomplexobj(a)", "np.isrealobj(a)", "a + 1", "1j * a", "a - 2.5", "2 / a",
            "a / (1 - 1j)", "a ** 2", "a ** -3", "a ** 0.5", "a ** 2.5", "a ** (1 + 2j)", "2 ** a",
            "np.exp(a)", "np.exp2(a)", "np.expm1(a)", "np.log(a)", "np.log2(a)", "np.log10(a)",
            "np.log1p(a)", "np.sqrt(a)", "np.square(a)", "np.reciprocal(a)", "np.sin(a)",
            "np.cos(a)", "np.tan(a)", "np.arcsin(a)", "np.arccos(a)", "np.arctan(a)", "np.sinh(a)",
            "np.cosh(a)", "np.tanh(a)", "np.arcsinh(a)", "np.arccosh(a)", "np.arctanh(a)",
            "np.sinc(a)", "np.power(a, 3)", "np.float_power(a, 2)", "a == a.conj()", "a != 1j",
            "np.less(a, a.conj())", "np.maximum(a, 1j)", "np.minimum(a, a[::-1])",
            "np.fmax(a, 0.3)", "np.clip(a, -0.1, 0.5)", "np.round(a, 1)", "np.rint(a)",
            "np.isnan(a)", "np.isinf(a)", "np.isfinite(a)", "np.nan_to_num(a)",
            "np.logical_and(a, 1)", "np.logical_not(a)", "np.positive(a)", "-a",
            "np.where(a.real > 0, a, 0)", "np.where(a.real > 0, a.imag, a)",
            "np.isclose(a, a + 1e-9j)", "np.allclose(a, a)", "np.array_equal(a, a)",
            "np.sum(a)", "np.prod(a)", "np.mean(a)", "np.var(a)", "np.std(a)", "np.var(a, ddof=1)",
            "np.max(a)", "np.min(a)", "np.argmax(a)", "np.argmin(a)", "np.sort(a)",
            "np.argsort(a)", "np.any(a)", "np.all(a)", "np.count_nonzero(a)", "np.cumsum(a)",
            "np.cumprod(a)", "np.ptp(a)", "np.average(a, weights=np.arange(1.0, 6))",
            "np.nansum(a)", "np.nanmean(a)", "np.nanvar(a)", "np.diff(a)", "np.gradient(a)",
            "np.trapezoid(a)", "np.vdot(a, a[::-1])", "np.vecdot(a, a[::-1])", "np.dot(a, a)",
            "np.inner(a, a[::-1])", "np.outer(a, a)", "np.kron(a, a)", "np.correlate(a, a[:3])",
            "np.convolve(a, a[:3])", "np.einsum('i,j->ij', a, a.conj())", "np.tensordot(a, a, 1)",
            "np.linalg.norm(a)", "np.linalg.norm(a, 1)", "np.linalg.norm(a, 3)",
            "np.linalg.norm(a, np.inf)", "np.linalg.norm(a, 0)", "np.polyval(a, 0.3j)",
            "np.vander(a)", "np.interp([0.1, 2.5], [0, 1, 2, 3, 4], a)", "np.pad(a, 2)",
            "np.concatenate([a, a.real])", "np.stack([a, np.zeros(5)])", "np.flip(a)",
            "np.roll(a, 2)", "np.take(a, [0, 3])", "a[1:3]", "a[[3, 0]]", "a.reshape(5, 1)",
            "a.astype(np.complex64)", "np.sum(a, where=a.real > 0)",
            "np.add.reduce(a)", "np.multiply.accumulate(a)", "np.add.outer(a, a)",
            "np.full_like(a, 2j)", "np.zeros_like(a)", "np.ones_like(a)", "np.diag(a)",
            "a.T", "a * np.float32(2)", "a.sum().real",
        ],
        z,
    ),
    *each(
        [
            "np.linalg.inv(a)", "np.linalg.det(a)", "np.linalg.slogdet(a)",
            "np.linalg.solve(a, a[0])", "np.linalg.solve(a, a.conj())",
            "np.linalg.matrix_power(a, 3)", "np.linalg.matrix_power(a, -2)", "np.linalg.norm(a)",
            "np.linalg.norm(a, 1)", "np.linalg.cond(a, 'fro')", "np.trace(a)", "a @ a",
            "np.vecmat(a[0], a)", "np.matvec(a, a[0])", "np.linalg.multi_dot([a, a, a[0]])",
            "np.linalg.cholesky(a @ a.conj().T + 2 * np.eye(3))",
            "np.linalg.cholesky(a @ a.conj().T + 2 * np.eye(3), upper=True)", "np.cov(a)",
            "np.corrcoef(a)", "np.linalg.matrix_norm(a, ord=np.inf)", "np.linalg.vector_norm(a)",
            "np.linalg.tensorinv(a.reshape(3, 3, 1, 1)[:, :, 0, 0], 1)",
        ],
        zsq,
    ),
    *each(["np.sum(a * b)", "a * b", "a - b", "b / a", "np.dot(a, b)"], z, v),
    case("b ** a", z, w),
    case("a ** 1j", w),
    *each(["a + 1j", "a * 2j", "abs(a)", "np.var(a)", "np.exp(a)", "np.sum(a)", "a * 1.5"], z64),
    *each(
        ["a * 1j", "np.exp(1j * a)", "a + 0j", "np.sum(np.exp(2j * a)).real",
         "np.array_equal(a, a + 0j)", "np.iscomplexobj(a)"], v,
    ),
    *each(["a * 1j", "np.exp(1j * a)", "a / 2j"], f32),
    *each(["a * 1j", "a + 1.5j"], ki),
    *each(["np.linalg.cholesky(a)", "np.linalg.cholesky(a, upper=True)"], hermitian),
]  # fmt: skip

GROUPS = {
    "complex": COMPLEX,
    "others": OTHERS,
    "reductions": REDUCTIONS,
    "options": OPTIONS,
    "elementwise": ELEMENTWISE,
    "shapes": SHAPES,
    "creation": CREATION,
    "indexing": INDEXING,
    "contraction": CONTRACTION,
    "linalg": LINALG,
    "methods": METHODS,
    "edges": EDGES,
}
CASES = [case for group in GROUPS.values() for case in group]
