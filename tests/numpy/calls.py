"""Calls of NumPy functions to be tested with every dtype, as expressions in ``a`` and ``b``.

Each group defines the arrays that its calls take; `arrays` draws them.
"""

import numpy as np

DTYPES = [np.dtype(name) for name in "? b h i q B H I Q e f d F D".split()]

# -- calls -----------------------------------------------------------------------------------------

_UFUNCS = """
absolute arccos arccosh arcsin arcsinh arctan arctanh bitwise_count cbrt ceil conjugate cos cosh
deg2rad exp exp2 expm1 fabs floor invert isfinite isinf isnan log log10 log1p log2 logical_not
negative positive rad2deg reciprocal rint sign signbit sin sinh spacing sqrt square tan tanh trunc
""".split()

_PAIRS = """
add arctan2 bitwise_and bitwise_or bitwise_xor copysign divide equal float_power floor_divide fmax
fmin fmod gcd greater greater_equal heaviside hypot lcm left_shift less less_equal logaddexp
logaddexp2 logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal power
remainder right_shift subtract
""".split()

_REDUCTIONS = "sum prod mean var std max min ptp any all median count_nonzero average".split()
_NAN = "sum prod mean var std max min median".split()

ANY = [
    *(f"np.{name}(a)" for name in _UFUNCS),
    "np.frexp(a)", "np.modf(a)", "np.ldexp(a, 2)",
    *(f"np.{name}(a, b)" for name in _PAIRS),
    *(f"a {op} 2" for op in "+ - * / // % ** & | ^ < >= ==".split()),
    *(f"2 {op} a" for op in "+ - * / // % ** & | ^ < >= ==".split()),
    *(f"a {op} 1.5" for op in "+ * / ** <".split()),
    "a ** 3", "a ** 0", "a ** 0.5", "a << 1", "a >> 1", "divmod(a, 2)", "abs(a)", "-a", "+a", "~a",
    "a == b", "a + True", "a * np.float32(2)", "a + np.int8(1)", "a - np.uint16(3)",
    *(f"np.{name}(a)" for name in _REDUCTIONS),
    *(f"np.{name}(a, keepdims=True)" for name in _REDUCTIONS),
    *(f"np.nan{name}(a)" for name in _NAN),
    *(f"np.{name}(a, dtype=np.float32)" for name in "sum prod mean var std cumsum".split()),
    "np.sum(a, dtype=np.int16)", "np.var(a, ddof=1)", "np.sum(a, initial=3)",
    "np.max(a, initial=0)", "np.cumsum(a)", "np.cumprod(a)", "np.nancumsum(a)", "np.nancumprod(a)",
    "np.argmax(a)", "np.argmin(a, keepdims=True)", "np.mean(a, where=a > 0)",
    "np.sum(a, where=a > 0)", "np.average(a, weights=b)",
    "np.average(a, weights=np.ones(a.shape, np.float32))",
    "np.quantile(a, 0.3)", "np.quantile(a, [0.25, 0.5])", "np.percentile(a, 30)",
    "np.percentile(a, np.array([20, 70], np.float32))", "np.percentile(a, 40, method='lower')",
    "np.quantile(a, 0.4, method='midpoint')", "np.nanquantile(a, 0.3)",
    "np.nanpercentile(a, [30, 60])",
    "np.round(a)", "np.round(a, 1)", "np.round(a, -1)", "np.fix(a)", "np.sinc(a)",
    "np.i0(a)", "np.angle(a)",
    "np.angle(a, deg=True)", "np.real(a)", "np.imag(a)", "np.isreal(a)", "np.iscomplex(a)",
    "np.real_if_close(a)", "np.isposinf(a)", "np.isneginf(a)", "np.nan_to_num(a)",
    "np.clip(a, 1, 3)", "np.clip(a, -2, 3)", "np.clip(a, 0.5, 2.5)", "np.clip(a, None, 3)",
    "np.clip(a, 0, None)", "np.clip(a, 0, 300)", "np.clip(a, b, 5)",
    "np.where(a, a, 0)", "np.where(a > 1, a, 1.5)", "np.where(a > 1, a, b)",
    "np.select([a > 1, a > 0], [a, b], 7)", "np.isclose(a, b)", "np.isclose(a, a)",
    "np.allclose(a, a)", "np.array_equal(a, b)", "np.choose(a > 1, [a, b])",
    "np.zeros_like(a)", "np.ones_like(a)", "np.full_like(a, 2)", "np.copy(a)",
    "np.float32(a)", "np.int64(a)", "np.complex64([a, a])", "np.bool_(a) + np.int8(a > 1)",
    "np.astype(a, np.float32)", "np.astype(a, np.int8)", "a.astype(bool)", "a.astype(None)",
    "np.ravel(a)", "np.reshape(a, -1)", "np.expand_dims(a, 0)", "np.atleast_1d(a)",
    "np.atleast_2d(a)", "np.atleast_3d(a)", "np.broadcast_to(a, (2, *a.shape))", "np.stack([a, b])",
    "np.tile(a, 2)", "np.repeat(a, 2)", "np.append(a, 1.5)", "np.transpose(a)", "np.squeeze(a)",
    "np.flip(a)", "np.roll(a, 1)", "np.pad(a, 1)", "np.resize(a, (2, 3))",
    "np.linspace(a, b, 3)", "np.linspace(a, 10, 4, dtype=int)", "np.linspace(a, b, 0)",
    "np.logspace(a, 1, 3)", "np.outer(a, b)", "np.vdot(a, b)", "np.kron(a, b)",
    "np.tensordot(a, b, 0)", "np.dot(a, 2)", "np.multiply.outer(a, b)", "np.linalg.norm(a)",
    "np.linalg.vector_norm(a)", "np.linalg.vector_norm(a, ord=1)",
    "np.linalg.vector_norm(a, ord=np.inf)", "np.interp(a, [0, 2, 4], [1.0, 3.0, 2.0])",
    "np.interp(a, [0, 2, 4], np.array([1, 3, 2], np.float32))", "np.polyval([2, 1], a)",
    "np.polyval(np.array([1.5, 2], np.float32), a)", "np.isin(a, [1, 3])",
    "np.searchsorted([0, 1, 3], a)", "np.digitize(a, [1, 3, 5])", "np.result_type(a, 1.5)",
    "np.piecewise(a, [a > 1], [lambda x: x * 2, -1])", "np.heaviside(a, 0.5)",
    "np.add(a, b, dtype=np.float64)",
]  # fmt: skip

AXIS = [
    *(f"np.{name}(a, axis=-1)" for name in _REDUCTIONS),
    *(f"np.nan{name}(a, axis=0)" for name in _NAN),
    "np.sort(a)", "np.argsort(a, axis=0, stable=True)", "np.cumsum(a, axis=0)",
    "np.cumprod(a, axis=-1)", "np.cumulative_sum(a, axis=0, include_initial=True)",
    "np.cumulative_prod(a, axis=0)", "np.argmax(a, axis=-1)", "np.nanargmax(a, axis=-1)",
    "np.diff(a)", "np.diff(a, prepend=1)", "np.ediff1d(a)", "np.gradient(a, axis=0)",
    "np.gradient(a, 2, axis=-1, edge_order=2)", "np.gradient(a, axis=())",
    "np.gradient(a, np.float32(2), axis=0)",
    "np.trapezoid(a)", "np.trapezoid(a, dx=2)", "np.trapezoid(a, b)", "np.unwrap(a)",
    "np.take(a, [0, 1], axis=0)", "np.concatenate([a, b])", "np.concatenate([a, a], dtype=float)",
    "np.vecdot(a, b)", "np.vecdot(a, b, axis=0)", "np.inner(a, b)", "np.linalg.norm(a, axis=0)",
    "np.linalg.norm(a, 1, axis=0)", "np.linalg.norm(a, np.inf, axis=0)",
    "np.linalg.norm(a, 0, axis=0)", "np.linalg.norm(a, 3, axis=0)", "np.add.reduce(a)",
    "np.multiply.reduce(a)", "np.maximum.reduce(a)", "np.minimum.reduce(a, initial=2)",
    "np.logical_and.reduce(a)", "np.logical_or.reduce(a)", "np.bitwise_and.reduce(a)",
    "np.bitwise_xor.reduce(a)", "np.logaddexp.reduce(a)", "np.logaddexp2.reduce(a)",
    "np.hypot.reduce(a)", "np.fmax.reduce(a)", "np.add.accumulate(a)", "np.multiply.accumulate(a)",
    "np.maximum.accumulate(a)", "np.logaddexp.accumulate(a)", "np.logical_xor.accumulate(a)",
    "np.bitwise_or.accumulate(a)", "np.fmin.accumulate(a)", "np.hypot.accumulate(a)",
    "np.delete(a, 0, axis=0)", "np.insert(a, 0, 1, axis=0)", "np.fliplr(np.atleast_2d(a))",
    "np.median(a, axis=0, keepdims=True)", "np.quantile(a, 0.5, axis=0)", "np.lexsort((a, b))",
    "np.partition(np.sort(a), 0)", "np.apply_along_axis(np.sum, 0, a)", "a[::-1]", "a[a.shape[0]:]",
    "np.vstack([a, b])", "np.hstack([a, b])", "np.dstack([a, b])", "np.column_stack([a, b])",
    "np.var(a, axis=0, mean=np.ones(a.shape[1:]))", "np.nanstd(a, mean=np.ones(()))",
]  # fmt: skip

VECTOR = [
    "np.vander(a)", "np.vander(a, 3, increasing=True)", "np.diag(a)", "np.diagflat(a)",
    "np.convolve(a, b)", "np.correlate(a, b, 'full')", "np.convolve(a, b[:2], 'same')",
    "np.polyadd(a, b)", "np.polysub(a, b[:2])", "np.polymul(a, b)", "np.polyder(a)",
    "np.polyint(a)", "np.polyint(a, 0)", "np.polyint(a, 2)", "np.polyval(a, b)", "np.cov(a)",
    "np.cov(a, b)", "np.corrcoef(a, b)", "np.cov(a, dtype=np.float32)", "np.dot(a, b)", "a @ b",
    "np.meshgrid(a, b)", "np.cross(a[:3], b[:3])", "np.lexsort(a)", "np.einsum('i,i', a, b)",
    "np.einsum('i->', a)", "np.ix_(a)", "np.block([a, b])", "np.atleast_3d(a)",
    "np.take_along_axis(a, np.argsort(a), axis=0)", "np.geomspace(a[:1] + 1, 8, 3)",
    "np.cumulative_sum(a)", "np.linalg.outer(a, b)", "np.hsplit(a, 1)", "np.extract([True], a[:1])",
]  # fmt: skip

MATRIX = [
    "np.tril(a)", "np.triu(a, 1)", "np.trace(a)", "np.trace(a, dtype=float)", "np.diagonal(a)",
    "np.diag(a)", "a.T", "a.mT", "np.matrix_transpose(a)", "np.rot90(a)", "np.cov(a)",
    "np.corrcoef(a)", "np.cov(a, rowvar=False)", "np.cov(a, a[:, 0][None], rowvar=False)",
    "np.dot(a, b.T)", "a @ b.T", "np.matmul(a, b.T)",
    "np.tensordot(a, b, axes=(range(1), range(1)))", "np.tensordot(a, b, axes=([0, 1], [0, 1]))",
    "np.einsum('ij,kj', a, b)", "np.einsum('ij->j', a)", "np.linalg.norm(a)",
    "np.linalg.norm(a, 1)", "np.linalg.matrix_norm(a)", "np.linalg.det(a @ b.T)",
    "np.linalg.matrix_power(a @ b.T, 2)", "np.linalg.trace(a)", "np.linalg.vecdot(a, b)",
    "np.flipud(a)", "np.vsplit(a, 1)", "np.sum(a, axis=(0, 1))", "np.mean(a, axis=0)",
    "np.unstack(a)", "np.matvec(a, b[0])" if hasattr(np, "matvec") else "a @ b[0]",
]  # fmt: skip

# -- the arrays that they are given ----------------------------------------------------------------

_NUMBERS = [2, 100, -7, 0, 1, 5, 3, -3, 4, 6, 1, 2]
_OTHERS = [1, 3, 2, 4, 1, 1, 2, 5, 3, 1, 2, 6]

SHAPES = {
    "any": [(), (3, 4), (5,), (0,), (0, 3), (1,)],
    "axis": [(3, 4), (5,), (0,), (3, 0), (0, 3)],
    "vector": [(5,), (1,), (0,)],
    "matrix": [(3, 3), (3, 4), (1, 1), (3, 0), (0, 3)],
}
GROUPS = {"any": ANY, "axis": AXIS, "vector": VECTOR, "matrix": MATRIX}


def arrays(dtype, shape):
    """Two arrays of a dtype and shape: numbers of either sign where there is one, and positive."""
    size = int(np.prod(shape))
    pair = [np.array(numbers)[:size] for numbers in (_NUMBERS, _OTHERS)]
    if dtype.kind == "u":
        pair = [abs(x) for x in pair]
    if dtype.kind in "fc":
        pair = [x * 0.75 for x in pair]
    if dtype.kind == "c":
        pair = [pair[0] + 0.5j * pair[1], pair[1] - 0.25j * pair[0]]
    return tuple(x.astype(dtype).reshape(shape)[()] for x in pair)


def function_of(call):
    """The call as a function of ``a`` and ``b``."""
    return eval(f"lambda a, b: {call}", {"np": np})
