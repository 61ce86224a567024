"""Calls of `numpy`'s functions."""

import numpy as np

from functrans import numpy as fnp

NAME = "numpy"
THEIRS = {"np": np}
OURS = {"np": np}
SIZING = {"np": fnp}

CALLS = """
np.all(b)  np.allclose(x, y)  np.amax(x)  np.amin(x)  np.angle(x)  np.any(b)  np.append(x, y)
np.apply_along_axis(np.sum, 0, m)  np.apply_over_axes(np.sum, m, 0)  np.arange(3) * x[0]
np.argmax(x)  np.argmin(x)  np.argpartition(x, 2)  np.argsort(x)  np.around(x, 1)
np.array([x[0], y[1]])  np.array2string(x)  np.array_equal(x, y)  np.array_equiv(x, y)
np.array_repr(x)  np.array_split(x, 2)  np.array_str(x)  np.asanyarray([x[0], 1])
np.asarray([x[0], 1.0])  np.asarray_chkfinite(x)  np.ascontiguousarray([x[0]])
np.asfortranarray(m)  np.astype(x, np.float32)  np.atleast_1d(x[0])  np.atleast_2d(x)
np.atleast_3d(x)  np.average(x, weights=y)  np.bartlett(5) * x  np.base_repr(5)
np.binary_repr(5)  np.bincount(k, x, minlength=6)  np.blackman(5) * x  np.block([[x, y], [y, x]])
np.broadcast_arrays(x, m[:, :1])  np.broadcast_shapes(x.shape, (1,))  np.broadcast_to(x, (2, 5))
np.can_cast(x, np.float64)  np.choose(k % 2, [x, y])  np.clip(x, -0.5, y)
np.column_stack([x, y])  np.common_type(x, y)  np.compress([True, False, True], x)
np.concat([x, y])  np.concatenate([x, y])  np.convolve(x, y)  np.copy(x)  np.corrcoef(m)
np.correlate(x, y)  np.count_nonzero(x)  np.cov(m)  np.cross(x[:3], y[:3])  np.cumprod(x)
np.cumsum(x)  np.cumulative_prod(x)  np.cumulative_sum(x)  np.delete(x, 1)  np.diag(x)
np.diag_indices_from(s)  np.diagflat(x)  np.diagonal(m)  np.diff(x)  np.digitize(x, [-1.0, 0, 1])
np.dot(x, y)  np.dsplit(m[None] + np.zeros((1, 3, 4)), 2)  np.dstack([x, y])  np.ediff1d(x)
np.einsum('i,i', x, y)  np.einsum_path('i,i', x, y)  np.empty((0, 3)) * x[0]
np.empty_like(x[:0])  np.expand_dims(x, 0)  np.extract([True, False, True, True, True], x)
np.eye(5) * x  np.fix(x)  np.flip(x)  np.fliplr(m)  np.flipud(m)  np.from_dlpack(x.copy())
np.fromfunction(lambda i, j: i * x[0] + j, (2, 3))  np.fromiter((v for v in x), float)
np.full(3, x[0])  np.full_like(x, y[0])  np.geomspace(y[0], y[1], 4)  np.gradient(x)
np.hamming(5) * x  np.hanning(5) * x  np.histogram(x, 4, weights=y)
np.histogram2d(x, y, 3)  np.histogram_bin_edges(x, 4)  np.histogramdd([x, y], 3)  np.hsplit(m, 2)
np.hstack([x, y])  np.i0(x)  np.identity(5) * x  np.imag(x)  np.indices((5,)) * x  np.inner(x, y)
np.insert(x, 1, y[0])  np.interp(x, np.arange(5.0), y)  np.isclose(x, y)  np.iscomplex(x)
np.iscomplexobj(x)  np.isfortran(m)  np.isin(x, y)  np.isneginf(x)  np.isposinf(x)  np.isreal(x)
np.isrealobj(x)  np.isscalar(x[0])  np.iterable(x)  np.ix_(k, k)  np.kaiser(5, y[0])
np.kron(x, y)  np.lexsort((x, y))  np.linspace(x[0], x[1], 4)  np.logspace(x[0], x[1], 4)
np.mask_indices(3, np.triu)  np.matrix(m)  np.matrix_transpose(m)  np.max(x)
np.may_share_memory(x, y)  np.mean(x)  np.median(x)  np.meshgrid(x, y)  np.min(x)
np.min_scalar_type(x)  np.moveaxis(m, 0, 1)  np.nan_to_num(x)  np.nanargmax(x)  np.nanargmin(x)
np.nancumprod(x)  np.nancumsum(x)  np.nanmax(x)  np.nanmean(x)  np.nanmedian(x)  np.nanmin(x)
np.nanpercentile(x, 30)  np.nanprod(x)  np.nanquantile(x, 0.3)  np.nanstd(x)  np.nansum(x)
np.nanvar(x)  np.ndim(x)  np.nditer(x)  np.ones(5) * x  np.ones_like(x)  np.outer(x, y)
np.packbits(b)  np.pad(x, 2)  np.partition(x, 2)  np.percentile(x, 30)  np.permute_dims(m, (1, 0))
np.piecewise(x, [x < 0], [lambda v: -v, lambda v: v])  np.poly(x)  np.polyadd(x, y)
np.polyder(x)  np.polyfit(x, y, 2)  np.polyint(x)  np.polymul(x, y)  np.polysub(x, y)
np.polyval(x, y)  np.prod(x)  np.ptp(x)  np.quantile(x, 0.3)  np.ravel(m)
np.ravel_multi_index((k % 3, k % 2), (3, 2))  np.real(x)  np.real_if_close(x)  np.repeat(x, 2)
np.require(x, np.float32)  np.reshape(m, (4, 3))  np.resize(x, (2, 3))  np.result_type(x, y)
np.roll(x, 1)  np.rollaxis(m, 1)  np.rot90(m)  np.round(x, 1)  np.row_stack([x, y])
np.searchsorted(np.arange(5.0), x)  np.select([x > 0], [x], -1.0)  np.shape(x)
np.shares_memory(x, y)  np.sinc(x)  np.size(x)  np.sort(x)  np.sort_complex(x)  np.split(x, [2])
np.squeeze(x[None])  np.stack([x, y])  np.std(x)  np.sum(x)  np.swapaxes(m, 0, 1)
np.take(x, [0, 2])  np.take_along_axis(x, k, 0)  np.tensordot(x, y, 1)  np.tile(x, 2)
np.trace(m)  np.transpose(m)  np.trapezoid(x)  np.tri(5) * x  np.tril(m)  np.tril_indices_from(s)
np.triu(m)  np.triu_indices_from(s)  np.unpackbits(u)  np.unravel_index(k % 6, (3, 2))
np.unstack(m)  np.unwrap(x)  np.vander(x)  np.var(x)  np.vdot(x, y)
np.vectorize(lambda v: v * v)(x)  np.vsplit(m, 3)  np.vstack([x, y])  np.where(x > 0, x, y)
np.zeros(5) + x  np.zeros_like(x)
np.ndenumerate(x).__next__()[1]
np.busday_count(x, y)  np.busday_offset(x, y)  np.datetime_as_string(x)  np.is_busday(x)
np.isnat(x)  np.save('f', x)  np.savetxt('f', x)  np.savez('f', x)  np.savez_compressed('f', x)
np.bmat([[x]])  np.asmatrix(m)  np.broadcast(x, y)  np.poly1d(x)(y)  np.roots(x)
np.frompyfunc(lambda v: v, 1, 1)(x)  np.nested_iters([x, y], [[0], []])
np.acosh(y + 1)  np.arccosh(y + 1)  np.matvec(m, m[0])  np.vecmat(m[:, 0], m)
"""
"""One call of each function on `tests.surface.calls.OPERANDS`; there are two blanks between."""

IN_PLACE = """
np.copyto(a, x)  np.fill_diagonal(a, x[0])  np.place(a, a > 0, x)  np.put(a, [0, 2], x[:2])
np.put_along_axis(a, np.array([[0, 1, 2, 1, 0]]), x, 0)  np.putmask(a, a > 0, x)
"""
"""Functions that assign to a matrix ``a``."""

SIZED = """
np.argwhere(b, size=3)  np.flatnonzero(b, size=3)  np.intersect1d(k, x, size=3)
np.nonzero(b, size=3)  np.setdiff1d(k, x, size=3)  np.setxor1d(k, x, size=3)
np.union1d(k, x, size=3)  np.unique(k, size=3)  np.unique_all(k, size=3)
np.unique_counts(k, size=3)  np.unique_inverse(k, size=3)  np.unique_values(k, size=3)
"""
"""Functions whose results have a size that depends on the elements."""

KNOWN = """
np.polydiv(x, y[:2])  np.trim_zeros(k)
"""
"""Functions that take values that are known, as under `grad`."""

NO_ARRAYS = """
__array_namespace_info__ base_repr binary_repr broadcast_shapes busdaycalendar datetime_data
diag_indices dtype errstate finfo flatiter format_float_positional format_float_scientific
frombuffer fromfile fromregex fromstring genfromtxt get_include get_printoptions getbufsize geterr
geterrcall iinfo info isdtype issubdtype load loadtxt mask_indices memmap mintypecode ndarray
ndindex printoptions promote_types recarray set_printoptions setbufsize seterr seterrcall
show_config show_runtime test tril_indices triu_indices typename ufunc
"""
"""Functions that are not about arrays, or read them from elsewhere: they are NumPy's."""


def public():
    """Its functions: what can be called, but for dtypes and errors."""
    return sorted(
        name
        for name in np.__all__
        if callable(found := getattr(np, name))
        and not (isinstance(found, type) and issubclass(found, (np.generic, BaseException)))
    )
