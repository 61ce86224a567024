"""Elementwise operations that wait for each other: two vectors go side by side."""

import numpy as np

from functrans import config, jit
from functrans.lower.nest.vectors import Vectors
from functrans.run.code import host

LANES = host.target().lanes(8)
TOGETHER = LANES * host.target()[Vectors].together


def vectors(f, *args):
    schedule = jit(f).lower(*args).schedule()
    return [int(line.split()[-1]) for line in schedule.splitlines() if " by " in line]


def test_functions_go_side_by_side():
    x = np.linspace(-3, 3, 1024)
    assert vectors(np.tanh, x) == [TOGETHER]
    assert vectors(lambda x: np.exp(x) * np.sin(x), x) == [TOGETHER]
    # conditions of conditions take more registers than numbers do
    assert vectors(lambda x: np.where((x > 0) & (x < 1), np.exp(x), np.tanh(x)), x) == [LANES]
    # a copy waits for memory; elements that are not neighbours are loaded one by one
    assert vectors(lambda x: x * 2.0, x) == [LANES]
    assert vectors(lambda x: np.tanh(x[::3]), np.linspace(-3, 3, 3072)) == [LANES]


def test_all_lengths():
    before = config.threads
    for n in (0, 1, 2, 3, 5, 9, 17, 33, 300, 2600):
        x = np.random.default_rng(n).normal(size=n)
        for config.threads in (1, 2):
            found = jit(lambda x: (np.tanh(x) * np.exp(x), x))(x)
            np.testing.assert_allclose(found[0], np.tanh(x) * np.exp(x), rtol=1e-14)
    config.threads = before
