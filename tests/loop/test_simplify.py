"""Simplification of expressions preserves every bit, also where integers wrap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans.loop.nodes import INDEX, bounded, guard, index
from functrans.loop.scalar import (
    BOOL,
    OPERATIONS,
    Scalar,
    const,
    convert,
    evaluate,
    fma,
    idiv,
    irem,
    lshr,
    maximum,
    minimum,
    where,
)
from functrans.loop.simplify import Simplifier
from tests.amount import examples

DTYPES = [np.dtype(name) for name in ("i8", "i1", "u1", "i4", "u8", "f8", "f4", "?")]
LONGEST = (1, 3, 17, 2**31, 2**62)
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e30, np.inf, -np.inf, np.nan]
ANY, INTEGERS, NUMBERS, FLOATING, LOGIC = "iufb", "iu", "iuf", "f", "iub"
OPERANDS = {
    "add": NUMBERS, "sub": NUMBERS, "mul": NUMBERS, "neg": NUMBERS, "abs": NUMBERS,
    "min": NUMBERS, "max": NUMBERS, "idiv": INTEGERS, "irem": INTEGERS, "div": FLOATING,
    "copysign": FLOATING, "floor": FLOATING, "and": LOGIC, "or": LOGIC, "xor": LOGIC, "not": LOGIC,
    "shl": INTEGERS, "shr": INTEGERS, "eq": ANY, "ne": ANY, "lt": NUMBERS, "le": NUMBERS,
    "where": ANY, "convert": ANY, "fma": FLOATING, "lshr": INTEGERS, "rotl": INTEGERS,
}  # fmt: skip
"""Operations, and the kinds of dtypes that they take."""


def extremes(dtype):
    """Numbers of a dtype: the ends of its range, and small ones."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind == "f":
        return FLOATS
    ends = np.iinfo(dtype)
    numbers = (ends.min, ends.min + 1, ends.max // 2 + 1, ends.max - 1, ends.max)
    small = (-3, -1, 0, 1, 2, 3, 6, 17, 64)
    return [x for x in (*numbers, *small) if ends.min <= x <= ends.max]


def leaves(seed):
    """Constants, locals and loop indices, and the values of those that are no constants."""
    rng = np.random.default_rng(seed)
    constants = [const(x, dtype) for dtype in DTYPES for x in extremes(dtype)]
    values = {}
    for dtype in DTYPES:
        for label in ("x", "y"):
            node = Scalar("local", (), dtype, (label, str(dtype)))
            numbers = extremes(dtype)
            values[node] = np.asarray(numbers[rng.integers(len(numbers))], dtype)
    for extent in LONGEST:
        values[index("i", extent)] = np.asarray(rng.choice([0, extent // 2, extent - 1]), INDEX)
    return [*constants, *values], values


def applied(op, nodes, of_indices, picks):
    """An operation on nodes of one dtype; None if it does not take that dtype."""
    firsts = [node for node in nodes if node.dtype == INDEX] if of_indices else nodes
    first = firsts[picks[0] % len(firsts)]
    if first.dtype.kind not in OPERANDS[op]:
        return None
    alike = [node for node in nodes if node.dtype == first.dtype]
    second = alike[picks[1] % len(alike)]
    if op == "convert":
        to = DTYPES[picks[1] % len(DTYPES)]
        # a float beyond an integer's range has no value that is the same everywhere
        return None if first.dtype.kind == "f" and to.kind in "iu" else convert(first, to)
    if op == "where":
        truths = [node for node in nodes if node.dtype == BOOL]
        return where(truths[picks[2] % len(truths)], first, second)
    if op in ("idiv", "irem"):
        positive = [n for n in alike if n.op == "const" and n.attribute > 0]
        second = positive[picks[1] % len(positive)]
    third = alike[picks[2] % len(alike)]
    args = (first, second, third)[: OPERATIONS[op].arity]
    return Scalar(op, args, BOOL if op in ("eq", "ne", "lt", "le") else first.dtype)


instruction = st.tuples(st.sampled_from(list(OPERANDS)), st.booleans(), *[st.integers(0, 999)] * 3)


def same_bits(one, other):
    """Whether two numbers are the same; one NaN is as good as another."""
    one, other = np.asarray(one), np.asarray(other)
    nan = one.dtype.kind == "f" and np.isnan(one) and np.isnan(other)
    return one.dtype == other.dtype and (nan or one.tobytes() == other.tobytes())


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32), st.lists(instruction, min_size=1, max_size=20))
def test_the_meaning_stays(seed, instructions):
    nodes, values = leaves(seed)
    simplify = Simplifier()
    for op, of_indices, *picks in instructions:
        node = applied(op, nodes, of_indices, picks)
        if node is not None:
            nodes.append(node)
            simple = simplify(node)
            assert same_bits(evaluate(simple, values), evaluate(node, values)), (node, simple)


X = Scalar("local", (), INDEX, ("x", "int64"))


def test_a_number_may_be_the_largest():
    simplify = Simplifier()
    for comparison in (X < X + 1, X <= X + 1, X - 1 < X, minimum(X, X + 1), maximum(X, X + 1)):
        simple, values = simplify(comparison), {X: np.asarray([2**63 - 1, -(2**63), 0])}
        np.testing.assert_array_equal(evaluate(simple, values), evaluate(comparison, values))


def test_a_loop_index_is_less_than_what_follows_it():
    i = index("i", 1000)
    simplify = Simplifier()
    assert simplify(i < i + 1) is const(True, BOOL)
    assert simplify(i * 4 + 3 < 4000) is const(True, BOOL)
    assert simplify(idiv(i * 8 + 5, 8)) is i
    assert simplify(irem(i * 8 + 5, 8)) is const(5, INDEX)
    assert simplify(maximum(i, 0)) is i and simplify(minimum(i, 999)) is i


def test_clamping_bounds_a_number_of_which_nothing_is_known():
    number, i = Scalar("local", (), INDEX, ("start", 0)), index("i", 3)
    begin = maximum(minimum(number, const(7, INDEX)), const(0, INDEX))
    simplify = Simplifier()
    assert simplify(bounded(begin + i, 10)) is simplify(begin + i)
    for extent, low in ((9, 0), (10, -1)):
        begin = maximum(minimum(number, const(7, INDEX)), const(low, INDEX))
        assert simplify(bounded(begin + i, extent)).op == "checked"


def test_remainders_that_make_no_difference():
    i, k = index("i", 1000), index("k", 3)
    simplify = Simplifier()
    assert simplify(irem(i + 5 - irem(i + 1, 3), 3)) is const(1, INDEX)
    assert simplify(irem(i + 7 - irem(i + 1, 6), 3)) is const(0, INDEX)
    # what is a lane of vectors stays, and so does another remainder
    assert simplify(irem(i + 3 - k, 3)).args[0].op == "add"
    assert simplify(irem(i + 3 - irem(i, 2), 3)).args[0].args[0].args[1] is irem(i, 2)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9), st.integers(1, 9)), max_size=3),
    st.integers(-20, 20), st.integers(-3, 3), st.integers(1, 9),
)  # fmt: skip
def test_remainders_of_remainders(parts, constant, factor, divisor):
    """Sums of remainders leave the remainder that they left before."""
    i = index("i", 50)
    total = i * factor + constant
    for times, more, by in parts:
        total = total + irem(i + more, by) * times
    expression = irem(total, divisor)
    values = {i: np.arange(50)}
    np.testing.assert_array_equal(
        evaluate(Simplifier()(expression), values), evaluate(expression, values)
    )


def test_sums_that_leave_int64_are_not_divided():
    i = index("i", 2**62)
    simplify = Simplifier()
    for expression in (idiv(i * 8, 8), irem(i * 8 + 9, 8), i * 8 < 8 * i + 9):
        values = {i: np.asarray([0, 1, 2**60, 2**61 - 1, 2**62 - 1])}
        np.testing.assert_array_equal(
            evaluate(simplify(expression), values), evaluate(expression, values)
        )


@pytest.mark.parametrize("factor", [2**62, 2**63 - 1, -(2**63), 6364136223846793005])
def test_products_of_constants_wrap(factor):
    expression = ((X * factor + 1) * factor - 3) * 4
    values = {X: np.asarray([0, 1, -1, 12345, 2**63 - 1, -(2**63)])}
    np.testing.assert_array_equal(
        evaluate(Simplifier()(expression), values), evaluate(expression, values)
    )


def test_a_negative_zero_outside_of_an_array_stays_one():
    outside = guard(const(False, BOOL), Scalar("local", (), DTYPES[5], ("x",)), -0.0)
    assert Simplifier()(outside) is const(-0.0, np.float64)


def test_powers_of_two_that_scale_an_integer_are_one():
    word = Scalar("local", (), np.dtype(np.uint32), ("w",))
    x = fma(convert(lshr(word, 9), np.float32) * 2.0**-23, 2.0, -1.0)
    assert repr(Simplifier()(x)).startswith("fma(convert(")
    assert evaluate(Simplifier()(x), {word: np.uint32(2**32 - 1)}) == np.float32(1 - 2.0**-22)
    # what is no integer may be rounded
    y = fma(Scalar("local", (), np.dtype(np.float32), ("x",)) * 2.0**-23, 2.0, -1.0)
    assert Simplifier()(y) is y
