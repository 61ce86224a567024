"""The passes of the optimiser on graphs written by hand: the resulting equations."""

from importlib import import_module

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.ir.primitive import Primitive
from functrans.optimise.conditions import having
from functrans.optimise.machine.sums.distribution import LAWS
from functrans.optimise.passes import FOR_CORES, SIMPLIFICATION, optimise, optimise_inner
from functrans.optimise.simplification import fold_constants, inline, merge_equal
from tests.ir.written import graph, is_graph

X = np.array([0.5, -1.0, 2.0])
SCAN = "body=body, length=3, reverse=False, n_consts=0, n_carry=1"


# -- common subexpressions -------------------------------------------------------------------------


def test_what_is_computed_twice_is_computed_once():
    made = graph("""{ x:f64[3] ->
        a = sin x
        b = sin x
        c = multiply a b
        d = multiply b a
        e = add c d
        return e }""")
    is_graph(merge_equal(made), """{ x:f64[3] ->
        a = sin x
        c = multiply a a
        e = add c c
        return e }""")  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        "a = sin x\n b = cos x",
        "a = multiply x 0.0\n b = multiply x -0.0",
        "a = multiply x 1.0\n b = multiply x 1.0:f64",
        "a = reshape[shape=(3, 1)] x\n b = reshape[shape=(1, 3)] x",
        "a = barrier x\n b = sin x",
    ],
)
def test_what_differs_stays(body):
    made = graph(f"{{ x:f64[3] ->\n {body}\n return a, b }}")
    assert merge_equal(made) is made


def test_nothing_is_computed_before_a_barrier_and_behind_it():
    """What a checkpoint computes again is not what was computed before."""
    made = graph("{ x:f64[3] ->\n a = barrier x\n b = sin a\n c = sin x\n return b, c }")
    assert merge_equal(made) is made


# -- constants -------------------------------------------------------------------------------------


def test_numbers_are_computed_now():
    made = graph("""{ x:f64[3] ->
        a = add 1.5:f64 2.0:f64
        b = full[shape=(), value=0.5, dtype=float64]
        c = multiply a b
        y = multiply x c
        return y, c }""")
    is_graph(fold_constants(made), """{ x:f64[3] ->
        y = multiply x 1.75:f64
        return y, 1.75:f64 }""")  # fmt: skip


def test_arrays_of_one_number_are_numbers():
    made = graph("""{ x:f64[3] ->
        a = full[shape=(3,), value=2.0, dtype=float64]
        y = multiply x a
        return y }""")
    folded = fold_constants(made)
    assert folded.eqns[-1].inputs[1].value == 2.0
    np.testing.assert_array_equal(evaluate(folded, [X])[0], X * 2)


@pytest.mark.parametrize(
    "body",
    [
        # the result has its shape from the array
        "a = full[shape=(2, 3), value=2.0, dtype=float64]\n y = multiply x a",
        # no elementwise operation
        "a = full[shape=(3,), value=2.0, dtype=float64]\n y = reduce_sum[axes=(0,)] a",
        "y = iota[size=3, dtype=float64]",
    ],
)
def test_what_is_no_number(body):
    made = graph(f"{{ x:f64[3] ->\n {body}\n return y }}")
    assert fold_constants(made) == made


def test_errors_of_constants_are_no_warnings():
    made = graph("{ ->\n a = divide 1.0:f64 0.0:f64\n return a }")
    is_graph(fold_constants(made), "{ ->\n return inf:f64 }")


# -- calls -----------------------------------------------------------------------------------------


def test_calls_become_their_equations():
    innermost = graph("{ x:f64[3] ->\n y = sin x\n return y, x }")
    inner = graph(
        "{ x:f64[3] ->\n y, z = jit[graph=innermost, name='g'] x\n w = multiply y z\n return w }",
        innermost=innermost,
    )
    made = graph(
        "{ x:f64[3] ->\n y = jit[graph=inner, name='f'] x\n z = negative y\n return z }",
        inner=inner,
    )
    is_graph(inline(made), """{ x:f64[3] ->
        y = sin x
        w = multiply y x
        z = negative w
        return z }""")  # fmt: skip


def test_what_is_no_call_stays():
    body = graph("{ c:f64[], x:f64[] ->\n d = add c x\n return d, d }")
    made = graph(f"{{ a:f64[], xs:f64[3] ->\n b, s = scan[{SCAN}] a xs\n return b, s }}", body=body)
    assert inline(made) is made


# -- all of them -----------------------------------------------------------------------------------


def test_bodies_of_loops_are_optimised():
    body = graph("{ c:f64[], x:f64[] ->\n a = multiply x 1.0\n d = add c a\n return d, d }")
    slim = graph("{ c:f64[], x:f64[] ->\n d = add c x\n return d, d }")
    text = f"{{ a:f64[], xs:f64[3] ->\n b, s = scan[{SCAN}] a xs\n return b, s }}"
    is_graph(optimise_inner(graph(text, body=body)), text, body=slim)


def test_one_pass_uses_what_another_uncovers():
    made = graph("""{ x:f64[3], z:f64[3] ->
        dead = cos z
        one = full[shape=(), value=1.0, dtype=float64]
        a = multiply x one
        b = negative a
        c = negative b
        d = sin c
        e = sin x
        y = subtract d e
        return y }""")
    is_graph(optimise(made), """{ x:f64[3], z:f64[3] ->
        d = sin x
        y = subtract d d
        return y }""")  # fmt: skip


@pytest.mark.parametrize("each", SIMPLIFICATION, ids=[each.name for each in SIMPLIFICATION])
def test_what_is_slim_stays(each):
    slim = graph("{ x:f64[3] ->\n a = sin x\n b = multiply a x\n return b }")
    assert each.run(slim) == slim


def test_conditions_name_primitives():
    conditions = [*(each.when for each in FOR_CORES.machine), *(law.when for law in LAWS)]
    places = [place for when in conditions if isinstance(when, having) for place in when.places]
    assert places
    for module, name in places:
        assert isinstance(getattr(import_module(module), name), Primitive), name
