"""Results of loops and branches do not share memory with their operands."""

import numpy as np
import pytest

from functrans import lax

OPERATIONS = {
    "scan": lambda x: lax.scan(lambda c, row: (c, row), x, np.ones((2, 3))),
    "scan of no steps": lambda x: lax.scan(lambda c, row: (c[::-1], None), x, None, length=0),
    "two of one": lambda x: lax.scan(lambda c, _: ((c[0], c[0]), None), (x, x + 1), None, length=1),
    "while_loop": lambda x: lax.while_loop(lambda c: c[0] < 0, lambda c: c + 1, x),
    "fori_loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c, x),
    "cond": lambda x: lax.cond(True, lambda x: x[1:], lambda x: x[:-1], x),
    "captured": lambda x: lax.cond(True, lambda: x, lambda: -x),
    "switch": lambda x: lax.switch(1, [lambda x: -x, lambda x: x], x),
    "map": lambda x: lax.map(lambda row: row, x[None]),
    "associative_scan": lambda x: lax.associative_scan(np.add, x[None]),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_result_is_nobody_elses(operation):
    x = np.arange(3.0)
    found = _leaves(operation(x))
    kept = [r.copy() for r in found]
    for i, result in enumerate(found):
        result[...] = 7.0
        np.testing.assert_array_equal(x, np.arange(3.0))
        for other, before in zip(found[i + 1 :], kept[i + 1 :], strict=True):
            np.testing.assert_array_equal(other, before)


def _leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [] if value is None else [value]
