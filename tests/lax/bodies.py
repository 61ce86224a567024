"""Random loop bodies for the tests: straight-line programs on vectors."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

WIDTH = 3

UNARY = [np.sin, np.tanh, lambda v: 0.3 * v * v, lambda v: v - 0.5 * np.sum(v), lambda v: v[::-1]]
BINARY = [
    lambda u, v: 0.5 * (u + v),
    lambda u, v: u * v * 0.5,
    lambda u, v: u - v,
    lambda u, v: np.where(u > v, np.cos(u), v),
]


@dataclass(frozen=True)
class Program:
    """``lines`` of (operation, operand, operand); results are picked among all values by number."""

    lines: tuple
    results: tuple

    def __call__(self, *values):
        values = list(values)
        for operation, i, j in self.lines:
            u, v = values[i % len(values)], values[j % len(values)]
            if operation < len(UNARY):
                values.append(UNARY[operation](u))
            else:
                values.append(BINARY[operation - len(UNARY)](u, v))
        return [values[i % len(values)] for i in self.results]


def programs(results, max_lines=6):
    """Programs of any number of vectors with so many results."""
    number = st.integers(0, 20)
    operation = st.integers(0, len(UNARY) + len(BINARY) - 1)
    line = st.tuples(operation, number, number)
    return st.builds(
        Program,
        st.lists(line, min_size=1, max_size=max_lines).map(tuple),
        st.tuples(*[number] * results),
    )


def arrays(seed, *shapes):
    """Normally distributed arrays."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def close(actual, expected, tolerance=1e-9):
    """Assert that two nested sequences of arrays are equal up to rounding."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            close(a, b, tolerance)
    else:
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
