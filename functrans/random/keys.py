"""Keys: creating them, and deriving further keys."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.on_device import OnDevice
from functrans.ir.types import Shape, describe
from functrans.numpy.joining import stack
from functrans.ops.arrays.structural import astype, iota, made, reshape
from functrans.ops.random.threefry import BLOCK, WORD, threefry
from functrans.random.checks import KEY, checked_key, checked_shape, sampler
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["PRNGKey", "fold_in", "key", "key_data", "split", "wrap_key_data"]


def blocks(key: Any, shape: Shape, cipher: Callable[..., Any] = threefry) -> Any:
    """Random bits for each element of an array: a cipher of the key and the element's index."""
    size = prod(shape)
    wide = size > 2**32
    numbers = reshape(made(iota, size=size, dtype=BLOCK if wide else WORD), shape=shape)
    high: Any = np.zeros((), WORD)[()]
    if wide:
        high, numbers = _words(numbers)
    return cipher(key[0], key[1], high, numbers)


def _words(block: Any) -> tuple[Any, Any]:
    return astype(block >> 32, WORD), astype(block, WORD)


def _as_keys(block: Any) -> Any:
    return stack(_words(block), axis=-1)


def key(seed: Any) -> Any:
    """A key from an integer.

    Parameters
    ----------
    seed : int
        Any integer of at most 64 bits; equal seeds make equal keys. It may be traced.

    Returns
    -------
    array of shape (2,), uint32
        The upper and the lower half of the seed, as `jax.random.PRNGKey` has it.

    Raises
    ------
    DtypeError
        If the seed is not an integer.
    ShapeError
        If it is an array of seeds: map this function over them by `vmap`.

    Examples
    --------
    >>> from functrans import random
    >>> random.key(42)
    array([ 0, 42], dtype=uint32)
    """
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(2**63) <= seed < 2**64:
            raise DtypeError(
                f"a seed has at most 64 bits{here()}, found {seed}: take it modulo 2**64"
            )
        return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], KEY)
    if (
        not isinstance(seed, (np.ndarray, np.generic, Tracer, OnDevice))
        or seed.dtype.kind not in "iu"
    ):
        found = seed._aval if isinstance(seed, Tracer) else describe(seed)
        raise DtypeError(f"random.key takes an integer{here()}, found {found}: write random.key(0)")
    if seed.shape != ():
        raise ShapeError(
            f"random.key takes one seed{here()}, found an array of shape "
            f"{seed.shape}: write vmap(random.key)(seeds)"
        )
    return _key(seed)


@sampler
def _key(seed: Any) -> Any:
    if seed.dtype.itemsize == 8:
        return _as_keys(astype(seed, BLOCK))
    return stack([np.zeros((), KEY), astype(seed, KEY)])


PRNGKey = key
"""The name of `key` in older programs."""


def split(key: Any, num: Any = 2) -> Any:
    """New keys from one; the old one should not be used any more.

    Parameters
    ----------
    key : array of shape (2,), uint32
    num : int or tuple of int
        How many keys to make.

    Returns
    -------
    array of shape (num, 2) or (*num, 2), uint32

    Raises
    ------
    DtypeError, ShapeError
        If ``key`` is not a single key.

    Examples
    --------
    >>> from functrans import random
    >>> first, second = random.split(random.key(0))
    >>> first, second
    (array([1797259609, 2579123966], dtype=uint32), array([ 928981903, 3453687069], dtype=uint32))
    """
    key = checked_key(key, "random.split")
    return _split(key, shape=checked_shape(num, "random.split"))


@sampler
def _split(key: Any, *, shape: Shape) -> Any:
    return new_keys(key, *shape)


def new_keys(key: Any, *shape: int) -> Any:
    """As `split`, for a key and a shape that have been checked."""
    return _as_keys(blocks(key, shape))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer: one for each step of a loop, say.

    Parameters
    ----------
    key : array of shape (2,), uint32
    data : int
        It is taken modulo ``2**32``, and may be traced.

    Returns
    -------
    array of shape (2,), uint32
        ``split(key, n)[data]``, for any ``n`` above ``data``.

    Raises
    ------
    DtypeError, ShapeError
        If ``key`` is not a single key, or ``data`` not a single integer.

    Examples
    --------
    >>> from functrans import random
    >>> random.fold_in(random.key(0), 7)
    array([2716826189,  292468403], dtype=uint32)
    """
    key = checked_key(key, "random.fold_in")
    if isinstance(data, int) and not isinstance(data, bool):
        data = np.uint32(data & 0xFFFFFFFF)
    array = isinstance(data, (np.ndarray, np.generic, Tracer, OnDevice))
    if not array or data.dtype.kind not in "iu" or data.shape != ():
        found = data._aval if isinstance(data, Tracer) else describe(data)
        raise DtypeError(
            f"random.fold_in takes one integer{here()}, found {found}: use vmap for several"
        )
    return _fold_in(key, data)


@sampler
def _fold_in(key: Any, data: Any) -> Any:
    return _as_keys(threefry(key[0], key[1], np.uint32(0), astype(data, WORD)))


def key_data(keys: Any) -> Any:
    """The words of keys, as `jax.random.key_data` gives them: here, the keys themselves.

    Examples
    --------
    >>> from functrans import random
    >>> random.key_data(random.key(1))
    array([0, 1], dtype=uint32)
    """
    return keys


def wrap_key_data(words: Any) -> Any:
    """Keys from their words, as `jax.random.key_data` and `key_data` give them.

    Parameters
    ----------
    words : array of shape (..., 2), uint32

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> random.wrap_key_data(np.array([0, 1], np.uint32))
    array([0, 1], dtype=uint32)
    """
    if isinstance(words, (np.ndarray, Tracer)) and words.ndim > 1 and words.shape[-1] == 2:
        checked_key(words[(0,) * (words.ndim - 1)], "random.wrap_key_data")
        return words
    return checked_key(words, "random.wrap_key_data")
