"""Scaling by powers of two: the same bits from NumPy, from arithmetic, and from an instruction."""

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, evaluate
from functrans.loop.statements import For, Kernel, Store, buffer, load
from functrans.run.code import native
from functrans.vecmath.polynomial import format_of, scale
from tests.vecmath.reference import DTYPES, random_bits
from tests.vecmath.test_compiled import BINARY, COUNT, call, kernel


def operands(dtype):
    """Numbers and exponents: all boundaries of the results, and what is no number."""
    x = Scalar("argument", (), np.dtype(dtype), 0)
    bias, bits = format_of(x).bias, format_of(x).fraction_bits
    rng = np.random.default_rng(0)
    numbers = rng.uniform(0.5, 2, 20) * rng.choice([-1, 1, 2.0**-59, 2.0**59], 20)
    numbers = np.append(numbers, [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2 - 2.0**-bits])
    edges = [-bias - bits - 1, -bias - bits, -bias, 1 - bias, 0, bias - 1, bias, bias + 1]
    steps = np.unique(np.add.outer(edges, np.arange(-4, 5)))
    steps = np.append(steps[abs(steps) <= 180 + bias], [-180, 180])
    steps = np.append(steps, -0.0)
    x, k = (v.ravel().astype(dtype) for v in np.meshgrid(numbers, steps))
    count = -len(x) % 64
    return np.append(x, x[:count]), np.append(k, k[:count])


def bits(x):
    return np.where(np.isnan(x), np.nan, x).tobytes()


def expected(x, k):
    with np.errstate(all="ignore"):
        return np.ldexp(x, k.astype(np.int32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scaling_evaluated_by_numpy(dtype):
    x, k = operands(dtype)
    a, b = (Scalar("argument", (), np.dtype(dtype), i) for i in range(2))
    assert bits(evaluate(scale(a, b), {a: x, b: k})) == bits(expected(x, k))


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("instructions", [frozenset(), native.instructions()])
def test_scaling_in_machine_code(instructions, dtype, lanes):
    x, k = operands(dtype)
    result = np.empty_like(x)
    extent, i = const(len(x), INDEX), Scalar("index", (), INDEX, ("i", 0, None))
    names = [buffer(name, np.dtype(dtype), [len(x)]) for name in ("x", "k", "out")]
    value = scale(*(load(each, [i]) for each in names[:2]))
    loop = For(i, const(0, INDEX), extent, (Store(names[2], (i,), value),), lanes=lanes)
    text = emit(Kernel(tuple(names), 0, (loop,)), instructions)
    call(text, [x, k, result])
    assert bits(result) == bits(expected(x, k))
    assert ("scalef" in native.assembly(text)) == ("scalef" in instructions)


USERS = (
    "exp",
    "exp2",
    "exprel",
    "erfc",
    "erfcx",
    "gamma",
    "log_ndtr",
    "power",
    "rgamma",
    "sigmoid",
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", USERS)
def test_functions_have_the_same_bits_with_the_instruction(name, dtype):
    rng = np.random.default_rng(0)
    arity = 2 if name in BINARY else 1
    moderate = [rng.standard_normal(COUNT // 2).astype(dtype) * 60 for _ in range(arity)]
    x = [np.concatenate([each, random_bits(rng, dtype, COUNT // 2)]) for each in moderate]
    results = []
    for instructions in (frozenset(), native.instructions()):
        results.append(np.empty(COUNT, dtype))
        call(emit(kernel(name, dtype, arity), instructions), [*x, results[-1]])
    assert bits(results[0]) == bits(results[1])
