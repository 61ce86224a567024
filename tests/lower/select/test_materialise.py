"""Materialisation: which values of a graph are stored, on graphs written by hand."""

import pytest

from functrans.lower.select.materialise import materialised
from tests.ir.written import graph
from tests.lower.by_hand import done_by


def kept(*equations, inputs="x:f64[1000]", returns=None):
    """The names of the results that are kept; the last one is the output, unless it is said."""
    names = [each.split(" = ")[0] for each in equations]
    returns = returns or names[-1]
    text = "\n".join([f"{{ {inputs} ->", *equations, f"return {returns} }}"])
    made = graph(text)
    chosen = done_by(materialised, made)
    return {name for name, eqn in zip(names, made.eqns, strict=True) if eqn.outputs[0] in chosen}


SPREAD = "x:f64[1000], y:f64[300,1000]"
MATRIX = "x:f64[300,1000]"


@pytest.mark.parametrize(
    ("equations", "how"),
    [
        (["a = exp x", "b = sin a", "c = multiply b x"], {}),  # one after the other
        (["a = multiply x 2.0", "b = sin a", "c = cos a"], {"returns": "b, c"}),  # cheap
        (["a = exp x", "b = sin x"], {}),  # nobody uses it
        (["a = multiply x 2.0", "b = add y a"], {"inputs": SPREAD}),  # a cheap row of all rows
        (
            ["a = reduce_sum[axes=(0,)] x", "b = add y a"],
            {"inputs": "x:f64[2,1000], y:f64[300,1000]"},
        ),
        (["a = divide x 3.0", "b = embed[index=((0, 1000, 1),), shape=(9000,)] a"], {}),  # once
        (["a = reduce_sum[axes=(1,)] x"], {"inputs": MATRIX, "returns": "x"}),
        (["a = transpose[permutation=(1, 0)] x", "b = exp a"], {"inputs": MATRIX}),
    ],
)
def test_what_is_computed_where_it_is_used(equations, how):
    assert kept(*equations, **how) == set()


@pytest.mark.parametrize(
    ("equations", "how"),
    [
        # dear, and used twice
        (["a = exp x", "b = sin a", "c = cos a"], {"returns": "b, c"}),
        # stored in any case
        (["a = exp x", "b = sin a"], {"returns": "a, b"}),
        # each row reads it again
        (["a = exp x", "b = add y a"], {"inputs": SPREAD}),
        # one operation that takes as long as many
        (["a = divide x 3.0", "b = add y a"], {"inputs": SPREAD}),
        # a sum of a few rows that each of them reads again
        (
            ["a = reduce_sum[axes=(0,)] x", "b = multiply x a"],
            {"inputs": "x:f64[9,1000]"},
        ),
        # a sum that is read by each element of its row
        (
            ["a = reduce_sum[axes=(1,)] x", "b = broadcast_to[shape=(1000, 300)] a", "c = exp b"],
            {"inputs": MATRIX},
        ),
        # read at places from data: who knows how often
        (
            ["a = exp x", "b = gather[axes=(0,)] a i"],
            {"inputs": "x:f64[1000], i:i64[5000]"},
        ),
        # a library reads it from memory
        (
            ["a = multiply x 2.0", "b = cholesky a"],
            {"inputs": "x:f64[24,24]"},
        ),
    ],
)
def test_what_is_kept(equations, how):
    assert "a" in kept(*equations, **how)


@pytest.mark.parametrize(
    "larger",
    [
        "b = embed[index=((1, 1000, 1),), shape=(1002,)] a",
        "b = broadcast_to[shape=(2, 1000)] a",
    ],
)
def test_of_what_is_padded_or_repeated_the_operand_is_kept(larger):
    """So that values of one shape are computed together."""
    assert kept("a = exp x", larger, "c = sin b", "d = cos b", returns="c, d") == {"a"}
    assert kept("a = exp x", larger, "c = sin b", returns="b, c") == {"b"}


def test_long_expressions_are_cut():
    chain = [f"a{n + 1} = exp {'x' if n == 0 else f'a{n}'}" for n in range(60)]
    found = kept(*chain)
    assert 0 < len(found) < 20
    assert kept(*chain[:5]) == set()


def test_long_expressions_of_indices_are_cut():
    """Operations on 64-bit integers cost nothing, but each takes time to compile."""
    chain, last, extent = [], "x", 1 << 14
    for n in range(14):
        extent //= 2
        chain += [
            f"a{n} = slice[index=((0, {extent}, 1),)] {last}",
            f"b{n} = slice[index=(({extent}, {extent}, 1),)] {last}",
            f"c{n} = bitwise_xor a{n} b{n}",
        ]
        last = f"c{n}"
    assert 0 < len(kept(*chain, inputs="x:i64[16384]")) < 4
    assert kept(*chain[:9], inputs="x:i64[16384]") == set()


def test_deep_movements_are_cut():
    """Each slice is an index inside of an index."""
    chain = [
        f"a{n + 1} = slice[index=((1, {999 - n}, 1),)] {'x' if n == 0 else f'a{n}'}"
        for n in range(100)
    ]
    found = kept(*chain)
    assert 0 < len(found) < 5
    assert kept(*chain[:30]) == set()


def test_zeros_are_worth_more_than_the_work_they_save():
    equations = (
        "a = full[shape=(1000,), value=0.0, dtype=float64]",
        "b = exp a",
        "c = add y b",
        "d = subtract y b",
    )
    assert kept(*equations, inputs="y:f64[1000]", returns="c, d") == set()


def test_a_product_of_our_own_packs_what_it_alone_reads():
    product = "b = dot_general[contract=((1,), (0,)), batch=((), ())] a y"
    inputs = "x:f64[64,64], y:f64[64,64]"
    assert "a" not in kept("a = exp x", product, inputs=inputs)
    assert "a" in kept("a = exp x", product, "c = add a b", inputs=inputs)


def test_a_factor_of_several_products_is_kept():
    inputs = "x:f32[64,64], y:f32[64,64]"
    first, second = (
        f"{name} = dot_general[contract=(({axis},), (0,)), batch=((), ())] a y"
        for name, axis in (("b", 1), ("c", 0))
    )
    assert "a" in kept("a = multiply x x", first, second, inputs=inputs, returns="b, c")
    assert "a" not in kept("a = multiply x x", first, "c = exp a", inputs=inputs, returns="b, c")


def test_factors_of_several_plain_sums_are_not_kept():
    """Each sum reads an element once, so a copy of a cheap factor saves nothing."""
    inputs = "x:f64[3000], y:f64[3000], z:f64[3000]"
    sums = [
        f"{name} = dot_general[contract=((0,), (0,)), batch=((), ())] a {other}"
        for name, other in (("b", "y"), ("c", "z"))
    ]
    assert "a" not in kept("a = negative x", *sums, inputs=inputs, returns="b, c")
    assert "a" in kept("a = exp x", *sums, inputs=inputs, returns="b, c")


def test_factors_that_are_not_kept_for_several_products():
    """A triangle, whose zeros products leave out, and what is larger than it is computed from."""
    inputs = "x:f32[64,64], y:f32[64,64], u:f32[64,1], v:f32[1,64]"
    both = [
        f"{name} = dot_general[contract=(({axis},), (0,)), batch=((), ())] a y"
        for name, axis in (("b", 1), ("c", 0))
    ]
    mask = (
        "r = iota[size=64, dtype=int64]",
        "s = reshape[shape=(64, 1)] r",
        "t = reshape[shape=(1, 64)] r",
        "m = greater_equal s t",
    )
    triangle = (*mask, "p = multiply x x", "a = select m p 0.0:f32")
    assert "a" not in kept(*triangle, *both, inputs=inputs, returns="b, c")
    assert "a" not in kept("a = multiply u v", *both, inputs=inputs, returns="b, c")


def test_what_is_read_in_parts_for_the_places_of_a_join():
    """Each element is computed once, where it is written, if no more is read than there is."""
    equations = [
        "a = exp x",
        "b = sin a",
        "c = slice[index=((0, 500, 2),)] b",
        "d = slice[index=((1, 500, 2),)] b",
        "e = assemble[indices=(((0, 500, 2),), ((1, 500, 2),)), shape=(1000,), adds=False] d c",
    ]
    assert kept(*equations) == {"e"}
    # read by something else as well, or more of it
    also = ["f = cos b"]
    assert "b" in kept(*equations, *also, returns="e, f")
    more = [each.replace("500, 2", "750, 1").replace("(1, 7", "(250, 7") for each in equations[:4]]
    joined = "indices=(((0, 750, 1),), ((750, 750, 1),)), shape=(1500,), adds=False"
    assert "b" in kept(*more, f"e = assemble[{joined}] d c")
