"""Forward mode on graphs written by hand: nonzero tangents, and their values."""

import numpy as np
import pytest

import functrans as ft
from functrans.errors import NotDifferentiableError
from functrans.ir.evaluate import evaluate
from functrans.ir.types import Aval
from functrans.ops.calls.external import Elements
from functrans.transform.forward import jvp_graph, tangent_graph, variables
from tests.ir.written import graph, is_graph

STEP = 1e-6
X, Y = np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.4, -0.7])
DX, DY = np.array([1.0, 0.5, -2.0]), np.array([-0.3, 2.0, 1.0])

SMOOTH = {
    "a chain": "{ x:f64[3], y:f64[3] ->\n a = sin x\n b = exp a\n return b }",
    "a product": "{ x:f64[3], y:f64[3] ->\n a = multiply x y\n return a }",
    "a value used twice": "{ x:f64[3], y:f64[3] ->\n a = multiply x y\n b = multiply a x\n"
    " c = add a b\n return c, b }",
    "a sum": "{ x:f64[3], y:f64[3] ->\n a = divide x y\n b = reduce_sum[axes=(0,)] a\n return b }",
    "a branch": "{ x:f64[3], y:f64[3] ->\n m = less x y\n a = sin x\n b = select m a y\n"
    " return b }",
}


@pytest.mark.parametrize("name", SMOOTH)
def test_tangents_are_differences(name):
    made = graph(SMOOTH[name])
    pushed, nonzero = jvp_graph(made, (True, True))
    count = len(made.outputs)
    results = evaluate(pushed, [X, Y, DX, DY])
    after = evaluate(made, [X + STEP * DX, Y + STEP * DY])
    before = evaluate(made, [X - STEP * DX, Y - STEP * DY])
    assert nonzero == (True,) * count
    for value, wanted in zip(results[:count], evaluate(made, [X, Y]), strict=True):
        np.testing.assert_array_equal(value, wanted)
    for tangent, one, other in zip(results[count:], after, before, strict=True):
        np.testing.assert_allclose(tangent, (one - other) / (2 * STEP), rtol=1e-8, atol=1e-8)


def test_a_product_by_its_rule():
    made = graph("{ x:f64[], y:f64[] ->\n z = multiply x y\n return z }")
    is_graph(jvp_graph(made, (True, False)).graph, """{ x:f64[], y:f64[], dx:f64[] ->
        z = multiply x y
        dz = multiply dx y
        return z, dz }""")  # fmt: skip


def test_what_does_not_move_has_no_tangent():
    made = graph("""{ x:f64[3], y:f64[3] ->
        a = sin x
        b = cos y
        c = floor y
        d = less x y
        return a, b, c, d, y, 1.0 }""")
    pushed, nonzero = jvp_graph(made, (False, True))
    assert nonzero == (False, True, False, False, True, False)
    assert len(pushed.outputs) == 6 + 2
    # zeros are made where they are asked for, and nowhere else
    wanted = (True, False, False, False, False, False)
    full, nonzero = jvp_graph(made, (False, True), wanted)
    assert nonzero == (True, True, False, False, True, False)
    np.testing.assert_array_equal(evaluate(full, [X, Y, DY])[6], np.zeros(3))


def test_the_tangents_alone_take_the_values_that_they_need():
    made = graph("""{ x:f64[3], y:f64[3] ->
        a = exp x
        b = multiply a y
        return b }""")
    tangent = tangent_graph(made, (True, False))
    names = [variables(made)[i] for i in tangent.needed]
    assert names == [made.inputs[1], made.eqns[0].outputs[0]]
    is_graph(tangent.graph, """{ y:f64[3], a:f64[3], dx:f64[3] ->
        da = multiply dx a
        db = multiply da y
        return db }""")  # fmt: skip
    assert (tangent.nonzero, tangent.late) == ((True,), (False,))


def test_auxiliary_outputs_have_no_tangents():
    made = graph("{ x:f64[3] ->\n a = sin x\n b = cos x\n return a, b }")
    tangent = tangent_graph(made, (True,), 1)
    assert tangent.nonzero == (True, False)
    assert len(tangent.graph.outputs) == 1


def test_results_of_inner_graphs_come_with_the_tangents():
    inner = graph("{ x:f64[3] ->\n y = sin x\n return y }")
    made = graph("{ x:f64[3] ->\n y = jit[graph=inner, name='f'] x\n return y }", inner=inner)
    tangent = tangent_graph(made, (True,))
    assert (tangent.nonzero, tangent.late) == ((True,), (True,))
    dy, y = evaluate(tangent.graph, [X, DX])
    np.testing.assert_allclose(dy, np.cos(X) * DX, rtol=1e-15)
    np.testing.assert_array_equal(y, np.sin(X))
    (eqn,) = tangent.graph.eqns
    assert eqn.primitive.name == "jit"


def test_what_has_no_derivative_is_refused():
    made = graph(
        "{ x:f64[3] ->\n z = external[elements=ptp, results=(one,), lanes=()] x\n return z }",
        ptp=Elements(np.ptp, several=False, vectorised=False),
        one=Aval((), float),
    )
    with pytest.raises(NotDifferentiableError, match="external is not differentiable"):
        jvp_graph(made, (True,))
    assert jvp_graph(made, (False,)).nonzero == (False,)


# -- a tangent that is 0 by construction, before an infinite slope ---------------------------------

MATRIX = np.arange(9.0).reshape(3, 3) + 1

STEEP = {
    "triu": lambda x: np.cbrt(np.triu(x, 1)),
    "pad": lambda x: np.sqrt(np.pad(x, 1)),
    "diag": lambda x: np.sqrt(np.diag(x[0])),
    "where": lambda x: np.sqrt(np.where(x > 3, x, 0)) + np.where(x > 3, x, 0) ** np.float64(0.3),
    "rows of a where": lambda x: np.sqrt(np.where(x[0] > 2, x, 0)[np.array([0, 2, 2])]),
    "a where of a row, transposed": lambda x: np.sqrt(np.where(x[0] > 2, x, 0).T),
    "concatenate": lambda x: np.log(np.concatenate([np.zeros((1, 3)), x]))[1:],
    "a slice that is set": lambda x: np.sqrt(x.at[0].set(0.0)),
    "rows that are set": lambda x: np.sqrt(x.at[np.array([0, 2])].set(0.0)),
    "a divisor": lambda x: np.where(x > 3, 1 / np.where(x > 3, x, 0), 0),
    "moved": lambda x: np.sqrt(np.stack([x, np.zeros((3, 3))]).T.reshape(-1)[::-1]),
    "taken": lambda x: np.sqrt(np.take(np.pad(x[0], 1), np.array([0, 1, 2, 4]))),
    "after another operation": lambda x: np.sqrt(np.pad(x, 1) * 2.0 + np.pad(x, 1)),
    "minimum": lambda x: np.log(np.minimum(x - 5.5, 0)),
    "maximum": lambda x: np.arcsin(1 - np.maximum(x - 5.5, 0) / 8),
    "fmin": lambda x: np.sqrt(0 - np.fmin(x - 5.5, 0)),
    "fmax": lambda x: 1 / np.fmax(0.0, x - 5.5),
    "clip": lambda x: np.arcsin(np.clip(x / 6.5, 0.5, 1)) + np.cbrt(np.clip(x - 5.5, 0, 2)),
    "clip by a bound": lambda x: np.cbrt(np.clip(np.full((3, 3), 3.0), x - 6.5, 0)),
    "two operands": lambda x: np.hypot(0.0, np.triu(x)) ** np.triu(np.full((3, 3), 0.5)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", STEEP)
def test_zero_times_an_infinite_slope_is_zero_as_in_reverse_mode(name):
    def total(x):
        values = STEEP[name](x)
        return np.sum(np.where(np.isfinite(values), values, 0.0))

    backwards = ft.grad(total)(MATRIX)
    assert np.isfinite(backwards).all()
    np.testing.assert_allclose(ft.jacfwd(total)(MATRIX), backwards)
    tangent = ft.jvp(total, (MATRIX,), (MATRIX,))[1]
    np.testing.assert_allclose(tangent, np.sum(backwards * MATRIX))
    compiled = ft.jit(lambda x: ft.jvp(total, (x,), (x,))[1])(MATRIX)
    np.testing.assert_allclose(compiled, tangent)
    assert np.isfinite(ft.hessian(total)(MATRIX)).all()


def test_an_infinite_slope_stays_infinite_where_the_tangent_may_be_other_than_zero():
    assert ft.jvp(np.sqrt, (0.0,), (1.0,))[1] == np.inf


def test_a_choice_by_a_smaller_condition():
    own, x = np.eye(3, dtype=bool), np.array([1.0, 2.0])

    def products(x):
        return np.prod(np.where(own, 1.0, x[:, None, None] - np.arange(3.0)), axis=-1)

    t = 1e-6
    expected = (products(x + t) - products(x - t)) / (2 * t)
    np.testing.assert_allclose(ft.jvp(products, (x,), (np.ones(2),))[1], expected, atol=1e-8)
