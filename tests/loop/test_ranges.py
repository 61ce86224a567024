"""Ranges of numbers hold their values, and decide what is tested of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import jit, random
from functrans.loop.functions import Function, parameter
from functrans.loop.nodes import INDEX
from functrans.loop.ranges import Ranges
from functrans.loop.scalar import (
    OPERATIONS,
    Scalar,
    const,
    convert,
    evaluate,
    fma,
    lshr,
    maximum,
    minimum,
    sqrt,
    unlikely,
    where,
)
from functrans.loop.simplify import Simplifier
from tests.amount import examples

DTYPES = [np.dtype(name) for name in ("u1", "i2", "u4", "i4", "u8", "f4", "f8")]
FLOATS = [np.dtype(name) for name in ("f4", "f8")]
OPS = ("add", "sub", "mul", "neg", "abs", "min", "max", "fma", "sqrt")


def word(dtype=np.uint32):
    """A number of which nothing but its dtype is known."""
    return Scalar("local", (), np.dtype(dtype), ("w", str(np.dtype(dtype))))


def unit(bits=23):
    """A uniform number, as random bits make it."""
    return convert(lshr(word(), 32 - bits), np.float32) * 2.0**-bits


def of(node):
    return Ranges(Simplifier().bounds)(node)


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32), st.lists(st.tuples(*[st.integers(0, 999)] * 5), max_size=25))
def test_values_are_within(seed, picks):
    rng = np.random.default_rng(seed)
    nodes, values = [const(x, dtype) for dtype in FLOATS for x in (-2.5, 0.0, 0.75, 1e30)], {}
    for dtype in DTYPES[:5]:
        ends = np.iinfo(dtype)
        drawn = rng.integers(ends.min, ends.max, 50, dtype, endpoint=True)
        drawn[:3] = ends.min, ends.max, ends.max // 3
        values[word(dtype)] = drawn
    nodes += values
    for op, first, second, third, shift in picks:
        x = nodes[first % len(nodes)]
        if x.dtype.kind in "iu":
            to = DTYPES[second % len(DTYPES)]
            name = ("shr", "lshr", "and")[third % 3]
            moved = Scalar(name, (x, const(shift % 9, x.dtype)), x.dtype)
            nodes += [moved, convert(moved, to)]
            continue
        alike = [node for node in nodes if node.dtype == x.dtype]
        args = (x, alike[second % len(alike)], alike[third % len(alike)])
        name = OPS[op % len(OPS)]
        nodes.append(Scalar(name, args[: OPERATIONS[name].arity], x.dtype))
    ranges = Ranges(Simplifier().bounds)
    for node in nodes:
        found = ranges(node)
        if found is not None:
            value = evaluate(node, values)
            assert np.all((value >= found[0]) & (value <= found[1])), (node, found)


def test_ranges_are_tight():
    assert of(unit()) == (0.0, 1 - 2.0**-23)
    assert of(fma(unit(), 2.0, -1.0)) == (-1.0, 1 - 2.0**-22)
    assert of(abs(fma(unit(), 2.0, -1.0))) == (0.0, 1.0)
    assert of(convert(word(np.int32) & 7, np.float64)) == (0.0, 7.0)
    assert of(convert(word(np.int16) >> 4, np.float64)) == (-2048.0, 2047.0)


@pytest.mark.parametrize(
    "node",
    [
        word(np.float32),
        unit() * word(np.float32),
        sqrt(unit() - 1.0),
        unit() / unit(),
        (unit() + 3e38) * 2.0,
        const(np.nan, np.float32),
        convert(unit(), np.float16),
    ],
    ids=["loaded", "product", "root", "quotient", "too large", "nan", "half"],
)
def test_what_may_be_nan_or_infinite_has_none(node):
    assert of(node) is None


def test_comparisons_are_decided():
    simplify, x = Simplifier(), unit()
    assert simplify(x < 1.0) is simplify(x >= 0.0) is const(True, bool)
    assert simplify(x < 0.0) is const(False, bool)
    assert simplify(x < 0.5).op == "lt"
    assert simplify(maximum(x, -1.0)) is simplify(x)
    assert simplify(minimum(x, 2.0)) is simplify(x)
    # of two zeros with different signs, either may be the larger
    assert simplify(maximum(x, -0.0)).op == "max"


def test_functions_are_simplified_for_the_range_of_their_operand():
    x = parameter(0, np.dtype(np.float32))
    function = Function((x,), unlikely(~(abs(x) < 1.0), where(x < 0, -np.inf, x), x * 2.0))
    assert Simplifier()(function((unit(),))).attribute.result is x * 2.0
    wider = Scalar("mul", (unit(), const(4.0, np.float32)), np.dtype(np.float32))
    assert "unlikely" in repr(Simplifier()(function((wider,))).attribute.result)
    assert Simplifier()(function((word(np.float32),))).attribute is function


def test_powers_of_two_that_scale_an_integer_are_one():
    x = fma(unit(), 2.0, -1.0)
    assert repr(Simplifier()(x)).startswith("fma(convert(")
    assert evaluate(Simplifier()(x), {word(): np.uint32(2**32 - 1)}) == np.float32(1 - 2.0**-22)
    # what is no integer may be rounded
    y = fma(word(np.float32) * 2.0**-23, 2.0, -1.0)
    assert Simplifier()(y) is y


def test_indices_are_numbers_too():
    place = Scalar("index", (), INDEX, ("i", 0, 10))
    assert Simplifier()(convert(place, np.float64) < 10.0) is const(True, bool)


def test_normal_numbers_are_not_tested_for_a_uniform_one_outside_of_its_interval():
    key = np.zeros(2, np.uint32)
    text = jit(lambda key: random.normal(key, (9,), np.float32)).lower(key).source()
    assert "nan" not in text
    assert "max" not in text
