"""Compiled filters pair poles with zeros as SciPy does, for the values of each call."""

import numpy as np
import pytest
import scipy.signal

from functrans import jit, value_and_grad
from tests import amount

X = np.random.default_rng(0).normal(size=20)
DRAWS = 3 if amount.FULL else 1


@pytest.mark.parametrize("pairing", ["nearest", "keep_odd", "minimal"])
def test_pairs_follow_the_values(pairing):
    rng = np.random.default_rng(1)
    compiled = jit(lambda z, p: scipy.signal.zpk2sos(z, p, 0.5, pairing))
    for real in (0, 1, 2, 3):
        for _ in range(DRAWS):
            p, z = (
                np.concatenate([rng.uniform(-0.9, 0.9, real), pair, np.conj(pair)]).astype(complex)
                for pair in rng.uniform(0.1, 0.6, (2, 2)) * [[1 + 1j, 1 + 0.4j]]
            )
            expected = scipy.signal.zpk2sos(z, p, 0.5, pairing)
            np.testing.assert_allclose(compiled(z, p), expected, rtol=1e-12, atol=1e-12)


def test_pairs_of_one_real_part_are_told_apart():
    z = np.array([-1.0, -1.0, -1.0, -1.0])
    p = np.array([0.3 + 0.4j, 0.3 - 0.4j, 0.3 + 0.7j, 0.3 - 0.7j])
    found = jit(lambda z, p: scipy.signal.zpk2sos(z, p, 1.0))(z, p)
    np.testing.assert_allclose(found, scipy.signal.zpk2sos(z, p, 1.0), rtol=1e-12, atol=1e-12)


def test_a_lonely_pole_is_refused():
    with pytest.raises(ValueError, match="no matching conjugate"):
        jit(lambda p: scipy.signal.zpk2sos([], p, 1.0))(np.array([0.3 + 0.4j, 0.1]))


@pytest.mark.dear
def test_a_filtered_loss_has_the_slope_of_its_cut_off():
    def loss(w):
        return np.sum(scipy.signal.sosfilt(scipy.signal.butter(5, w, output="sos"), X) ** 2)

    value, slope = jit(value_and_grad(loss))(0.3)
    step = 1e-6
    np.testing.assert_allclose(value, loss(0.3), rtol=1e-10)
    difference = (loss(0.3 + step) - loss(0.3 - step)) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-6)
