"""Algebraic simplification on graphs written by hand: the effect of each rule, and its limits."""

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.ir.graph import prune
from functrans.optimise.simplification import fold_constants, simplify
from tests.ir.written import graph, is_graph

# What stands on the left comes to what stands on the right.
RULES = {
    "times one": ("y = multiply x 1.0", "x"),
    "one times": ("y = multiply 1.0 x", "x"),
    "minus zero": ("y = subtract x 0.0", "x"),
    "over one": ("y = divide x 1.0", "x"),
    "twice negated": ("a = negative x\n y = negative a", "x"),
    "not not": ("y = logical_not m\n z = logical_not y", "m"),
    "as it is": ("y = positive x", "x"),
    "a cast to its own type": ("y = cast[dtype=float64] x", "x"),
    "a choice of one": ("y = select m x x", "x"),
    "a known mask": ("a = full[shape=(2, 3), value=True, dtype=bool]\n y = select a x u", "x"),
    "the other one": ("a = full[shape=(2, 3), value=False, dtype=bool]\n y = select a x u", "u"),
    "a maximum of nothing": ("y = reduce_max[axes=()] x", "x"),
    "a reshape back": ("a = reshape[shape=(6,)] x\n y = reshape[shape=(2, 3)] a", "x"),
    "a transpose back": (
        "a = transpose[permutation=(1, 0)] x\n y = transpose[permutation=(1, 0)] a", "x"
    ),
    "a transpose of nothing": ("y = transpose[permutation=(0, 1)] x", "x"),
    "a broadcast to its own shape": ("y = broadcast_to[shape=(2, 3)] x", "x"),
    "integers plus zero": ("y = add n 0", "n"),
    "zero plus integers": ("y = add 0 n", "n"),
}  # fmt: skip

INPUTS = "x:f64[2,3], u:f64[2,3], m:bool[2,3], n:i64[2]"


def program(body):
    """A graph whose result is the last equation's."""
    result = body.splitlines()[-1].split(" = ")[0].strip()
    return graph(f"{{ {INPUTS} ->\n{body}\n return {result} }}")


def values():
    x = np.array([[0.0, -0.0, np.nan], [np.inf, -np.inf, 1.5]])
    return [x, -x + 1, x > 0, np.array([3, -4])]


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_gives(name):
    body, result = RULES[name]
    made = program(body)
    is_graph(prune(simplify(made)), f"{{ {INPUTS} ->\n return {result} }}")
    same_bits(made, simplify(made))


def same_bits(one, other):
    with np.errstate(all="ignore"):
        found, wanted = evaluate(one, values()), evaluate(other, values())
    assert [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in wanted]


@pytest.mark.parametrize(
    "body",
    [
        "y = add x 0.0",  # -0.0 + 0.0 is 0.0
        "y = multiply x 0.0",  # NaN and infinities
        "y = subtract x -0.0",
        "y = subtract 0.0 x",
        "y = divide 1.0 x",
        "y = multiply x -1.0",
        "a = sin x\n y = negative a",
        "y = select m x u",
        "y = reduce_sum[axes=(0,)] x",
        "y = reshape[shape=(6,)] x",
        "y = transpose[permutation=(1, 0)] x",
        "y = cast[dtype=float32] x",
    ],
)
def test_what_stays(body):
    made = program(body)
    assert simplify(made) == made


@pytest.mark.parametrize(
    ("body", "better"),
    [
        (
            "a = reshape[shape=(6,)] x\n y = reshape[shape=(3, 2)] a",
            "y = reshape[shape=(3, 2)] x",
        ),
        (
            "a = broadcast_to[shape=(4, 2, 3)] x\n y = broadcast_to[shape=(5, 4, 2, 3)] a",
            "y = broadcast_to[shape=(5, 4, 2, 3)] x",
        ),
        (
            "a = full[shape=(2, 3), value=2.0, dtype=float64]\n y = reshape[shape=(6,)] a",
            "y = full[shape=(6,), value=2.0, dtype=float64]",
        ),
        (
            "a = broadcast_to[shape=(4, 3)] 2.0\n y = reshape[shape=(6, 2)] a",
            "y = broadcast_to[shape=(6, 2)] 2.0",
        ),
        # adding to 0.0 tells in the sign of a zero
        ("y = reduce_sum[axes=()] x", "y = add x 0.0:f64"),
    ],
)
def test_what_becomes_one(body, better):
    made = program(body)
    assert prune(simplify(made)) == program(better)
    same_bits(made, simplify(made))


@pytest.mark.parametrize(
    "ones",
    [
        "a = broadcast_to[shape=(2, 3)] 1.0",
        "b = reshape[shape=(1, 1)] 1.0\n a = broadcast_to[shape=(2, 3)] b",
        "a = full[shape=(2, 3), value=1.0, dtype=float64]",
        "b = full[shape=(2, 3), value=-1.0, dtype=float64]\n a = negative b",
        "b = broadcast_to[shape=(2, 3)] 2.0\n c = full[shape=(3,), value=-1.0, dtype=float64]\n"
        " a = add b c",
    ],
)
@pytest.mark.parametrize("product", ["multiply a x", "multiply x a"])
def test_arrays_of_one_number_count_as_it(ones, product):
    made = program(f"{ones}\n y = {product}")
    better = prune(simplify(fold_constants(made)))
    is_graph(better, f"{{ {INPUTS} ->\n return x }}")
    same_bits(made, better)


def test_two_transposes_are_one():
    made = graph("""{ x:f64[2,3,4] ->
        a = transpose[permutation=(1, 2, 0)] x
        y = transpose[permutation=(1, 2, 0)] a
        return y }""")
    is_graph(
        prune(simplify(made)),
        "{ x:f64[2,3,4] ->\n y = transpose[permutation=(2, 0, 1)] x\n return y }",
    )


def test_nothing_is_infinite_and_a_number():
    made = graph("""{ x:f64[3] ->
        a = equal x 0.0
        b = isinf x
        y = logical_and a b
        return y }""")
    is_graph(
        prune(simplify(made)),
        "{ x:f64[3] ->\n y = full[shape=(3,), value=False, dtype=bool]\n return y }",
    )
    infinite = graph("""{ x:f64[3] ->
        a = equal x inf
        b = isinf x
        y = logical_and a b
        return y }""")
    assert simplify(infinite) == infinite


def test_a_result_of_another_type_is_not_used():
    made = graph("{ x:f64[], y:f64[3] ->\n z = multiply y 1.0\n w = multiply x z\n return w }")
    is_graph(prune(simplify(made)), "{ x:f64[], y:f64[3] ->\n w = multiply x y\n return w }")
    wider = graph("{ x:f64[] ->\n a = full[shape=(3,), value=1.0, dtype=float64]\n"
                  " y = multiply x a\n return y }")  # fmt: skip
    assert simplify(wider) == wider
