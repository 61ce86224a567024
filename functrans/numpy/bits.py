"""Packed bits, and conversions between flat and multi-dimensional indices."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from functrans.loop.failures import INVALID_COORDINATES, OUTSIDE_OF_SHAPE
from functrans.numpy.arrays import INDEX, along, array, astype, counting
from functrans.numpy.define import answers
from functrans.numpy.indexing import within
from functrans.numpy.padding import pad
from functrans.numpy.reductions import sum
from functrans.ops.arrays.shape import concatenate, flip, read_along
from functrans.ops.arrays.structural import expand_axes, move_axis, reshape, zeros
from functrans.ops.elementwise.arithmetic import remainder
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.stop import required_index

__all__ = ["packbits", "ravel_multi_index", "unpackbits", "unravel_index"]


def _check_order(bitorder: str) -> None:
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")


@answers(np.packbits)
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """Pack the truth values of elements into bytes."""
    _check_order(bitorder)
    x, axis = along(array(a), axis)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    bits = move_axis(x != 0, axis, -1 % x.ndim)
    last, whole = bits.ndim - 1, bits.shape[-1] // 8
    rest = read_along(bits, last, 8 * whole, bits.shape[-1] % 8)
    bits = read_along(bits, last, 0, 8 * whole)
    packed = _in_bytes(reshape(bits, shape=(*bits.shape[:-1], whole, 8)), bitorder)
    if rest.shape[-1]:  # apart from whole bytes, which then need no bounds checks
        rest = _in_bytes(expand_axes(rest, (last,)), bitorder)
        packed = concatenate([packed, rest], axis=last)
    return move_axis(packed, packed.ndim - 1, axis)


def _in_bytes(bits: Any, bitorder: str) -> Any:
    """The bytes of up to eight bits each, along the last axis."""
    places = astype(counting(bits.shape[-1], bits.ndim - 1, bits.ndim), np.uint8)
    weights = np.uint8(1) << (places if bitorder == "little" else np.uint8(7) - places)
    return sum(astype(bits, np.uint8) * weights, -1, dtype=np.uint8)


@answers(np.unpackbits)
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """Unpack bytes into arrays of bits, each 0 or 1."""
    _check_order(bitorder)
    x, axis = along(array(a), axis)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    last = move_axis(x, axis, -1 % x.ndim)
    places = astype(counting(8, last.ndim, last.ndim + 1), np.uint8)
    bits = (expand_axes(last, (last.ndim,)) >> places) & np.uint8(1)
    if bitorder == "big":
        bits = flip(bits, axes=(last.ndim,))
    bits = reshape(bits, shape=(*last.shape[:-1], last.shape[-1] * 8))
    if count is not None:
        size, count = bits.shape[-1], operator.index(count)
        wanted = count if count >= 0 else size + count
        bits = read_along(bits, bits.ndim - 1, 0, min(wanted, size))
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, wanted - bits.shape[-1])])
    return move_axis(bits, bits.ndim - 1, axis)


def _strides(shape: tuple[int, ...], order: str) -> list[int]:
    if order == "C":
        return [prod(shape[i + 1 :]) for i in range(len(shape))]
    if order == "F":
        return [prod(shape[:i]) for i in range(len(shape))]
    raise ValueError(f"only 'C' or 'F' order is permitted, not {order!r}")


@answers(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Convert multi-dimensional indices to flat indices."""
    shape = tuple(operator.index(n) for n in np.atleast_1d(dims))
    modes = (mode,) * len(shape) if isinstance(mode, str) else tuple(mode)
    indices = [array(index) for index in multi_index]
    if len(indices) != len(shape):
        raise ValueError(
            f"parameter multi_index must be a sequence of length {len(shape)}, not {len(indices)}"
        )
    if any(index.dtype.kind not in "biu" for index in indices):
        raise TypeError("only int indices permitted")
    together = np.broadcast_shapes(*(index.shape for index in indices))
    if 0 in together:  # no index is outside
        return zeros(together, INDEX)
    if 0 in shape:
        raise ValueError("cannot unravel if shape has zero entries (is empty).")
    position: Any = 0
    for index, size, stride, rule in zip(
        indices, shape, _strides(shape, order), modes, strict=True
    ):
        position = position + _within(astype(index, INDEX), size, rule) * stride
    return position


def _within(index: Any, size: int, mode: str) -> Any:
    if mode == "raise":
        return _required(index, size, INVALID_COORDINATES)
    return within(index, size, mode)


def _required(index: Any, size: int, failure: int) -> Any:
    """The index, from 0 to ``size``; the call fails otherwise."""
    return required_index(select(index < size, index, -1), failure=failure)


@answers(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Convert flat indices to multi-dimensional indices."""
    sizes = tuple(operator.index(n) for n in np.atleast_1d(shape))
    given = array(indices)
    if given.dtype.kind not in "biu" and (given.size or hasattr(indices, "dtype")):
        raise TypeError("only int indices permitted")
    position = _required(astype(given, INDEX), prod(sizes), OUTSIDE_OF_SHAPE)
    return tuple(
        remainder(position // stride, size)
        for size, stride in zip(sizes, _strides(sizes, order), strict=True)
    )
