"""The array API standard, 2024.12, as a table: each function's signature, dtypes and some calls.

Calls are expressions in ``xp``, the arrays ``x`` and ``y``, a condition ``m`` and positions ``i``.
"""

from typing import NamedTuple

import numpy as np


class Function(NamedTuple):
    """A function of the standard.

    Parameters
    ----------
    signature : str
        As the standard writes it, name and all.
    kinds : str
        The kinds of the dtypes that it takes: ``b``, ``i``, ``u``, ``f``, ``c``.
    shapes : str
        Which arrays `SHAPES` has for it.
    calls : tuple
        An expression, or a pair: one for this namespace, and one for NumPy, which has it otherwise.
    """

    signature: str
    kinds: str
    shapes: str
    calls: tuple

    @property
    def name(self):
        return self.signature.partition("(")[0]


DTYPES = {
    "b": ["bool"],
    "i": ["int8", "int16", "int32", "int64"],
    "u": ["uint8", "uint16", "uint32", "uint64"],
    "f": ["float32", "float64"],
    "c": ["complex64", "complex128"],
}

SHAPES = {
    "any": [(2, 3), (), (0, 3)],
    "axis": [(2, 3), (4,), (0, 3)],
    "full": [(2, 3), (4,)],
    "vector": [(4,), (0,)],
    "matrix": [(2, 3), (3, 3)],
    "square": [(3, 3), (2, 2)],
}

_CONSTANTS = "e inf nan newaxis pi".split()
NAMES = [
    *_CONSTANTS, *(name for names in DTYPES.values() for name in names),
    "__array_namespace_info__", "__array_api_version__",
]  # fmt: skip


def unary(names, kinds):
    return [Function(f"{n}(x, /)", kinds, "any", (f"xp.{n}(x)",)) for n in names.split()]


def binary(names, kinds):
    return [
        Function(
            f"{n}(x1, x2, /)", kinds, "any",
            (f"xp.{n}(x, y)", f"xp.{n}(x, 1)", f"xp.{n}(1, y)", f"xp.{n}(x[None], y)"),
        )
        for n in names.split()
    ]  # fmt: skip


def row(signature, kinds, shapes, *calls):
    return Function(signature, kinds, shapes, calls)


def statistics(name, kinds, more, *calls):
    """A function that takes axes away."""
    arguments = ["", "axis=0", "axis=-1, keepdims=True", "axis=()", *calls]
    return row(
        f"{name}(x, /, *, axis=None, {more}keepdims=False)", kinds, "axis",
        *(f"xp.{name}(x, {each})" for each in arguments),
    )  # fmt: skip


ELEMENTWISE = [
    *unary("abs negative positive sign square", "iufc"),
    *unary("acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt "
           "tan tanh reciprocal", "fc"),
    *unary("ceil floor trunc", "iuf"), *unary("round isfinite isinf isnan", "iufc"),
    *unary("bitwise_invert", "biu"), *unary("logical_not", "b"),
    *unary("real imag conj", "fc"), *unary("signbit", "f"),
    *binary("add subtract multiply", "iufc"), *binary("divide", "fc"),
    *binary("pow", "iufc"), *binary("floor_divide remainder maximum minimum", "iuf"),
    *binary("atan2 copysign hypot logaddexp nextafter", "f"),
    *binary("bitwise_and bitwise_or bitwise_xor", "biu"),
    *binary("bitwise_left_shift bitwise_right_shift", "iu"),
    *binary("equal not_equal", "biufc"), *binary("greater greater_equal less less_equal", "iuf"),
    *binary("logical_and logical_or logical_xor", "b"),
]  # fmt: skip

FUNCTIONS = [
    *ELEMENTWISE,
    row("clip(x, /, min=None, max=None)", "iuf", "any", "xp.clip(x, 1, 2)", "xp.clip(x, min=1)",
        "xp.clip(x, max=2)", "xp.clip(x, y, 5)", "xp.clip(x)"),
    # -- creation
    row("arange(start, /, stop=None, step=1, *, dtype=None, device=None)", "f", "any",
        "xp.arange(3)", "xp.arange(1, stop=7, step=2, dtype=x.dtype, device='cpu')",
        "xp.arange(3.0)", "xp.arange(5, 0, -2)", "xp.arange(0)"),
    row("asarray(obj, /, *, dtype=None, device=None, copy=None)", "biufc", "any", "xp.asarray(x)",
        "xp.asarray(x, dtype=xp.float64, device='cpu', copy=True)", "xp.asarray([1, 2.5])",
        "xp.asarray(True)", "xp.asarray(x, copy=None)"),
    *(row(f"{n}(shape, *, dtype=None, device=None)", "f", "any", f"xp.{n}((2, 3))", f"xp.{n}(3)",
          f"xp.{n}((), dtype=xp.int8, device='cpu')") for n in ("zeros", "ones")),
    *(row(f"{n}_like(x, /, *, dtype=None, device=None)", "biufc", "any", f"xp.{n}_like(x)",
          f"xp.{n}_like(x, dtype=xp.float32, device='cpu')") for n in ("zeros", "ones")),
    row("empty(shape, *, dtype=None, device=None)", "f", "any",
        "xp.empty((2, 3), dtype=xp.int8, device='cpu').shape", "xp.empty(3).dtype"),
    row("empty_like(x, /, *, dtype=None, device=None)", "biufc", "any", "xp.empty_like(x).shape",
        "xp.empty_like(x, dtype=xp.int8, device='cpu').dtype"),
    row("eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)", "f", "any", "xp.eye(2)",
        "xp.eye(2, 3, k=-1, dtype=xp.int8, device='cpu')", "xp.eye(0)"),
    row("full(shape, fill_value, *, dtype=None, device=None)", "f", "any", "xp.full((2,), 3)",
        "xp.full(2, fill_value=1.5, dtype=xp.float32, device='cpu')", "xp.full((), True)"),
    row("full_like(x, /, fill_value, *, dtype=None, device=None)", "biufc", "any",
        "xp.full_like(x, 1)", "xp.full_like(x, fill_value=2, dtype=xp.int8, device='cpu')"),
    row("linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)", "f", "any",
        "xp.linspace(0, 1, 5)", "xp.linspace(0, 1, num=4, dtype=xp.float32, endpoint=False)",
        "xp.linspace(2, 3, 0, device='cpu')", "xp.linspace(5, 1, 1)"),
    row("meshgrid(*arrays, indexing='xy')", "biufc", "vector", "xp.meshgrid(x, y)",
        "xp.meshgrid(x, y, x, indexing='ij')", "xp.meshgrid(x)"),
    row("tril(x, /, *, k=0)", "biufc", "matrix", "xp.tril(x)", "xp.tril(x, k=1)"),
    row("triu(x, /, *, k=0)", "biufc", "matrix", "xp.triu(x)", "xp.triu(x, k=-1)"),
    row("from_dlpack(x, /, *, device=None, copy=None)", "iuf", "any",
        ("xp.from_dlpack(x)", "xp.asarray(x)")),
    # -- dtypes
    row("astype(x, dtype, /, *, copy=True, device=None)", "biufc", "any",
        "xp.astype(x, xp.float32)", "xp.astype(x, xp.bool, copy=False, device='cpu')",
        "xp.astype(x, xp.int8)"),
    row("can_cast(from_, to, /)", "biufc", "any", "xp.can_cast(x.dtype, xp.float64)",
        ("xp.can_cast(x, xp.int16)", "xp.can_cast(x.dtype, xp.int16)")),
    row("finfo(type, /)", "f", "any", ("float(xp.finfo(x).eps)", "float(xp.finfo(x.dtype).eps)"),
        "xp.finfo(xp.float32).bits"),
    row("iinfo(type, /)", "iu", "any", ("xp.iinfo(x).max", "xp.iinfo(x.dtype).max"),
        "xp.iinfo(xp.int8).min"),
    row("isdtype(dtype, kind)", "biufc", "any", "xp.isdtype(x.dtype, 'integral')",
        "xp.isdtype(x.dtype, ('real floating', xp.bool))", "xp.isdtype(x.dtype, kind='numeric')"),
    row("result_type(*arrays_and_dtypes)", "biufc", "any", "xp.result_type(x, xp.int8)",
        "xp.result_type(x, 1)", "xp.result_type(x, x)"),
    # -- indexing
    row("take(x, indices, /, *, axis=None)", "biufc", "full", "xp.take(x, i, axis=0)",
        "xp.take(x, xp.asarray([1, 1]), axis=-1)"),
    row("take_along_axis(x, indices, /, *, axis=-1)", "biufc", "full",
        "xp.take_along_axis(x, xp.argsort(x))",
        "xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0)"),
    # -- linear algebra
    row("matmul(x1, x2, /)", "iufc", "square", "xp.matmul(x, y)", "xp.matmul(x, y[0])", "x @ y"),
    row("matrix_transpose(x, /)", "biufc", "matrix", "xp.matrix_transpose(x)"),
    row("tensordot(x1, x2, /, *, axes=2)", "iufc", "full", "xp.tensordot(x, y, axes=x.ndim)",
        "xp.tensordot(x, y, axes=((0,), (0,)))", "xp.tensordot(x, y, axes=0)"),
    row("vecdot(x1, x2, /, *, axis=-1)", "iufc", "axis", "xp.vecdot(x, y)",
        "xp.vecdot(x, y, axis=-1)"),
    # -- shapes
    row("broadcast_arrays(*arrays)", "biufc", "any", "xp.broadcast_arrays(x[None], y)"),
    row("broadcast_to(x, /, shape)", "biufc", "any", "xp.broadcast_to(x, (2, *x.shape))"),
    row("concat(arrays, /, *, axis=0)", "biufc", "axis", "xp.concat([x, y])",
        "xp.concat((x, y), axis=-1)", "xp.concat([x, y], axis=None)"),
    row("expand_dims(x, /, *, axis=0)", "biufc", "any", "xp.expand_dims(x, axis=0)",
        "xp.expand_dims(x, axis=-1)"),
    row("flip(x, /, *, axis=None)", "biufc", "any", "xp.flip(x)", "xp.flip(x, axis=())"),
    row("moveaxis(x, source, destination, /)", "biufc", "axis", "xp.moveaxis(x, 0, -1)"),
    row("permute_dims(x, /, axes)", "biufc", "matrix", "xp.permute_dims(x, (1, 0))",
        "xp.permute_dims(x, axes=(0, 1))"),
    row("repeat(x, repeats, /, *, axis=None)", "biufc", "any", "xp.repeat(x, 2)",
        "xp.repeat(xp.reshape(x, (-1,)), 3, axis=0)"),
    row("reshape(x, /, shape, *, copy=None)", "biufc", "any", "xp.reshape(x, (-1,))",
        "xp.reshape(x, shape=x.shape, copy=True)"),
    row("roll(x, /, shift, *, axis=None)", "biufc", "axis", "xp.roll(x, 1)",
        "xp.roll(x, shift=(1,), axis=(0,))"),
    row("squeeze(x, /, axis)", "biufc", "any", "xp.squeeze(xp.expand_dims(x, axis=0), axis=0)",
        "xp.squeeze(x, axis=())"),
    row("stack(arrays, /, *, axis=0)", "biufc", "any", "xp.stack([x, y])",
        "xp.stack((x, y), axis=-1)"),
    row("tile(x, repetitions, /)", "biufc", "any", "xp.tile(x, (2, 1))", "xp.tile(x, (2,))"),
    row("unstack(x, /, *, axis=0)", "biufc", "axis", "xp.unstack(x)", "xp.unstack(x, axis=-1)"),
    # -- searching
    row("argmax(x, /, *, axis=None, keepdims=False)", "iuf", "full", "xp.argmax(x)",
        "xp.argmax(x, axis=0, keepdims=True)"),
    row("argmin(x, /, *, axis=None, keepdims=False)", "iuf", "full", "xp.argmin(x)",
        "xp.argmin(x, axis=-1, keepdims=True)"),
    row("count_nonzero(x, /, *, axis=None, keepdims=False)", "biufc", "any",
        "xp.count_nonzero(x)", "xp.count_nonzero(x, axis=(), keepdims=True)"),
    row("nonzero(x, /)", "biufc", "axis", ("xp.nonzero(x, size=2)", "tuple(np.append(p, [0] * 2)"
        "[:2] for p in np.nonzero(x))")),
    row("searchsorted(x1, x2, /, *, side='left', sorter=None)", "iuf", "vector",
        "xp.searchsorted(xp.sort(x), y)", "xp.searchsorted(xp.sort(x), y, side='right')",
        "xp.searchsorted(x, y, sorter=xp.argsort(x))"),
    row("where(condition, x1, x2, /)", "biufc", "any", "xp.where(m, x, y)", "xp.where(m, x, 1)"),
    # -- sets
    row("unique_values(x, /)", "biufc", "any", ("xp.unique_values(x, size=3, fill_value=1)",
        "padded(np.unique(x), 1)")),
    row("unique_counts(x, /)", "biufc", "any", ("xp.unique_counts(x, size=3, fill_value=1)",
        "[padded(p, f) for p, f in zip(np.unique(x, return_counts=True), (1, 0))]")),
    row("unique_inverse(x, /)", "biufc", "any", ("xp.unique_inverse(x, size=9).inverse_indices",
        "np.unique(x, return_inverse=True)[1].reshape(x.shape)")),
    row("unique_all(x, /)", "biufc", "full", ("xp.unique_all(x, size=1)[:2]",
        "[p[:1] for p in np.unique(x, return_index=True)]")),
    # -- sorting
    row("argsort(x, /, *, axis=-1, descending=False, stable=True)", "iuf", "axis",
        "xp.argsort(x, stable=True)", "xp.argsort(x, axis=0, stable=True)",
        ("xp.argsort(x, descending=True)",
         "x.shape[-1] - 1 - np.argsort(x[..., ::-1], stable=True)[..., ::-1]")),
    row("sort(x, /, *, axis=-1, descending=False, stable=True)", "iuf", "axis",
        "xp.sort(x, stable=False)", "xp.sort(x, axis=0)",
        ("xp.sort(x, axis=-1, descending=True, stable=True)", "np.sort(x)[..., ::-1]")),
    # -- statistics
    row("cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)", "iufc", "vector",
        "xp.cumulative_prod(x)",
        "xp.cumulative_prod(x, axis=0, dtype=xp.float64, include_initial=True)"),
    row("cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)", "iufc", "vector",
        "xp.cumulative_sum(x)",
        "xp.cumulative_sum(x, axis=-1, dtype=xp.float64, include_initial=True)"),
    *(row(f"{n}(x, /, *, axis=None, keepdims=False)", "iuf", "full", f"xp.{n}(x)",
          f"xp.{n}(x, axis=-1)", f"xp.{n}(x, axis=0, keepdims=True)", f"xp.{n}(x, axis=())")
      for n in ("max", "min")),
    statistics("mean", "fc", ""),
    statistics("prod", "iufc", "dtype=None, ", "dtype=xp.float64"),
    statistics("std", "f", "correction=0.0, ", "correction=1.0, axis=-1"),
    statistics("sum", "iufc", "dtype=None, ", "dtype=xp.float64"),
    statistics("var", "f", "correction=0.0, ", "correction=1, axis=-1"),
    # -- utilities
    statistics("all", "biufc", ""),
    statistics("any", "biufc", ""),
    row("diff(x, /, *, axis=-1, n=1, prepend=None, append=None)", "iufc", "axis", "xp.diff(x)",
        "xp.diff(x, axis=0, n=2)", "xp.diff(x, prepend=y, append=x[..., :1])",
        ("xp.diff(x, prepend=None, append=None)", "xp.diff(x)")),
]  # fmt: skip

LINALG = [
    row("linalg.cholesky(x, /, *, upper=False)", "fc", "square",
        "xp.linalg.cholesky(x @ xp.matrix_transpose(x) + 9 * xp.eye(x.shape[0], dtype=x.dtype), "
        "upper=True)"),
    row("linalg.cross(x1, x2, /, *, axis=-1)", "if", "matrix", "xp.linalg.cross(x, y, axis=-1)"),
    row("linalg.det(x, /)", "fc", "square", "xp.linalg.det(x)"),
    row("linalg.diagonal(x, /, *, offset=0)", "biufc", "matrix", "xp.linalg.diagonal(x, offset=1)"),
    row("linalg.eigh(x, /)", "f", "square", "xp.linalg.eigh(x).eigenvalues"),
    row("linalg.eigvalsh(x, /)", "fc", "square", "xp.linalg.eigvalsh(x)"),
    row("linalg.inv(x, /)", "fc", "square", "xp.linalg.inv(x)"),
    row("linalg.matmul(x1, x2, /)", "iufc", "square", "xp.linalg.matmul(x, y)"),
    row("linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')", "fc", "matrix",
        "xp.linalg.matrix_norm(x)", "xp.linalg.matrix_norm(x, keepdims=True, ord=1)"),
    row("linalg.matrix_power(x, n, /)", "fc", "square", "xp.linalg.matrix_power(x, 2)"),
    row("linalg.matrix_rank(x, /, *, rtol=None)", "f", "matrix", "xp.linalg.matrix_rank(x)",
        "xp.linalg.matrix_rank(x, rtol=0.1)"),
    row("linalg.matrix_transpose(x, /)", "biufc", "matrix", "xp.linalg.matrix_transpose(x)"),
    row("linalg.outer(x1, x2, /)", "iufc", "vector", "xp.linalg.outer(x, y)"),
    row("linalg.pinv(x, /, *, rtol=None)", "fc", "matrix", "xp.linalg.pinv(x)",
        "xp.linalg.pinv(x, rtol=1e-3)"),
    row("linalg.qr(x, /, *, mode='reduced')", "f", "matrix", "abs(xp.linalg.qr(x).R)",
        "abs(xp.linalg.qr(x, mode='complete').Q)"),
    row("linalg.slogdet(x, /)", "fc", "square", "xp.linalg.slogdet(x)"),
    row("linalg.solve(x1, x2, /)", "fc", "square", "xp.linalg.solve(x, y)"),
    row("linalg.svd(x, /, *, full_matrices=True)", "f", "matrix", "xp.linalg.svd(x).S",
        "abs(xp.linalg.svd(x, full_matrices=False).U)"),
    row("linalg.svdvals(x, /)", "fc", "matrix", "xp.linalg.svdvals(x)"),
    row("linalg.tensordot(x1, x2, /, *, axes=2)", "iufc", "square",
        "xp.linalg.tensordot(x, y, axes=1)"),
    row("linalg.trace(x, /, *, offset=0, dtype=None)", "iufc", "matrix",
        "xp.linalg.trace(x, offset=1)", "xp.linalg.trace(x, dtype=xp.float64)"),
    row("linalg.vecdot(x1, x2, /, *, axis=-1)", "iufc", "matrix", "xp.linalg.vecdot(x, y, axis=0)"),
    row("linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)", "fc", "full",
        "xp.linalg.vector_norm(x)", "xp.linalg.vector_norm(x, axis=0, keepdims=True, ord=1)"),
]  # fmt: skip

_LINE = "n=None, axis=-1, norm='backward'"
_GRID = "s=None, axes=None, norm='backward'"

FFT = [
    *(row(f"fft.{n}(x, /, *, {_LINE})", kinds, "full", f"xp.fft.{n}(x)",
          f"xp.fft.{n}(x, n=3, axis=0, norm='ortho')")
      for n, kinds in [("fft", "fc"), ("ifft", "fc"), ("rfft", "f"), ("irfft", "c"),
                       ("hfft", "c"), ("ihfft", "f")]),
    *(row(f"fft.{n}(x, /, *, {_GRID})", kinds, "full", f"xp.fft.{n}(x)",
          f"xp.fft.{n}(x, s=(3,), axes=(-1,), norm='forward')")
      for n, kinds in [("fftn", "fc"), ("ifftn", "fc"), ("rfftn", "f"), ("irfftn", "c")]),
    row("fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)", "f", "full", "xp.fft.fftfreq(5)",
        "xp.fft.fftfreq(4, d=0.5, device='cpu')"),
    row("fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)", "f", "full", "xp.fft.rfftfreq(5)",
        "xp.fft.rfftfreq(4, d=0.5, device='cpu')"),
    row("fft.fftshift(x, /, *, axes=None)", "fc", "full", "xp.fft.fftshift(x)",
        "xp.fft.fftshift(x, axes=0)"),
    row("fft.ifftshift(x, /, *, axes=None)", "fc", "full", "xp.fft.ifftshift(x)",
        "xp.fft.ifftshift(x, axes=(0,))"),
]  # fmt: skip

_NUMBERS = [2, 3, 1, 0, 1, 5, 2, 4, 7]
_OTHERS = [1, 2, 3, 1, 4, 1, 5, 2, 9]


def operands(dtype, shape):
    """The arrays that calls are made with."""
    size = int(np.prod(shape))
    sign = -1 if np.dtype(dtype).kind in "if" else 1
    first = np.array([n * sign if k % 4 == 2 else n for k, n in enumerate(_NUMBERS)])[:size]
    x, y = (np.asarray(a).astype(dtype).reshape(shape) for a in (first, _OTHERS[:size]))
    if x.dtype.kind == "c":
        x, y = x + 0.5j * y, y - 0.25j * x
    m = np.arange(size).reshape(shape) % 2 == 0
    return x, y, m, np.array([0, 1, 0])


def padded(x, fill):
    """The first three elements, and something else for those that are missing."""
    return np.append(x, np.full(3, fill, x.dtype))[:3]


def function_of(call):
    """A call as a function of the namespace and the operands."""
    scope = {"np": np, "padded": padded}
    return eval(f"lambda xp, x, y, m, i: {call}", scope)
