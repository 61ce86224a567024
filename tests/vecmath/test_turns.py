"""Cosines and sines of fractions of a turn, against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, evaluate
from functrans.ops.fft.turns import points
from functrans.vecmath.turns import turn


def exact(numerators, steps):
    """Cosines and sines of many digits."""
    with mp.workprec(200):
        angles = [2 * mp.pi * int(n) / steps for n in numerators]
        return [[function(x) for x in angles] for function in (mp.cos, mp.sin)]


def computed(numerators, steps):
    numerator = Scalar("index", (), INDEX, ("n", 0, None))
    return [evaluate(part, {numerator: numerators}) for part in turn(numerator, steps)]


def error(got, expected):
    """In units of the last place."""
    with mp.workprec(200):
        errors = [
            float(abs(mp.mpf(float(x)) - y)) / float(np.spacing(abs(float(y))))
            for x, y in zip(got, expected, strict=True)
        ]
    return max(errors, default=0.0)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 12, 97, 360, 1024, 65_536, 3 * 2**40 + 1])
def test_error(steps):
    few = np.arange(steps + 1) if steps < 200 else np.linspace(0, steps, 200).astype(np.int64)
    for got, expected in zip(computed(few, steps), exact(few, steps), strict=True):
        # where they are 0, they are so exactly
        zeros = np.array([abs(x) < 1e-30 for x in expected])
        assert not np.any(got[zeros])
        kept = [x for x, is_zero in zip(expected, zeros, strict=True) if not is_zero]
        assert error(got[~zeros], kept) < 0.72


@pytest.mark.parametrize("steps", [4, 8, 24, 1024])
def test_symmetric_points_are_so_to_the_last_bit(steps):
    numerators = np.arange(steps + 1)
    for both in (computed(numerators, steps), points(numerators, steps)):
        cosine, sine = (part.astype(float) for part in both)
        np.testing.assert_array_equal(cosine, cosine[::-1])
        np.testing.assert_array_equal(sine, -sine[::-1])
        np.testing.assert_array_equal(sine[: steps // 4 + 1], cosine[steps // 4 :: -1])


def test_points_of_numpy_are_correctly_rounded():
    numerators = np.arange(98)
    for got, expected in zip(points(numerators, 97), exact(numerators, 97), strict=True):
        got, expected = got[1:].astype(float), expected[1:]
        rounded = [float(x) for x in expected]
        assert np.abs(got - rounded).max() <= np.finfo(float).eps / 2
        assert np.mean(got[:-1] == rounded[:-1]) > 0.95
