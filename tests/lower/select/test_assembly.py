"""Rows that are added to an array one after another share a loop if they are short."""

import numpy as np
import pytest

from functrans import grad, jit, lax
from tests.targets import take_host_for


def total(w, c):
    """Each step reads eight rows, of which one is read twice."""

    def step(c, x):
        for row in (*w, w[3]):
            c = np.tanh(c * row + x)
        return c, None

    return np.sum(lax.scan(step, c, np.arange(4.0))[0])


@pytest.mark.parametrize(("extent", "loops"), [(9, 1), (64, 1), (65, 8)])
def test_short_rows_share_a_loop(extent, loops, monkeypatch):
    take_host_for(monkeypatch, joining={"longest": 0})
    rng = np.random.default_rng(extent)
    w, c = rng.normal(size=(8, extent)), rng.normal(size=extent)
    slope = jit(grad(total))
    lines = slope.lower(w, c).schedule().splitlines()
    adding = [number for number, line in enumerate(lines) if "add=" in line]
    assert len(adding) == 8
    assert sum("for u in" in lines[number - 1] for number in adding) == loops
    np.testing.assert_allclose(slope(w, c), grad(total)(w, c), rtol=1e-10, atol=1e-12)
    direction, step = rng.normal(size=w.shape), 1e-6
    ends = [total(w + sign * step * direction, c) for sign in (1, -1)]
    found = np.sum(slope(w, c) * direction)
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7)
