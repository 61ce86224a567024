"""Common divisors, multiples and powers of integers, at the ends of their ranges, too."""

import numpy as np
import pytest

from functrans import jit, vmap
from functrans.ir.types import aval_of
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.trace.stage import rewrite
from tests.emit.cuda.programs import emulate_plan

DTYPES = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
FUNCTIONS = {"gcd": np.gcd, "lcm": np.lcm, "power": lambda x, y: x**y}


def operands(name, dtype):
    """All pairs of small numbers, of the largest and the least, and of some between them."""
    ends = np.iinfo(dtype)
    some = np.random.default_rng(0).integers(ends.min, ends.max, 12, dtype, endpoint=True)
    few = [0, 1, 2, 3, 6, 12, 45, 100, ends.max, ends.max - 1, ends.min, ends.min + 1]
    few += [-1, -2, -6] if dtype.kind == "i" else []
    x = np.concatenate([np.array(few, dtype), some])
    return x[:, None], x[x >= 0] if name == "power" else x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_compiled_and_on_a_gpu_they_are_numpys(name, dtype):
    function, given = FUNCTIONS[name], operands(name, dtype)
    expected = function(*given)
    on_cpu = jit(function)(*given)
    plan = pipeline.plan(rewrite(lambda *xs: [function(*xs)], list(map(aval_of, given))), CUDA)
    (on_gpu,), status = emulate_plan(plan, given)
    assert status == 0
    for found in (on_cpu, on_gpu):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("exponent", [0, 33, 64])
@pytest.mark.filterwarnings("ignore:overflow")
def test_powers_with_one_exponent_for_all(exponent):
    # whether the exponent is long is asked once, and what long ones need is computed of vectors
    x = np.arange(-50, 51)
    np.testing.assert_array_equal(jit(lambda x: x**exponent)(x), x**exponent)
    np.testing.assert_array_equal(jit(lambda x, n: x**n)(x, exponent), x**exponent)


def test_a_negative_exponent_fails_as_in_numpy():
    x, y = np.arange(5), np.array([1, 2, -1, 2, 2])
    with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
        jit(vmap(lambda x, y: x**y + 1))(x, y)
    plan = pipeline.plan(rewrite(lambda x, y: [x**y], [aval_of(x), aval_of(y)]), CUDA)
    assert emulate_plan(plan, (x, y))[1] > 0
    assert jit(lambda x, y: x**y)(x[:0], y[:0]).shape == (0,)
