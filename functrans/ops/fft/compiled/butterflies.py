"""Butterflies: unrolled Fourier transforms of a few numbers.

They use only ``+``, ``-`` and ``*``, so the numbers may be scalars of the loop language or arrays
of the IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.ops.compiled.pairs import Pair
from functrans.ops.fft.split import factors
from functrans.ops.fft.turns import points


def butterfly(x: Sequence[Pair]) -> list[Pair]:
    """The Fourier transform: ``y[k] = sum(x[j] * exp(-2i pi j k / n))``."""
    n = len(x)
    if n <= 2:
        return _two(*x) if n == 2 else list(x)
    # for eight numbers, two times four is less work than four times two
    radix = 4 if n % 4 == 0 and n != 8 else factors(n)[0]
    if radix == n:
        return _four(*x) if n == 4 else _odd(x)
    # decimation in time
    parts = [butterfly(x[j::radix]) for j in range(radix)]
    rows = [
        butterfly([turned(part[k], j * k, n) for j, part in enumerate(parts)])
        for k in range(n // radix)
    ]
    return [row[i] for i in range(radix) for row in rows]


def _two(a: Pair, b: Pair) -> list[Pair]:
    return [Pair(a.re + b.re, a.im + b.im), Pair(a.re - b.re, a.im - b.im)]


def _four(a: Pair, b: Pair, c: Pair, d: Pair) -> list[Pair]:
    (even, other), (odd, turn) = _two(a, c), _two(b, d)
    first, third = _two(even, odd)
    return [
        first,
        Pair(other.re + turn.im, other.im - turn.re),
        third,
        Pair(other.re - turn.im, other.im + turn.re),
    ]


def _odd(x: Sequence[Pair]) -> list[Pair]:
    """The transform of a prime number of elements, by their even and odd parts in ``j``."""
    n = len(x)
    half = range(1, n // 2 + 1)
    pairs = [_two(x[j], x[n - j]) for j in half]
    result = [x[0]] * n
    for even, _ in pairs:
        result[0] = Pair(result[0].re + even.re, result[0].im + even.im)
    for k in half:
        cosines, sines = cosines_and_sines(np.array([j * k % n for j in half]), n)
        total, turn = x[0], None
        for (even, odd), cosine, sine in zip(pairs, cosines, sines, strict=True):
            total = Pair(total.re + even.re * cosine, total.im + even.im * cosine)
            term = Pair(odd.re * sine, odd.im * sine)
            turn = term if turn is None else Pair(turn.re + term.re, turn.im + term.im)
        assert turn is not None
        result[k] = Pair(total.re + turn.im, total.im - turn.re)
        result[n - k] = Pair(total.re - turn.im, total.im + turn.re)
    return result


def cosines_and_sines(numerators: Any, steps: int) -> tuple[list[float], ...]:
    """Cosines and sines of multiples of a turn divided by ``steps``."""
    return tuple(part.astype(float).tolist() for part in points(numerators, steps))


def turned(x: Pair, numerator: int, steps: int) -> Pair:
    """``x * exp(-2i pi numerator / steps)``, for a constant angle."""
    quarter, rest = divmod(numerator % steps * 4, steps)
    for _ in range(quarter):
        x = Pair(x.im, -x.re)
    if rest == 0:
        return x
    (cosine,), (sine,) = cosines_and_sines(np.array([rest]), 4 * steps)
    if 2 * rest == steps:
        return Pair((x.re + x.im) * cosine, (x.im - x.re) * cosine)
    return by(x, cosine, sine)


def by(x: Pair, cosine: Any, sine: Any) -> Pair:
    """``x * (cosine - 1j * sine)``."""
    return Pair(x.re * cosine + x.im * sine, x.im * cosine - x.re * sine)
