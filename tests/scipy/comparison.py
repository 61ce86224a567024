"""Helpers for tests of `functrans.scipy`: calls on traced values against SciPy on plain ones."""

import numpy as np

from functrans import jit, vmap
from functrans.testing import check_grads


def leaves(result):
    return list(result) if isinstance(result, tuple) else [result]


def assert_same(found, expected, atol):
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        tolerance = 2e-5 if np.asarray(y).dtype in (np.float32, np.complex64) else atol
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def check(call, ours, theirs, operands, *, compiled, grads=True, atol=1e-10):
    """Values, dtypes and shapes of all lanes of vmap, and derivatives; and compiled ones."""
    operands = tuple(map(np.asarray, operands))

    def apply(*given):
        return leaves(call(ours, *given))

    floats = all(x.dtype.kind == "f" for x in operands)
    lanes = [operands, tuple((0.5 * x - 0.1).astype(x.dtype) for x in operands)] if floats else [
        operands, operands]  # fmt: skip
    expected = [leaves(call(theirs, *lane)) for lane in lanes]
    stacked = [np.stack(each) for each in zip(*lanes, strict=True)]
    assert_same(
        vmap(apply)(*stacked), [np.stack(each) for each in zip(*expected, strict=True)], atol
    )
    if compiled:
        assert_same(jit(apply)(*operands), expected[0], atol)
    doubles = all(x.dtype == np.float64 for x in (*operands, *expected[0]))
    if grads and doubles and all(x.size for x in expected[0]):
        check_grads(lambda *given: tuple(apply(*given)), operands, order=1, max_elements=3)


def traced(function):
    """A function as it is on values that a trace does not know, without the time to compile it."""

    def one_lane(*operands):
        return vmap(function)(*(np.asarray(x)[None] for x in operands))[0]

    return one_lane
