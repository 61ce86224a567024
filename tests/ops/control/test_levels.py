"""Steps of scans whose vector loops are distributed by levels of dependence."""

import numpy as np
import pytest

from functrans import grad, jit, lax
from tests.targets import take_host_for


@pytest.mark.parametrize("width", [6, 7, 14, 22, 29])
def test_layers_whose_units_depend_on_themselves(width, monkeypatch):
    """The layers of each step are loops of their own, whose vectors do not overlap."""

    def loss(w, state, xs):
        def step(state, h):
            for number in range(4):
                h = np.tanh(w[number] * h + state[number])
                state = state.at[number].set(h)
            return state, h

        return np.sum(lax.scan(step, state, xs)[1] ** 2)

    rng = np.random.default_rng(0)
    given = [rng.normal(size=(count, width)) for count in (4, 4, 17)]
    h, state, total = None, given[1].copy(), 0.0
    for h in given[2]:
        for number in range(4):
            h = state[number] = np.tanh(given[0][number] * h + state[number])
        total += np.sum(h**2)
    assert np.isclose(jit(loss)(*given), total, rtol=1e-12)
    compiled, eager = jit(grad(loss, (0, 1, 2))), grad(loss, (0, 1, 2))
    for found, expected in zip(compiled(*given), eager(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    if width == 14:  # of 14, four are in a vector of their own
        take_host_for(monkeypatch, vector_bytes=64, registers=32)
        assert jit(loss).lower(*given).schedule().count("by 4") == 4
