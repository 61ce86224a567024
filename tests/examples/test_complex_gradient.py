"""The example that plots gradients of a real function of complex numbers."""

import re

import numpy as np

from examples import complex_gradient as example


def test_arrows_point_uphill():
    z = np.array([0.3 + 0.1j, -1.5j, 1.7 + 1.2j])
    arrows = example.uphill(z)
    for number, arrow in zip(z, arrows, strict=True):
        turns = np.exp(2j * np.pi * np.arange(360) / 360)
        rise = [example.size(number + 1e-6 * turn) for turn in turns]
        steepest = turns[np.argmax(rise)]
        assert abs(np.angle(arrow / steepest, deg=True)) < 1


def test_the_ways_down_end_in_zeros():
    for start in example.STARTS:
        assert np.min(np.abs(example.ZEROS - example.descent(start)[-1])) < 1e-3


def test_the_picture_of_the_documentation_is_that_of_the_example():
    numbers = [
        np.array(re.findall(r"-?\d*\.\d+", text), float)
        for text in (example.picture(), example.PICTURE.read_text(encoding="utf-8"))
    ]
    np.testing.assert_allclose(*numbers, atol=0.011)
