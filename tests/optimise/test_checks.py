"""The guarantees of passes are checked: a graph written by hand violates each of them."""

import pytest

from functrans.errors import GraphTypeError
from functrans.loop.target import CPU
from functrans.lower.grid.target import CUDA
from functrans.optimise import checks
from functrans.optimise.grid.passes import PASSES
from functrans.optimise.passes import FOR_CORES, SIMPLIFICATION
from tests.ir.written import graph
from tests.targets import target

SCAN = "body=body, length=3, reverse=False, n_consts=2, n_carry=1"
BODY = "{ a:f64[], b:f64[], c:f64[] ->\n d = add a b\n e = multiply c d\n return e }"
TRANSPOSED = "dot_general[contract=((0, 2), (0, 1)), batch=((), ())]"

BROKEN = {
    checks.has_no_calls: "{ x:f64[3] ->\n y = jit[graph=inner, name='g'] x\n return y }",
    checks.has_no_constants: "{ ->\n a = add 1.5:f64 2.0:f64\n return a }",
    checks.has_no_duplicates: "{ x:f64[3] ->\n a = sin x\n b = sin x\n return a, b }",
    checks.has_no_dead_code: "{ x:f64[3] ->\n a = sin x\n b = cos x\n return b }",
    checks.loops_are_lean: f"{{ x:f64[], y:f64[] ->\n z = scan[{SCAN}] x x y\n return z }}",
    checks.is_real: "{ x:c128[3] ->\n a = exp x\n return a }",
    checks.contractions_fit: (
        f"{{ x:f64[20,30,40], y:f64[20,40,50] ->\n z = {TRANSPOSED} x y\n return z }}"
    ),
}


def written(text):
    inner = graph("{ x:f64[3] ->\n y = sin x\n return y }")
    return graph(text, inner=inner, body=graph(BODY))


@pytest.mark.parametrize("check", BROKEN, ids=[check.__name__ for check in BROKEN])
def test_a_broken_promise_is_found(check):
    made = written(BROKEN[check])
    for_any = check in [each.check for each in SIMPLIFICATION]
    with pytest.raises(GraphTypeError):
        check(made, *(() if for_any else (CPU,)))


def test_each_check_has_a_graph_that_breaks_it():
    passes = (*SIMPLIFICATION, *FOR_CORES.legalisation, *FOR_CORES.machine)
    assert {each.check for each in passes} - {checks.nothing_more} == {*BROKEN}


def test_sums_that_are_not_ordered_are_found():
    made = graph("""{ x:f64[3], u:f64[5], i:i64[5] ->
        y = scatter_add[axes=(0,), unique=False] x u i
        return y }""")
    (ordered,) = [each for each in PASSES.machine if each.name == "order_sums"]
    ordered.check(made, CUDA)
    with pytest.raises(GraphTypeError, match="adds up floats"):
        ordered.check(made, target(CUDA, deterministic=True))
