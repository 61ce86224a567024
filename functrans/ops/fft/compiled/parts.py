"""Fourier transforms of complex numbers as pairs of real ones, and of real numbers.

A transform of real numbers is computed by one of half as many complex numbers, whose real and
imaginary parts are the even and the odd elements (Cooley, Lewis and Welch, "The fast Fourier
transform algorithm: programming considerations in the calculation of sine, cosine and Laplace
transforms", 1970).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from functrans.ops.arrays.shape import concatenate, flip, read_along, stack
from functrans.ops.arrays.slicing import embed
from functrans.ops.arrays.structural import cast, move_axis, reshape, zeros
from functrans.ops.compiled.pairs import Pair, Real
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.compiled.complex_arithmetic import conj, multiply
from functrans.ops.fft.compiled.butterflies import butterfly, by, cosines_and_sines
from functrans.ops.fft.fourier import half, scale_of
from functrans.ops.fft.split import has_form, is_made, padded, split_fft_p
from functrans.ops.fft.turns import COSINE, SINE, chirp_p, turns_p

WRITTEN_OUT = 8
"""The most points of a transform by expressions, which fuse with other operations."""

ODD_RADICES = (5, 7, 3, 11, 13, 17, 19, 23)
"""Lengths of the butterfly that halves an odd transform of real numbers, by preference: longer ones
save more and cost more."""

Transform = Callable[[Pair], Pair]


class Spectrum(Pair):
    """A transform of real numbers along some axes, stored as one of its two symmetric halves."""

    half: Pair  # the stored half: along the first of the axes, up to the middle
    axes: tuple[int, ...]
    points: int  # the extent of the whole along the first axis

    def __new__(cls, half: Pair, axes: tuple[int, ...], points: int) -> Spectrum:
        whole = super().__new__(cls, *_with_conjugates(half, axes, points))
        whole.half, whole.axes, whole.points = half, axes, points
        return whole

    def transformed(self, axis: int, transform: Transform) -> Spectrum:
        """The transform along another axis."""
        return Spectrum(transform(self.half), (*self.axes, axis), self.points)


def fft(x: Pair, *, axis: int, inverse: bool, norm: str) -> Any:
    points = x.re.shape[axis]
    if not has_form(points):
        return NotImplemented
    scale = scale_of(points, inverse, norm)

    def transform(x: Pair) -> Pair:
        return _inverse(x, axis, scale) if inverse else _transform(x, axis, scale)

    if isinstance(x, Spectrum) and axis not in x.axes:
        return x.transformed(axis, transform)
    if isinstance(x, Real) and points > WRITTEN_OUT:
        found = _of_real(x.re, axis, scale)
        return Spectrum(conj(found) if inverse else found, (axis,), points)
    return transform(x)


def rfft(x: Any, *, axis: int, norm: str) -> Any:
    points = x.shape[axis]
    if not has_form(points):
        return NotImplemented
    return _of_real(x, axis, scale_of(points, False, norm))


def irfft(x: Pair, *, axis: int, points: int, norm: str) -> Any:
    if not has_form(points):
        return NotImplemented
    x = Pair(x.re, _without_ends(x.im, axis, points))
    return _to_real(x, axis, points, scale_of(points, True, norm))


def real_part(x: Pair, axes: Sequence[int], scale: float) -> Any:
    """The real part of a transform along axes, computed from half of the numbers.

    It is the transform of the mean of the numbers and of the conjugates of their mirror images;
    of this mean, the first half along the last of the axes determines all.
    """
    *others, last = axes
    points = x.re.shape[last]
    count = half(points)

    def opposite(part: Any) -> Any:
        first = read_along(part, last, 0, 1)
        rest = read_along(part, last, points - count + 1, count - 1)
        return _opposite(concatenate([first, flip(rest, axes=(last,))], axis=last), others)

    re, im = _each(lambda part: read_along(part, last, 0, count), x)
    twice = Pair(re + opposite(x.re), im - opposite(x.im))
    for axis in others:
        twice = _transform(twice, axis, 1.0)
    return _to_real(conj(twice), last, points, scale / 2)


# -- common parts ----------------------------------------------------------------------------------


def _each(function: Any, x: Pair) -> Pair:
    return Pair(function(x.re), function(x.im))


def _of_real(x: Any, axis: int, scale: float) -> Pair:
    """The scaled transform of real numbers, up to the middle."""
    points = x.shape[axis]
    if radix := _odd_radix(points):
        return _of_odd(x, axis, scale, radix)
    if points % 2 or points <= WRITTEN_OUT:
        full = _transform(Pair(x, zeros(x.shape, x.dtype)), axis, scale)
        return _each(lambda part: read_along(part, axis, 0, half(points)), full)
    even, odd = (read_along(x, axis, start, points // 2, 2) for start in (0, 1))
    both = _transform(Pair(even, odd), axis, scale / 2)
    a = _each(lambda part: concatenate([part, read_along(part, axis, 0, 1)], axis=axis), both)
    b = _each(lambda part: flip(part, axes=(axis,)), a)
    cosine, sine = _turns(points, axis, a)
    turned = Pair(a.im + b.im, b.re - a.re)
    return Pair(
        a.re + b.re + turned.re * cosine + turned.im * sine,
        a.im - b.im + turned.im * cosine - turned.re * sine,
    )


def _odd_radix(points: int) -> int:
    """The length of the butterfly that halves a transform of real numbers; 0 if there is none."""
    if points % 2 == 0:
        return 0
    return next((r for r in ODD_RADICES if points % r == 0 and points // r > WRITTEN_OUT), 0)


def _of_odd(x: Any, axis: int, scale: float, radix: int) -> Pair:
    """The transform of an odd number of real numbers, of which the first stage is a butterfly.

    Of the lines that it leaves, numbers k and ``radix - k`` have conjugate results, in opposite
    order, so only half of the lines are transformed.
    """
    points = x.shape[axis]
    left = points // radix
    y = _butterfly_of_real([read_along(x, axis, j * left, left) for j in range(radix)])
    for k, (cosine, sine) in enumerate(_multiples(points, half(radix), axis, x), 1):
        y[k] = by(y[k], cosine, sine)
    lines = Pair(*(stack(parts, axis=axis) for parts in zip(*y, strict=True)))
    lines = _transform(lines, axis + 1, scale)
    rest = _each(lambda part: read_along(part, axis, 1, half(radix) - 1), lines)
    rest = _each(lambda part: flip(part, axes=(axis, axis + 1)), conj(rest))

    def in_order(*both: Any) -> Any:
        full = move_axis(concatenate(both, axis=axis), axis, axis + 1)
        return read_along(reshape(full, shape=x.shape), axis, 0, half(points))

    return Pair(*map(in_order, lines, rest))


def _to_odd(x: Pair, axis: int, points: int, scale: float, radix: int) -> Any:
    """The inverse of `_of_odd`, in the opposite order: the last stage is a butterfly."""
    left = points // radix

    def line(k: int) -> Pair:
        """The numbers k, ``k + radix``, ..., the later half from conjugates of mirror images."""
        first = _each(lambda part: read_along(part, axis, k, half(left), radix), x)
        mirrored = radix - k
        rest = _each(lambda part: read_along(part, axis, mirrored, left // 2, radix), x)
        rest = _each(lambda part: flip(part, axes=(axis,)), conj(rest))
        return Pair(*(concatenate(both, axis=axis) for both in zip(first, rest, strict=True)))

    parts = zip(*map(line, range(half(radix))), strict=True)
    lines = _inverse(Pair(*(stack(part, axis=axis) for part in parts)), axis + 1, scale)
    shape = (*x.re.shape[:axis], left, *x.re.shape[axis + 1 :])
    y = [
        _each(lambda part, k=k: reshape(read_along(part, axis, k, 1), shape=shape), lines)
        for k in range(half(radix))
    ]
    for k, (cosine, sine) in enumerate(_multiples(points, half(radix), axis, x.re), 1):
        y[k] = by(y[k], cosine, -sine)
    return concatenate(_butterfly_to_real(y), axis=axis)


def _butterfly_of_real(x: Sequence[Any]) -> list[Pair]:
    """The first half of the transform of an odd number of real numbers."""
    evens, odds = zip(*((a + b, a - b) for a, b in zip(x[1:], x[:0:-1], strict=True)), strict=True)
    y = [Pair(sum(evens[: len(x) // 2], x[0]), zeros(x[0].shape, x[0].dtype))]
    for cosines, sines in _halves(len(x)):
        y.append(Pair(_dot(evens, cosines) + x[0], -_dot(odds, sines)))
    return y


def _butterfly_to_real(y: Sequence[Pair]) -> list[Any]:
    """The unscaled inverse transform to an odd number of real numbers, from its first half."""
    first, *rest = y
    re, im = ([part * 2.0 for part in parts] for parts in zip(*rest, strict=True))
    x = [first.re] * (2 * len(rest) + 1)
    x[0] = sum(re, first.re)
    for j, (cosines, sines) in enumerate(_halves(len(x)), 1):
        even, odd = _dot(re, cosines) + first.re, _dot(im, sines)
        x[j], x[-j] = even - odd, even + odd
    return x


def _halves(points: int) -> list[tuple[list[float], ...]]:
    """Cosines and sines of ``j k / points`` of a turn: a row for each j, up to half of them."""
    numbers = np.arange(1, points // 2 + 1)
    return [cosines_and_sines(j * numbers % points, points) for j in numbers]


def _dot(x: Sequence[Any], weights: Sequence[float]) -> Any:
    return reduce(operator.add, map(operator.mul, x, weights))


def _with_conjugates(x: Pair, axes: tuple[int, ...], points: int) -> Pair:
    """The whole transform of real numbers, completed by conjugates of mirror images."""
    first, *others = axes

    def opposite(part: Any) -> Any:
        rest = read_along(part, first, 1, (points - 1) // 2)
        return _opposite(flip(rest, axes=(first,)), others)

    return Pair(
        concatenate([x.re, opposite(x.re)], axis=first),
        concatenate([x.im, -opposite(x.im)], axis=first),
    )


def _opposite(x: Any, axes: Sequence[int]) -> Any:
    """The mirror images of numbers along axes: the elements at negated indices."""
    for axis in axes:
        first, rest = read_along(x, axis, 0, 1), read_along(x, axis, 1, x.shape[axis] - 1)
        x = concatenate([first, flip(rest, axes=(axis,))], axis=axis)
    return x


def _to_real(x: Pair, axis: int, points: int, scale: float) -> Any:
    """The scaled inverse transform to real numbers, from the first half."""
    if radix := _odd_radix(points):
        return _to_odd(x, axis, points, scale, radix)
    if points % 2 or points <= WRITTEN_OUT:
        rest = _each(lambda part: read_along(part, axis, 1, (points - 1) // 2), x)
        rest = _each(lambda part: flip(part, axes=(axis,)), conj(rest))
        full = Pair(*(concatenate(both, axis=axis) for both in zip(x, rest, strict=True)))
        return _inverse(full, axis, scale).re
    count = points // 2
    a = _each(lambda part: read_along(part, axis, 0, count), x)
    b = _each(lambda part: flip(read_along(part, axis, 1, count), axes=(axis,)), x)
    cosine, sine = (read_along(part, axis, 0, count) for part in _turns(points, axis, a))
    odd = Pair(a.re - b.re, a.im + b.im)
    turned = Pair(odd.re * cosine - odd.im * sine, odd.im * cosine + odd.re * sine)
    both = _inverse(Pair(a.re + b.re - turned.im, a.im - b.im + turned.re), axis, scale)
    shape = (*x.re.shape[:axis], points, *x.re.shape[axis + 1 :])
    return reshape(stack(list(both), axis=axis + 1), shape=shape)


def _inverse(x: Pair, axis: int, scale: float) -> Pair:
    im, re = _transform(Pair(x.im, x.re), axis, scale)
    return Pair(re, im)


def _transform(x: Pair, axis: int, scale: float) -> Pair:
    """The scaled transform with a negative exponent."""
    points = x.re.shape[axis]
    if not is_made(points):
        return _by_convolution(x, axis, scale)
    if points > WRITTEN_OUT:
        return Pair(*split_fft_p(*x, axis=axis, scale=scale))
    taken = [_each(lambda part, j=j: read_along(part, axis, j, 1), x) for j in range(points)]
    results = butterfly(taken)
    full = Pair(*(concatenate(list(parts), axis=axis) for parts in zip(*results, strict=True)))
    return full if scale == 1 else _each(lambda part: part * part.dtype.type(scale), full)


def _by_convolution(x: Pair, axis: int, scale: float) -> Pair:
    """Bluestein's algorithm: ``2 j k = j^2 + k^2 - (k - j)^2`` in the exponent.

    So a transform is a convolution with a chirp, computed by transforms of another length.
    """
    points, dtype = x.re.shape[axis], x.re.dtype
    length = padded(points)
    cosine, sine = (cast(chirp_p(size=points, part=part), dtype=dtype) for part in (COSINE, SINE))
    around = [
        concatenate(
            [part, zeros((length - 2 * points + 1,), dtype), flip(_tail(part), axes=(0,))], axis=0
        )
        for part in (cosine, sine)
    ]
    filter_ = Pair(*split_fft_p(*around, axis=0, scale=1 / length))
    chirp, filter_ = (
        _each(lambda part: _along(part, axis, x.re.ndim), each)
        for each in (Pair(cosine, -sine), filter_)
    )
    rest = tuple(length - points if i == axis else n for i, n in enumerate(x.re.shape))
    longer = _each(
        lambda part: concatenate([part, zeros(rest, dtype)], axis=axis), multiply(x, chirp)
    )
    spectrum = multiply(Pair(*split_fft_p(*longer, axis=axis, scale=1.0)), filter_)
    im, re = split_fft_p(spectrum.im, spectrum.re, axis=axis, scale=scale)
    found = _each(lambda part: read_along(part, axis, 0, points), Pair(re, im))
    return multiply(found, chirp)


def _tail(x: Any) -> Any:
    return read_along(x, 0, 1, x.shape[0] - 1)


def _along(x: Any, axis: int, ndim: int) -> Any:
    """A vector reshaped to lie along one of ``ndim`` axes."""
    return reshape(x, shape=tuple(x.shape[0] if i == axis else 1 for i in range(ndim)))


def _turns(points: int, axis: int, like: Pair) -> tuple[Any, Any]:
    """Cosines and sines of the multiples of a turn divided by ``points``, up to half a turn."""
    shape = tuple(half(points) if i == axis else 1 for i in range(like.re.ndim))
    cosine, sine = (
        reshape(
            cast(turns_p(size=half(points), steps=points, part=part), dtype=like.dtype), shape=shape
        )
        for part in (COSINE, SINE)
    )
    return cosine, sine


def _multiples(points: int, count: int, axis: int, like: Any) -> list[tuple[Any, Any]]:
    """Twiddle factors of the lines 1, 2, ... after a first butterfly of ``2 count - 1`` points."""
    left = points // (2 * count - 1)
    table = [
        cast(turns_p(size=count * left, steps=points, part=part), dtype=like.dtype)
        for part in (COSINE, SINE)
    ]

    def of_line(part: Any, k: int) -> Any:
        return _along(read_along(part, 0, 0, left, k), axis, like.ndim)

    return [(of_line(table[0], k), of_line(table[1], k)) for k in range(1, count)]


def _without_ends(x: Any, axis: int, points: int) -> Any:
    """Imaginary parts with zero for the first, and for the last if the number is even."""
    count = (points - 1) // 2
    if count == 0:
        return zeros(x.shape, x.dtype)
    index = tuple((1, count, 1) if i == axis else whole(n) for i, n in enumerate(x.shape))
    return embed(read_along(x, axis, 1, count), index=index, shape=x.shape)
