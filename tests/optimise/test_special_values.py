"""The optimiser preserves every bit: NaN, infinities, signed zeros, integer overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functrans import jit
from functrans.ir.evaluate import evaluate
from functrans.ir.primitive import registry
from functrans.ir.types import aval_of
from functrans.optimise.passes import SIMPLIFICATION
from functrans.trace.stage import stage

VALUES = {
    "f": [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e300, -1e-300, 5e-324, np.inf, -np.inf, np.nan],
    "i": [0, 1, -1, 2, 127, -128, 2**62, -(2**63), 2**63 - 1],
    "b": [0, 1],
}
UNARY = {"f": ["negative", "positive", "sqrt", "absolute", "isinf", "isnan", "square"],
         "i": ["negative", "positive", "absolute", "invert", "square"],
         "b": ["logical_not"]}  # fmt: skip
BINARY = {"f": ["add", "subtract", "multiply", "divide", "maximum", "minimum", "copysign",
                "equal", "less"],
          "i": ["add", "subtract", "multiply", "bitwise_and", "bitwise_or", "equal", "less"],
          "b": ["logical_and", "logical_or", "bitwise_and", "equal"]}  # fmt: skip
DTYPES = [np.float64, np.float32, np.int64, np.int8, np.bool_]
SHAPE = (2, 3)


def number(draw, dtype):
    with np.errstate(all="ignore"):
        value = draw(st.sampled_from(VALUES[dtype.kind]))
        return np.asarray(value).astype(dtype)[()]


@st.composite
def programs(draw):
    """A function of arrays of special numbers, and the arrays."""
    dtypes = [np.dtype(draw(st.sampled_from(DTYPES))) for _ in range(2)]
    inputs = [np.array([number(draw, d) for _ in range(6)], d).reshape(SHAPE) for d in dtypes]
    # what is drawn while the function runs is drawn once: the choices are data
    choices = draw(st.lists(st.tuples(*[st.integers(0, 1000)] * 4), min_size=2, max_size=12))

    def function(*arrays):
        values = list(arrays)
        for kind, a, b, c in choices:
            x = values[a % len(values)]
            letter = x.dtype.kind
            same = [v for v in values if v.dtype == x.dtype]
            literals = np.asarray(VALUES[letter])
            with np.errstate(all="ignore"):
                literal = literals[b % len(literals)].astype(x.dtype)
            y = literal if c % 3 == 0 else same[b % len(same)]
            match kind % 5:
                case 0:
                    values.append(registry[UNARY[letter][b % len(UNARY[letter])]](x))
                case 1 | 2:
                    pair = (x, y) if c % 2 else (y, x)
                    values.append(registry[BINARY[letter][kind // 5 % len(BINARY[letter])]](*pair))
                case 3:
                    masks = [v for v in values if v.dtype == bool]
                    mask = masks[c % len(masks)] if masks else registry["equal"](x, x)
                    values.append(registry["select"](mask, x, same[b % len(same)]))
                case 4:
                    values.append(rearranged(b, x, literal))
        return values

    return function, inputs


def rearranged(number, x, literal):
    """What moves numbers about, and arrays of one number."""
    match number % 6:
        case 0:
            turned = registry["transpose"](x, permutation=(1, 0))
            return registry["transpose"](turned, permutation=(1, 0))
        case 1:
            return registry["reshape"](registry["reshape"](x, shape=(3, 2)), shape=SHAPE)
        case 2:
            return x if x.dtype.kind == "b" else registry["reduce_sum"](x, axes=())
        case 3:
            return registry["cast"](x, dtype=x.dtype)
        case 4:
            return registry["select"](registry["equal"](x, x), x, np.full_like(x, literal))
        case _:
            wide = registry["broadcast_to"](
                registry["broadcast_to"](x, shape=(2, *SHAPE)), shape=(2, 2, *SHAPE)
            )
            return registry["reduce_max"](wide, axes=(0, 1))


def same_bits(x, y):
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    if x.dtype.kind == "f":
        nan = np.isnan(y)
        np.testing.assert_array_equal(np.isnan(x), nan)
        x, y = np.where(nan, 0, x), np.where(nan, 0, y)
    assert x.tobytes() == y.tobytes(), (x, y)


@given(programs())
def test_no_bit_is_changed(program):
    function, inputs = program
    graph = stage(function, [aval_of(x) for x in inputs], kind="test").graph
    with np.errstate(all="ignore"):
        expected = evaluate(graph, inputs)
        for each in SIMPLIFICATION:
            graph = each.run(graph)
            for found, value in zip(evaluate(graph, inputs), expected, strict=True):
                try:
                    same_bits(np.asarray(found), np.asarray(value))
                except AssertionError as error:
                    error.add_note(f"after {each.name}:\n{graph}")
                    raise


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sign_of_a_zero_is_computed_with(sign):
    x = np.ones(2)
    function = jit(lambda x: np.copysign(1.0, np.full_like(x, sign * 0.0)))
    np.testing.assert_array_equal(function(x), [sign, sign])
