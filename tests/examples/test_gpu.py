"""The option-pricing example on device arrays, against closed formulas."""

import numpy as np
import pytest
from scipy.stats import norm

from examples import gpu
from functrans import jit, vmap


def closed_forms(spot, volatility, strike, years, rate):
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation
    value = spot * norm.cdf(d1) - strike * np.exp(-rate * years) * norm.cdf(d1 - deviation)
    density = norm.pdf(d1)
    return value, norm.cdf(d1), density / (spot * deviation), spot * density * np.sqrt(years)


def test_greeks_are_those_of_the_closed_forms():
    book = gpu.options(1000)
    for found, expected in zip(jit(vmap(gpu.greeks))(*book), closed_forms(*book), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.dear
def test_it_runs_and_says_where(capsys):
    totals = gpu.main(1000)
    expected = [np.sum(x) for x in closed_forms(*gpu.options(1000))]
    np.testing.assert_allclose(list(totals.values()), expected, rtol=1e-9)
    said = capsys.readouterr().out
    assert said.startswith("1,000 options on c")
    assert "on a GPU, all Greeks of all options: " in said


@pytest.mark.gpu
def test_on_a_gpu_it_is_the_same():
    totals = gpu.main(1000)
    expected = [np.sum(x) for x in closed_forms(*gpu.options(1000))]
    np.testing.assert_allclose(list(totals.values()), expected, rtol=1e-9)
