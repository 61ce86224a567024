"""Code of rarely executed scalar functions is outlined into one shared function."""

import numpy as np

from functrans import jit


def test_many_sines_share_the_reduction_of_huge_arguments():
    def chain(x):
        for _ in range(6):
            x = np.sin(x)
        return x

    text = jit(chain).lower(np.ones(100)).llvm()
    assert text.count("noinline cold") < 6
    assert text.count("call <") > 0 or text.count("@rare0") > 1


def test_huge_and_wild_arguments_are_right_in_every_lane_and_alone():
    x = np.array([0.5, 1e10, 3.0, 1e300, -1e22, 2.0, np.nan, np.inf, -0.0, 7.0, 1e5])
    with np.errstate(invalid="ignore"):
        expected = np.sin(x) * np.cos(x)
    compiled = jit(lambda x: np.sin(x) * np.cos(x))
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-14)
    for one, right in zip(x, expected, strict=True):
        np.testing.assert_allclose(compiled(float(one)), right, rtol=1e-14)
