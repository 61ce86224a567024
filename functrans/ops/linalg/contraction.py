"""The general contraction of two arrays, to which matmul, tensordot and einsum reduce."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import DtypeError, ShapeError
from functrans.ir.primitive import BILINEAR, Sample, not_differentiable
from functrans.ir.types import Aval, Shape, is_float
from functrans.lazily import lazy
from functrans.loop.nodes import fold, widened
from functrans.loop.scalar import convert
from functrans.ops.arrays.promotion import common, promote
from functrans.ops.arrays.structural import beside_mapped, inverse, reshape, transpose
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.dependence import Dependent, Pattern, check_entries, pairs, product
from functrans.ops.samples import booleans, cases, integers
from functrans.records import NamedTuple

Axes = tuple[int, ...]
Pairs = tuple[Axes, Axes]
"""Axes of the first operand, and the corresponding axes of the second."""

# -- dot_general -----------------------------------------------------------------------------------


def free_axes(ndim: int, contract: Axes, batch: Axes) -> Axes:
    """The axes that are neither contracted nor batch axes, in their order."""
    return tuple([i for i in range(ndim) if i not in contract and i not in batch])


def _infer(x: Aval, y: Aval, *, contract: Pairs, batch: Pairs) -> Aval:
    if x.dtype != y.dtype:
        raise DtypeError(f"a contraction of {x.dtype} with {y.dtype}: convert one of them")
    for kind, (x_axes, y_axes) in (("contracted", contract), ("batch", batch)):
        for i, j in zip(x_axes, y_axes, strict=True):
            if x.shape[i] != y.shape[j]:
                raise ShapeError(
                    f"{kind} axes have different sizes: axis {i} of an array of shape {x.shape}, "
                    f"axis {j} of one of shape {y.shape}"
                )
    return x.update(
        shape=(
            *(x.shape[i] for i in batch[0]),
            *(x.shape[i] for i in free_axes(x.ndim, contract[0], batch[0])),
            *(y.shape[j] for j in free_axes(y.ndim, contract[1], batch[1])),
        )
    )


def _dot_general(x: Any, y: Any, *, contract: Pairs, batch: Pairs) -> Any:
    return _by_numpy(x.ndim, y.ndim, contract, batch)(x, y)


@cached(4096)
def _by_numpy(x_ndim: int, y_ndim: int, contract: Pairs, batch: Pairs) -> Callable[[Any, Any], Any]:
    """The fastest NumPy function for a contraction: a product of views if possible."""
    x_free = free_axes(x_ndim, contract[0], batch[0])
    y_free = free_axes(y_ndim, contract[1], batch[1])
    if not contract[0]:
        return _product(batch, x_free, y_free)
    if not batch[0] and len(contract[0]) == 1 and x_ndim <= 2 and y_ndim <= 2:
        x_turned = contract[0] != (x_ndim - 1,)
        y_turned = contract[1] != (0,)
        if x_turned:
            return (lambda x, y: np.dot(x.T, y.T)) if y_turned else lambda x, y: np.dot(x.T, y)
        return (lambda x, y: np.dot(x, y.T)) if y_turned else np.dot
    return _by_matmul(contract, batch, x_free, y_free)


def _product(batch: Pairs, x_free: Axes, y_free: Axes) -> Callable[[Any, Any], Any]:
    """An outer product for a contraction without contracted axes."""
    x_order, y_order = (*batch[0], *x_free), (*batch[1], *y_free)
    x_apart = (..., *(None,) * len(y_free))
    y_apart = (*(slice(None),) * len(batch[1]), *(None,) * len(x_free), ...)
    return lambda x, y: np.multiply(
        np.transpose(x, x_order)[x_apart], np.transpose(y, y_order)[y_apart]
    )


def _by_matmul(
    contract: Pairs, batch: Pairs, x_free: Axes, y_free: Axes
) -> Callable[[Any, Any], Any]:
    """A contraction as ``(batch..., rows, sum) @ (batch..., sum, columns)``."""
    count = len(batch[0])
    x_order, y_order = (*batch[0], *x_free, *contract[0]), (*batch[1], *contract[1], *y_free)

    def run(x: Any, y: Any) -> Any:
        x, y = np.transpose(x, x_order), np.transpose(y, y_order)
        both, x_rest = x.shape[:count], x.shape[count : count + len(x_free)]
        y_rest = y.shape[count + len(contract[1]) :]
        summed = prod(x.shape[count + len(x_free) :])
        rows, columns = prod(x_rest), prod(y_rest)
        out = np.matmul(x.reshape((*both, rows, summed)), y.reshape((*both, summed, columns)))
        return out.reshape((*both, *x_rest, *y_rest))[()]

    return run


def _free_axes(x: Aval, y: Aval, contract: Pairs, batch: Pairs) -> tuple[Axes, Axes]:
    return free_axes(x.ndim, contract[0], batch[0]), free_axes(y.ndim, contract[1], batch[1])


def _transpose_x(ct: Any, x: Aval, y: Any, *, contract: Pairs, batch: Pairs) -> Any:
    count, (x_free, y_free) = len(batch[0]), _free_axes(x, y, contract, batch)
    own = tuple(range(count + len(x_free), count + len(x_free) + len(y_free)))
    # comes out as batch, free axes of x, contracted axes in the order of y's axes
    out = dot_general(ct, y, contract=(own, y_free), batch=(tuple(range(count)), batch[1]))
    order = (*batch[0], *x_free, *_partners(contract[1], contract[0]))
    return transpose(out, permutation=inverse(order))


def _transpose_y(ct: Any, x: Any, y: Aval, *, contract: Pairs, batch: Pairs) -> Any:
    count, (x_free, y_free) = len(batch[0]), _free_axes(x, y, contract, batch)
    own = tuple(range(count, count + len(x_free)))
    # comes out as batch, contracted axes in the order of x's axes, free axes of y
    out = dot_general(x, ct, contract=(x_free, own), batch=(batch[0], tuple(range(count))))
    order = (*batch[1], *_partners(contract[0], contract[1]), *y_free)
    return transpose(out, permutation=inverse(order))


def _partners(axes: Axes, others: Axes) -> list[int]:
    """The axes paired with the given ones, when those are sorted."""
    return [other for _, other in sorted(zip(axes, others, strict=True))]


def _batch(operands: Any, axes: Any, *, contract: Pairs, batch: Pairs) -> tuple[Any, int]:
    (x, y), (x_axis, y_axis) = operands, axes
    (x_contract, y_contract), (x_batch, y_batch) = contract, batch
    if x_axis is not None:
        x_contract, x_batch = beside_mapped(x_contract, x_axis), beside_mapped(x_batch, x_axis)
    if y_axis is not None:
        y_contract, y_batch = beside_mapped(y_contract, y_axis), beside_mapped(y_batch, y_axis)
    place = 0
    if x_axis is not None and y_axis is not None:
        x_batch, y_batch = (x_axis, *x_batch), (y_axis, *y_batch)
    elif x_axis is not None:
        # one more free axis: nothing is moved or repeated
        place = len(x_batch) + free_axes(x.ndim, x_contract, x_batch).index(x_axis)
    else:
        x_free = free_axes(x.ndim, x_contract, x_batch)
        place = len(x_batch) + len(x_free) + free_axes(y.ndim, y_contract, y_batch).index(y_axis)
    out = dot_general(x, y, contract=(x_contract, y_contract), batch=(x_batch, y_batch))
    return out, place


def _pull(read: Any, index: Any, x: Aval, y: Aval, *, contract: Pairs, batch: Pairs) -> Any:
    count, contract = len(batch[0]), _as_it_lies(x, y, contract)
    x_free, y_free = _free_axes(x, y, contract, batch)
    both, x_rest, y_rest = (
        index[:count], index[count : count + len(x_free)], index[count + len(x_free) :],
    )  # fmt: skip

    def term(*summed: Any) -> Any:
        x_at = dict(zip((*batch[0], *x_free, *contract[0]), (*both, *x_rest, *summed), strict=True))
        y_at = dict(zip((*batch[1], *y_free, *contract[1]), (*both, *y_rest, *summed), strict=True))
        left = widened(read(0, tuple(x_at[i] for i in range(x.ndim))))
        right = widened(read(1, tuple(y_at[j] for j in range(y.ndim))))
        return left & right if x.dtype.kind == "b" else left * right

    if not contract[0]:
        return convert(term(), x.dtype)
    extents = [x.shape[i] for i in contract[0]]
    return convert(fold("or" if x.dtype.kind == "b" else "add", extents, term), x.dtype)


def _as_it_lies(x: Aval, y: Aval, contract: Pairs) -> Pairs:
    """The contracted axes in the order of the larger operand's axes: its last one innermost."""
    larger = contract[x.size < y.size]
    order = sorted(range(len(larger)), key=larger.__getitem__)
    return tuple(contract[0][n] for n in order), tuple(contract[1][n] for n in order)


def _sparsity(x: Dependent, y: Dependent, *, contract: Pairs, batch: Pairs) -> Pattern:
    """The sparsity pattern, restricted to nonzero elements of a known operand."""
    x_free = free_axes(x.aval.ndim, contract[0], batch[0])
    y_free = free_axes(y.aval.ndim, contract[1], batch[1])
    own = _as_matrices(x.aval.shape, batch[0], x_free, contract[0])
    others = _as_matrices(y.aval.shape, batch[1], y_free, contract[1])
    is_left = x.pattern is not None
    moving, other = (x, y) if is_left else (y, x)
    if not is_left:
        own, others = others, own
    # a result has a batch index and the free indices of both operands, the left one's first
    lines = np.arange(prod(own.shape[:2])).reshape(own.shape[:2])
    if other.value is None:
        # every free index of the other operand reads the same elements: these are united once
        line_of = np.broadcast_to(lines[..., None], own.shape)
        united = product(pairs(line_of, own, (lines.size, own.size)), moving.pattern)
        taken = lines[:, :, None] if is_left else lines[:, None, :]
        extent = others.shape[1]
        taken = np.repeat(taken, extent, axis=2 if is_left else 1)
        return product(pairs(np.arange(taken.size), taken, (taken.size, lines.size)), united)
    both, free, summed = np.nonzero(np.ravel(other.value)[others])
    check_entries(len(both) * own.shape[1])
    both, free, summed = (i[:, None] for i in (both, free, summed))
    mine = np.arange(own.shape[1])
    sizes = (len(own), own.shape[1], others.shape[1])
    rows: Any = (both, mine, free)
    if not is_left:
        sizes, rows = (sizes[0], sizes[2], sizes[1]), (both, free, mine)
    results = np.ravel_multi_index(np.broadcast_arrays(*rows), sizes)
    return product(pairs(results, own[both, mine, summed], (prod(sizes), own.size)), moving.pattern)


def _as_matrices(shape: Shape, batch: Axes, free: Axes, contract: Axes) -> Any:
    """The flat positions of an operand's elements, by batch, free index and summed index."""
    positions = np.arange(prod(shape)).reshape(shape).transpose((*batch, *free, *contract))
    sizes = [prod(shape[axis] for axis in axes) for axes in (batch, free, contract)]
    return positions.reshape(sizes)


def _dims(contract: Pairs = ((), ()), batch: Pairs = ((), ())) -> dict[str, Pairs]:
    return {"contract": contract, "batch": batch}


_compiled = lazy("functrans.ops.linalg.compiled.forms:emit")
_by_library = lazy("functrans.ops.linalg.compiled.grid.library_products:emit")
_is_emitted = lazy("functrans.ops.linalg.compiled.forms:is_emitted")
_is_emitted_if_kept = lazy("functrans.ops.linalg.compiled.forms:is_emitted_if_kept")
_asks_for_elements = lazy("functrans.ops.linalg.compiled.forms:asks_for_elements")
_is_called = lazy("functrans.ops.linalg.compiled.blas:is_called")

dot_general = primitive(
    "dot_general",
    infer=_infer,
    numpy=_dot_general,
    linear=BILINEAR,
    transpose=[_transpose_x, _transpose_y],
    batch=_batch,
    sparsity=_sparsity,
    pull=_pull,
    emit=Emit(
        _compiled,
        applies=_is_emitted,
        by_elements=_asks_for_elements,
        if_kept=_is_emitted_if_kept,
    ),
    emit_on_grid=Emit(_by_library, applies=_is_called),
    prepare=lambda x, y, **params: (promote(common, (x, y)), params),
    samples=cases(
        ((2, 3), (3, 4), _dims(((1,), (0,)))), ((3, 2), (4, 3), _dims(((0,), (1,)))),
        ((3,), (3,), _dims(((0,), (0,)))), ((2,), (3,), _dims()),
        ((2, 3), (3,), _dims(((1,), (0,)))),
        ((5, 2, 3), (5, 3, 4), _dims(((2,), (1,)), ((0,), (0,)))),
        ((2, 3, 5), (4, 5), _dims(batch=((2,), (1,)))),
        ((3, 2, 5), (2, 4, 3), _dims(((0, 1), (2, 0)))),
        ((0, 3), (3, 2), _dims(((1,), (0,)))), ((2, 0), (0, 2), _dims(((1,), (0,)))),
        ((integers(-9, 9), (2, 3)), (integers(-9, 9), (3, 2)), _dims(((1,), (0,)))),
        ((booleans(), (2, 3)), (booleans(), (3, 2)), _dims(((1,), (0,)))),
    ),
)  # fmt: skip

# -- widening_dot_general --------------------------------------------------------------------------


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def _infer_widening(x: Aval, y: Aval, *, contract: Pairs, batch: Pairs) -> Aval:
    whole = _infer(x, y, contract=contract, batch=batch)
    if not is_float(whole.dtype):
        raise DtypeError(f"products of {whole.dtype} are no wider: floats are")
    return whole.update(dtype=_wide(whole.dtype))


def _widening(x: Any, y: Any, *, contract: Pairs, batch: Pairs) -> Any:
    wide = _wide(x.dtype)
    return _dot_general(x.astype(wide), y.astype(wide), contract=contract, batch=batch)


def _pull_widening(
    read: Any, index: Any, x: Aval, y: Aval, *, contract: Pairs, batch: Pairs
) -> Any:
    wide = _wide(x.dtype)

    def read_wide(number: int, at: Any) -> Any:
        return convert(read(number, at), wide)

    x, y = x.update(dtype=wide), y.update(dtype=wide)
    return _pull(read_wide, index, x, y, contract=contract, batch=batch)


widening_dot_general = primitive(
    "widening_dot_general",
    infer=_infer_widening,
    numpy=_widening,
    jvp=not_differentiable("the compiler makes it, of contractions, when all derivatives are made"),
    pull=_pull_widening,
    emit_on_grid=Emit(_by_library, applies=_is_called),
    samples=cases(
        ((2, 3), (3, 4), _dims(((1,), (0,)))),
        ((5, 2, 3), (5, 3, 4), _dims(((2,), (1,)), ((0,), (0,)))),
        ((2, 3), (4, 3), _dims(((1,), (1,)))), ((2, 0), (0, 2), _dims(((1,), (0,)))),
    ),
)  # fmt: skip
"""A contraction of half floats, of either kind, with sums and results in float32.

Products of two half floats are exact in float32, so it equals a contraction of operands cast to
float32.
"""

# -- gemm ------------------------------------------------------------------------------------------


def _infer_gemm(
    x: Aval, y: Aval, *, contract: Pairs, batch: Pairs, parts: int | None, symmetric: bool,
    panels: bool,
) -> Aval:  # fmt: skip
    whole = _infer(x, y, contract=contract, batch=batch)
    if whole.dtype.kind != "f":
        raise DtypeError(f"gemm takes matrices of floats, not of {whole.dtype}")
    if parts is not None and batch[0]:
        raise ShapeError("gemm cuts the sum of a single product, not of a batch")
    if symmetric and (whole.ndim - len(batch[0]) != 2 or whole.shape[-2] != whole.shape[-1]):
        raise ShapeError(f"gemm gives no symmetric matrices, but an array of shape {whole.shape}")
    return whole if parts is None else whole.update(shape=(parts, *whole.shape))


def _gemm(
    x: Any, y: Any, *, contract: Pairs, batch: Pairs, parts: int | None, symmetric: bool,
    panels: bool,
) -> Any:  # fmt: skip
    if parts is None:
        result = _dot_general(x, y, contract=contract, batch=batch)
    else:
        result = _in_parts(x, y, contract, parts)
    if not symmetric:
        return result
    below = np.tri(result.shape[-1], dtype=bool)
    return np.where(below, result, np.swapaxes(result, -1, -2))


def _in_parts(x: Any, y: Any, contract: Pairs, parts: int) -> Any:
    x_free, y_free = free_axes(x.ndim, contract[0], ()), free_axes(y.ndim, contract[1], ())
    shape = (*(x.shape[i] for i in x_free), *(y.shape[j] for j in y_free))
    summed = prod(x.shape[i] for i in contract[0])
    length = -(-summed // parts)
    left = np.transpose(x, (*x_free, *contract[0])).reshape(-1, summed)
    right = np.transpose(y, (*contract[1], *y_free)).reshape(summed, -1)
    cuts = [slice(i * length, (i + 1) * length) for i in range(parts)]
    return np.stack([left[:, cut] @ right[cut] for cut in cuts]).reshape(parts, *shape)


def _calls(
    contract: Pairs, batch: Pairs = ((), ()), parts: int | None = None, symmetric: bool = False
) -> dict[str, Any]:
    divided = {"parts": parts, "symmetric": symmetric, "panels": False}
    return {"contract": contract, "batch": batch, **divided}


def _samples_of_gemm(rng: np.random.Generator) -> Iterator[Sample]:
    yield from cases(
        ((9, 20), (20, 8), _calls(((1,), (0,)))), ((20, 9), (8, 20), _calls(((0,), (1,)))),
        ((3, 9, 20), (3, 20, 8), _calls(((2,), (1,)), ((0,), (0,)))),
        ((20, 9), (20, 8), _calls(((0,), (0,)), parts=4)),
        ((7, 3, 9), (7, 3, 8), _calls(((0, 1), (0, 1)), parts=2)),
    )(rng)  # fmt: skip
    for shape, axis, parts in (((20, 9), 0, None), ((12, 70), 0, None), ((70, 20), 1, 3)):
        x = rng.normal(size=shape)
        yield Sample((x, x), _calls(((axis,), (axis,)), parts=parts, symmetric=True))
    x = rng.normal(size=(2, 70, 20))
    yield Sample((x, x), _calls(((2,), (2,)), ((0,), (0,)), symmetric=True))


gemm = primitive(
    "gemm",
    infer=_infer_gemm,
    numpy=_gemm,
    jvp=not_differentiable("the compiler makes it, of contractions, when all derivatives are made"),
    emit=Emit(
        _compiled,
        applies=lazy("functrans.ops.linalg.compiled.blas:fits_blas"),
        by_elements=_asks_for_elements,
    ),
    emit_on_grid=None,
    samples=_samples_of_gemm,
)
"""A contraction with its division for the machine.

With ``parts``, the sum is split into that many, which lie along an additional first axis of the
result. If the result is known to be ``symmetric``, the triangle below the diagonal is computed, and
copied to the one above. If the right operand is in ``panels``
(`functrans.optimise.machine.invariant_packing`), a step of a loop reads it in place.
"""

# -- by labels -------------------------------------------------------------------------------------

Labels = tuple[Hashable, ...]


class _Labelled(NamedTuple):
    x_shape: Shape
    y_shape: Shape
    params: dict[str, Pairs]
    permutation: Axes


@cached(4096)
def _labelled(x_shape: Shape, y_shape: Shape, x: Labels, y: Labels, out: Labels) -> _Labelled:
    # an axis of size 1 is broadcast to a longer one with the same label, and can be dropped
    sized = (*zip(x, x_shape, strict=True), *zip(y, y_shape, strict=True))
    longer = {label for label, extent in sized if extent != 1}

    def kept(labels: Labels, shape: Shape) -> list[int]:
        return [i for i, n in enumerate(shape) if n != 1 or not {labels[i]} <= longer & {*x} & {*y}]

    x_kept, y_kept = kept(x, x_shape), kept(y, y_shape)
    x_shape, y_shape = tuple(x_shape[i] for i in x_kept), tuple(y_shape[j] for j in y_kept)
    x, y = tuple(x[i] for i in x_kept), tuple(y[j] for j in y_kept)
    shared = [label for label in x if label in y]

    def pairs(labels: Sequence[Hashable]) -> Pairs:
        return tuple(map(x.index, labels)), tuple(map(y.index, labels))

    batch = pairs([label for label in out if label in shared])
    contract = pairs([label for label in shared if label not in out])
    found = (
        *(x[i] for i in batch[0]),
        *(x[i] for i in free_axes(len(x), contract[0], batch[0])),
        *(y[j] for j in free_axes(len(y), contract[1], batch[1])),
    )
    return _Labelled(
        x_shape, y_shape, {"contract": contract, "batch": batch}, tuple(map(found.index, out))
    )


def _is_in_order(permutation: Axes) -> bool:
    return permutation == tuple(range(len(permutation)))


def numpy_labelled(x: Any, x_labels: Labels, y: Any, y_labels: Labels, out: Labels) -> Any:
    """As `contract_labelled`, for plain arrays, to evaluate other primitives."""
    plan = _labelled(x.shape, y.shape, x_labels, y_labels, out)
    product = _dot_general(x.reshape(plan.x_shape), y.reshape(plan.y_shape), **plan.params)
    return np.transpose(product, plan.permutation)


def contract_labelled(x: Any, x_labels: Labels, y: Any, y_labels: Labels, out: Labels) -> Any:
    """The product of two arrays, summed over the axes whose labels are not in ``out``.

    Equal labels name one axis. A label occurs once in an array; if it occurs in one array only, it
    is in ``out``. Sizes are equal, or 1, which is broadcast.
    """
    plan = _labelled(x.shape, y.shape, x_labels, y_labels, out)
    turned = _labelled(y.shape, x.shape, y_labels, x_labels, out)
    if _is_in_order(turned.permutation) and not _is_in_order(plan.permutation):
        # with swapped operands, the result needs no transpose
        x, y, plan = y, x, turned
    product = dot_general(
        reshape(x, shape=plan.x_shape), reshape(y, shape=plan.y_shape), **plan.params
    )
    return transpose(product, permutation=plan.permutation)
