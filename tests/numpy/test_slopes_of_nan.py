"""Functions that choose among numbers, of NaN: where the value is NaN, so is the slope."""

import numpy as np
import pytest

from functrans import grad, jacfwd, jit, value_and_grad
from functrans.scipy import special


def at(x):
    largest = 1.0 * x
    np.maximum.at(largest, np.array([0, 2]), x[1:3])
    return np.sum(largest)


FUNCTIONS = {
    "max": np.max,
    "min of rows": lambda x: np.sum(np.min(x.reshape(2, 2), 1)),
    "ptp": np.ptp,
    "running maximum": lambda x: np.sum(np.maximum.accumulate(x)),
    "running minimum": lambda x: np.sum(np.minimum.accumulate(x)),
    "maximum.at": at,
    "median": np.median,
    "percentile": lambda x: np.percentile(x, 30),
    "its level": lambda x: np.quantile(np.array([np.nan, 1.0]), x[0]),
    "weighted quantile": lambda x: np.quantile(x, 0.3, weights=np.ones(4), method="inverted_cdf"),
    "maximum": lambda x: np.exp(np.sum(np.maximum(x, 0.5))),
    "minimum": lambda x: np.exp(np.sum(np.minimum(0.5, x))),
    "clip": lambda x: np.exp(np.sum(np.clip(x, 0.4, 0.6))),
    "gammainc by its order": lambda x: grad(lambda a: np.sum(special.gammainc(a, x)))(1.3),
    "betainc by its order": lambda x: grad(lambda a: np.sum(special.betainc(a, 0.7, x)))(1.3),
}


@pytest.mark.parametrize("transform", [lambda f: f, jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_of_nan_are_nan(name, transform):
    f = FUNCTIONS[name]
    x = np.array([0.3, np.nan, 0.7, 0.9])
    value, slope = transform(value_and_grad(f))(x)
    assert np.isnan(value)
    assert np.isnan(slope).any()
    assert np.isnan(transform(jacfwd(f))(x)).any()


def test_of_two_numbers_the_rest_keeps_its_slope():
    x = np.array([[0.3, np.nan], [0.7, 0.9]])
    for transform in (lambda f: f, jit):
        slopes = transform(grad(lambda x: np.sum(np.max(x, 1))))(x)
        np.testing.assert_array_equal(slopes, [[np.nan, np.nan], [0, 1]])
        slopes = transform(grad(lambda x: np.nansum(np.max(x, 1))))(x)
        np.testing.assert_array_equal(slopes, [[0, 0], [0, 1]])
