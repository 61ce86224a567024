"""Loops written by hand with duplicate and unused values: the optimised equations."""

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.optimise.loops import merge_in_loops, propagate_into_loops, prune_in_loops
from functrans.optimise.twins import merge_twins
from tests.ir.written import graph, is_graph

A, B, XS = np.float64(2.0), np.float64(-0.5), np.array([1.0, 0.5, -2.0])


def scan(n_consts, n_carry, body="body"):
    rest = f"length=3, reverse=False, n_consts={n_consts}, n_carry={n_carry}"
    return f"scan[body={body}, {rest}]"


def same(one, other, *inputs):
    for found, wanted in zip(evaluate(one, inputs), evaluate(other, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


def check(rewrite, made, text, *inputs, **inner):
    """A rewrite gives the graph of the text, with the same values."""
    is_graph(rewrite(made), text, **inner)
    same(made, rewrite(made), *inputs)


def test_an_operand_that_is_there_twice():
    body = graph("{ p:f64[], q:f64[], c:f64[], x:f64[], y:f64[] ->\n a = multiply p q\n"
                 " b = multiply x y\n d = add a b\n e = add c d\n return e }")  # fmt: skip
    slim = graph("{ p:f64[], c:f64[], x:f64[] ->\n a = multiply p p\n b = multiply x x\n"
                 " d = add a b\n e = add c d\n return e }")  # fmt: skip
    made = graph(
        f"{{ a:f64[], b:f64[], xs:f64[3] ->\n r = {scan(2, 1)} a a b xs xs\n return r }}", body=body
    )
    check(
        merge_in_loops,
        made,
        f"{{ a:f64[], b:f64[], xs:f64[3] ->\n r = {scan(1, 1)} a b xs\n return r }}",
        A, B, XS,
        body=slim,
    )  # fmt: skip


def test_a_carry_that_stays_is_an_operand():
    body = graph("{ c:f64[], k:f64[], x:f64[] ->\n a = multiply k x\n d = add c a\n return d, k }")
    slim = graph("{ k:f64[], c:f64[], x:f64[] ->\n a = multiply k x\n d = add c a\n return d }")
    made = graph(
        f"{{ a:f64[], b:f64[], xs:f64[3] ->\n r, k = {scan(0, 2)} a b xs\n return r, k }}",
        body=body,
    )
    check(
        merge_in_loops,
        made,
        f"{{ a:f64[], b:f64[], xs:f64[3] ->\n r = {scan(1, 1)} b a xs\n return r, b }}",
        A, B, XS,
        body=slim,
    )  # fmt: skip


def test_a_value_that_is_stacked_twice():
    body = graph("{ c:f64[], x:f64[] ->\n d = add c x\n return d, d, x, d }")
    slim = graph("{ c:f64[], x:f64[] ->\n d = add c x\n return d, d, x }")
    made = graph(
        f"{{ a:f64[], xs:f64[3] ->\n r, s, t, u = {scan(0, 1)} a xs\n return r, u, t, s }}",
        body=body,
    )
    check(
        merge_in_loops,
        made,
        f"{{ a:f64[], xs:f64[3] ->\n r, s, t = {scan(0, 1)} a xs\n return r, s, t, s }}",
        A, XS,
        body=slim,
    )  # fmt: skip


def test_an_operand_that_is_a_number():
    body = graph("{ p:f64[], c:f64[], x:f64[] ->\n d = multiply c p\n e = add d x\n return e, p }")
    slim = graph(
        "{ c:f64[], x:f64[] ->\n d = multiply c 2.0:f64\n e = add d x\n return e, 2.0:f64 }"
    )
    made = graph(
        f"{{ a:f64[], xs:f64[3] ->\n r, ys = {scan(1, 1)} 2.0:f64 a xs\n return r, ys }}", body=body
    )
    check(
        propagate_into_loops,
        made,
        f"{{ a:f64[], xs:f64[3] ->\n r, ys = {scan(0, 1)} a xs\n return r, ys }}",
        *(A, XS),
        body=slim,
    )


def test_an_operand_that_is_filled_with_a_number():
    """Elementwise equations fill it themselves; for others it is filled once, before the loop."""
    twos = "full[shape=(2, 2), value=2.0, dtype=float64]"
    body = graph("{ p:f64[2,2], c:f64[2,2] ->\n d = multiply c p\n return d }")
    slim = graph(f"{{ c:f64[2,2] ->\n p = {twos}\n d = multiply c p\n return d }}")
    text = "{{ a:f64[2,2] ->\n o = " + twos + "\n r = {} a\n return r }}"
    made = graph(text.format(f"{scan(1, 1)} o"), body=body)
    check(propagate_into_loops, made, text.format(scan(0, 1)), np.eye(2), body=slim)
    product = "dot_general[contract=((1,), (0,)), batch=((), ())]"
    body = graph(f"{{ p:f64[2,2], c:f64[2,2] ->\n d = {product} c p\n return d }}")
    text = text.format(f"{scan(1, 1)} o")
    check(propagate_into_loops, graph(text, body=body), text, np.eye(2), body=body)


def test_what_nobody_reads():
    """The second carry is only for itself, the operand for a stack that is not used."""
    body = graph("""{ p:f64[], c:f64[], k:f64[], x:f64[], y:f64[] ->
        d = add c x
        l = multiply k y
        e = sin p
        return d, l, e }""")
    slim = graph("{ c:f64[], x:f64[] ->\n d = add c x\n return d }")
    made = graph(
        "{ a:f64[], b:f64[], xs:f64[3], ys:f64[3] ->\n"
        f" r, k, s = {scan(1, 2)} b a b xs ys\n return r }}",
        body=body,
    )
    check(
        prune_in_loops,
        made,
        "{ a:f64[], b:f64[], xs:f64[3], ys:f64[3] ->\n"
        f" r = {scan(0, 1)} a xs\n return r }}",
        A, B, XS, XS,
        body=slim,
    )  # fmt: skip


def test_a_carry_that_another_needs_stays():
    body = graph("{ c:f64[], k:f64[], x:f64[] ->\n d = add c k\n l = multiply k x\n return d, l }")
    made = graph(
        f"{{ a:f64[], b:f64[], xs:f64[3] ->\n r, k = {scan(0, 2)} a b xs\n return r }}", body=body
    )
    assert prune_in_loops(made) == made


def test_a_loop_for_nobody_goes():
    body = graph("{ c:f64[], x:f64[] ->\n d = add c x\n return d }")
    made = graph(f"{{ a:f64[], xs:f64[3] ->\n r = {scan(0, 1)} a xs\n return a }}", body=body)
    is_graph(prune_in_loops(made), "{ a:f64[], xs:f64[3] ->\n return a }")


def test_branches_without_what_nobody_reads():
    yes = graph("{ x:f64[], y:f64[] ->\n a = sin x\n b = sin y\n return a, b }")
    no = graph("{ x:f64[], y:f64[] ->\n return x, y }")
    made = graph(
        "{ m:bool[], x:f64[], y:f64[] ->\n"
        " a, b = cond[branches=(no, yes)] m x y\n return b }",
        yes=yes, no=no,
    )  # fmt: skip
    is_graph(
        prune_in_loops(made),
        "{ m:bool[], x:f64[], y:f64[] ->\n b = cond[branches=(no, yes)] m y\n return b }",
        yes=graph("{ y:f64[] ->\n b = sin y\n return b }"),
        no=graph("{ y:f64[] ->\n return y }"),
    )
    same(made, prune_in_loops(made), np.bool_(True), A, B)


def test_a_while_loop_keeps_what_decides():
    cond = graph("{ p:f64[], q:f64[], n:i64[], c:f64[], k:f64[] ->\n m = less n 3\n return m }")
    body = graph("""{ p:f64[], q:f64[], n:i64[], c:f64[], k:f64[] ->
        l = add n 1
        d = add c p
        e = add k q
        return l, d, e }""")
    params = "max_steps=None, room=None"
    made = graph(
        "{ a:f64[], b:f64[] ->\n"
        " n, c, k, count = while_loop[cond=cond, body=body, n_consts=2, n_carry=3, "
        f"{params}] a b 0:i64 a a\n return c }}",
        cond=cond, body=body,
    )  # fmt: skip
    check(
        prune_in_loops,
        made,
        "{ a:f64[], b:f64[] ->\n"
        " n, c, count = while_loop[cond=cond, body=body, n_consts=1, n_carry=2, "
        f"{params}] a 0:i64 a\n return c }}",
        A, B,
        cond=graph("{ p:f64[], n:i64[], c:f64[] ->\n m = less n 3\n return m }"),
        body=graph("""{ p:f64[], n:i64[], c:f64[] ->
            l = add n 1
            d = add c p
            return l, d }"""),
    )  # fmt: skip


# -- twins -----------------------------------------------------------------------------------------

STEP = "{ c:f64[], x:f64[] ->\n a = sin c\n d = add a x\n return d }"
KEEPS = "{ c:f64[], x:f64[] ->\n a = sin c\n d = add a x\n return d, a }"


def test_a_loop_that_keeps_more_stands_for_both():
    made = graph(
        "{ a:f64[], xs:f64[3] ->\n"
        f" r = {scan(0, 1, 'step')} a xs\n"
        f" t, s = {scan(0, 1, 'keeps')} a xs\n"
        " y = multiply r t\n return y, s }",
        step=graph(STEP), keeps=graph(KEEPS),
    )  # fmt: skip
    check(
        merge_twins,
        made,
        "{ a:f64[], xs:f64[3] ->\n"
        f" t, s = {scan(0, 1, 'keeps')} a xs\n"
        " y = multiply t t\n return y, s }",
        A, XS,
        keeps=graph(KEEPS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "operands"),
    [
        ("{ c:f64[], x:f64[] ->\n a = cos c\n d = add a x\n return d, a }", "a xs"),
        ("{ c:f64[], x:f64[] ->\n a = sin c\n d = add a c\n return d, a }", "a xs"),
        (KEEPS, "b xs"),
        (KEEPS, "a ys"),
    ],
)
def test_loops_that_differ_stay_two(other, operands):
    made = graph(
        "{ a:f64[], b:f64[], xs:f64[3], ys:f64[3] ->\n"
        f" r = {scan(0, 1, 'step')} a xs\n"
        f" t, s = {scan(0, 1, 'keeps')} {operands}\n"
        " y = multiply r t\n return y, s }",
        step=graph(STEP), keeps=graph(other),
    )  # fmt: skip
    assert merge_twins(made) == made


def test_a_loop_that_needs_the_other_stays():
    made = graph(
        "{ a:f64[], xs:f64[3] ->\n"
        f" r = {scan(0, 1, 'step')} a xs\n"
        " ys = multiply xs r\n"
        f" t, s = {scan(0, 1, 'keeps')} a ys\n"
        " return t, s }",
        step=graph(STEP), keeps=graph(KEEPS),
    )  # fmt: skip
    assert merge_twins(made) == made
