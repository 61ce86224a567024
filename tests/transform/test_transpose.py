"""Transposes of linear graphs written by hand: `<ct, A x> = <A^T ct, x>`."""

import numpy as np
import pytest

import functrans
from functrans import grad, jit
from functrans.errors import NotDifferentiableError
from functrans.ir.evaluate import evaluate
from functrans.transform.transpose import check_linear, transpose_graph
from tests.ir.written import graph, is_graph

RNG = np.random.default_rng(0)

# the last input is the linear one
LINEAR = {
    "a factor": "{ w:f64[3], x:f64[3] ->\n y = multiply x w\n return y }",
    "a value used twice": "{ w:f64[3], x:f64[3] ->\n a = multiply x w\n b = negative x\n"
    " c = add a b\n d = subtract c x\n return d, a }",
    "a sum and its spread": "{ w:f64[3], x:f64[3] ->\n a = reduce_sum[axes=(0,)] x\n"
    " b = broadcast_to[shape=(2, 3)] a\n return b }",
    "moves": "{ w:f64[3], x:f64[2,3] ->\n a = transpose[permutation=(1, 0)] x\n"
    " b = reshape[shape=(6,)] a\n return b }",
    "a factor that is computed": "{ w:f64[3], x:f64[3] ->\n a = exp w\n b = multiply a x\n"
    " return b }",
    "a mask": "{ w:f64[3], x:f64[3] ->\n m = less w 0.0\n a = select m x 0.0\n b = multiply a w\n"
    " return b }",
}


@pytest.mark.parametrize("name", LINEAR)
def test_inner_products_are_equal(name):
    made = graph(LINEAR[name])
    w, x = (RNG.standard_normal(aval.shape) for aval in made.in_avals)
    outs = evaluate(made, [w, x])
    cotangents = [RNG.standard_normal(out.shape) for out in outs]
    transposed, nonzero = transpose_graph(made, (False, True))
    assert nonzero == (True,)
    (back,) = evaluate(transposed, [w, *cotangents])
    wanted = sum(np.vdot(ct, out) for ct, out in zip(cotangents, outs, strict=True))
    np.testing.assert_allclose(np.vdot(back, x), wanted, rtol=1e-13)


def test_cotangents_that_meet_are_added():
    made = graph("{ x:f64[3] ->\n y = add x x\n return y }")
    is_graph(transpose_graph(made, (True,)).graph, """{ ct:f64[3] ->
        sum = add ct ct
        return sum }""")  # fmt: skip


def test_equations_run_backwards():
    made = graph("""{ w:f64[3], x:f64[3] ->
        a = multiply x w
        b = reduce_sum[axes=(0,)] a
        return b }""")
    names = [eqn.primitive.name for eqn in transpose_graph(made, (False, True)).graph.eqns]
    assert names == ["reshape", "broadcast_to", "multiply"]


def test_absent_cotangents():
    made = graph("{ x:f64[3], y:f64[3] ->\n a = negative x\n b = negative y\n return a, b }")
    transposed, nonzero = transpose_graph(made, (True, True), (True, False))
    assert nonzero == (True, False)
    is_graph(transposed, "{ ct:f64[3] ->\n a = negative ct\n return a }")
    full, nonzero = transpose_graph(made, (True, True), (True, False), True)
    assert nonzero == (True, True)
    np.testing.assert_array_equal(evaluate(full, [np.ones(3)])[1], np.zeros(3))


def test_what_does_not_depend_on_linear_inputs_comes_first():
    made = graph("{ w:f64[3], x:f64[3] ->\n a = exp w\n b = multiply a x\n return b, a }")
    transposed, _ = transpose_graph(made, (False, True), (True, False))
    w, ct = RNG.standard_normal((2, 3))
    constant, back = evaluate(transposed, [w, ct])
    np.testing.assert_array_equal(constant, np.exp(w))
    np.testing.assert_array_equal(back, np.exp(w) * ct)


def test_nan_in_a_branch_that_is_not_taken_stays_there():
    made = graph("""{ w:f64[3], x:f64[3] ->
        m = less 0.0 w
        r = divide x w
        y = select m r 0.0
        return y }""")
    transposed, _ = transpose_graph(made, (False, True))
    with np.errstate(divide="ignore", invalid="ignore"):
        (back,) = evaluate(transposed, [np.array([2.0, 0.0, -1.0]), np.ones(3)])
    np.testing.assert_array_equal(back, [0.5, 0.0, 0.0])


def test_a_mask_goes_through_sums():
    """A column of which nothing is chosen has no cotangent, whatever it is divided by."""
    made = graph("""{ w:f64[3], m:bool[2,3], x:f64[3] ->
        a = divide x w
        b = broadcast_to[shape=(2, 3)] a
        y = select m b 0.0
        return y }""")
    transposed, _ = transpose_graph(made, (False, False, True))
    mask = np.array([[True, False, True], [True, False, False]])
    with np.errstate(divide="ignore", invalid="ignore"):
        (back,) = evaluate(transposed, [np.array([2.0, 0.0, -1.0]), mask, np.ones((2, 3))])
    np.testing.assert_array_equal(back, [1.0, 0.0, -1.0])


def test_sums_of_masked_elements_need_no_mask():
    """They are 0 where no element was chosen: masks are not summed for the result alone."""

    def pairs(x, i, j):
        gaps = np.sum((x[i] - x[j]) ** 2, axis=1)
        return np.sum(np.where(gaps < 2.0, np.sqrt(gaps), 0.0))

    x = RNG.standard_normal((5, 3))
    i, j = np.triu_indices(5, 1)
    text = str(jit(grad(pairs)).lower(x, i, j).graph())
    assert text.count("scatter_add[") == 2
    step = 1e-6 * RNG.standard_normal(x.shape)
    found = np.vdot(jit(grad(pairs))(x, i, j), step)
    np.testing.assert_allclose(found, (pairs(x + step, i, j) - pairs(x - step, i, j)) / 2)


def test_what_has_no_transpose_is_refused():
    made = graph("{ x:f64[3] ->\n y = sin x\n return y }")
    with pytest.raises(NotDifferentiableError, match="sin has no transpose"):
        transpose_graph(made, (True,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{ x:f64[3] ->\n y = sin x\n return y }", "sin is applied"),
        ("{ x:f64[3] ->\n y = multiply x x\n return y }", "multiply is applied"),
        ("{ x:f64[3] ->\n y = add x 1.0\n return y }", "add is applied"),
        ("{ x:f64[3] ->\n return 1.0 }", "does not depend"),
    ],
)
def test_what_is_not_linear(text, words):
    with pytest.raises(NotDifferentiableError, match=words):
        check_linear(graph(text), (True,), "f")


def test_what_is_linear():
    check_linear(graph(LINEAR["a value used twice"]), (False, True), "f")
    check_linear(graph("{ x:f64[3] ->\n y = add x 0.0\n return y }"), (True,), "f")


def test_what_no_result_depends_on_may_be_anything():
    check_linear(graph("{ x:f64[3] ->\n y = sin x\n z = negative x\n return z }"), (True,), "f")


def test_a_product_with_zeros_is_zeros():
    text = "{ a:f64[], x:f64[] ->\n y = multiply a 0.0\n z = add x y\n return z }"
    check_linear(graph(text), (False, True), "f")


def joined_with_zeros(x):
    y = np.zeros(4)
    for i in range(3):
        y[i] = x[i] * 2.0
    return np.concatenate([np.zeros(1), y]), np.zeros(2)


@pytest.mark.parametrize(
    "linear",
    [
        joined_with_zeros,
        functrans.linearize(lambda x: joined_with_zeros(np.sin(x)), np.zeros(3))[1],
        functrans.jit(functrans.linearize(joined_with_zeros, np.ones(3))[1]),
    ],
    ids=["constants", "pushforward", "compiled pushforward"],
)
@pytest.mark.parametrize("around", [lambda f: f, functrans.jit], ids=["plain", "jit"])
def test_what_is_joined_with_zeros_is_linear(linear, around):
    ct = np.arange(5.0), np.ones(2)
    back = around(lambda ct: functrans.linear_transpose(linear, np.ones(3))(ct)[0])
    np.testing.assert_array_equal(back(ct), [2.0, 4.0, 6.0])


def test_what_is_joined_with_other_numbers_is_not():
    with pytest.raises(NotDifferentiableError, match="concatenate is applied"):
        functrans.linear_transpose(lambda x: np.concatenate([np.ones(1), x]), np.ones(3))


def test_zeros_are_no_residuals_of_a_pushforward():
    _, pushforward = functrans.linearize(lambda x: np.concatenate([np.zeros(9), x]), np.ones(3))
    assert not functrans.tree.leaves(pushforward)


def test_additions_to_an_array_of_zeros_are_linear():
    def scattered(x):
        return functrans.numpy.zeros(3).at[np.array([0, 2, 2])].add(x)

    back = functrans.linear_transpose(scattered, np.ones(3))
    np.testing.assert_array_equal(back(np.array([1.0, 2.0, 3.0]))[0], [1.0, 3.0, 3.0])


def test_a_mask_is_not_repeated():
    """It is kept for the backward pass with the axes that it has."""
    mask = np.tril(np.ones((60, 60), bool))

    def total(x):
        return np.sum(np.exp(np.where(mask, x * 2, 0.0)))

    text = str(functrans.jit(functrans.grad(total)).lower(np.ones((3, 60, 60))).graph())
    assert "bool[60,60]" in text and "bool[3,60,60]" not in text


def test_cotangents_of_both_branches_need_no_mask():
    """One value, whatever the mask."""

    def parts(x, mask):
        y = np.exp(x)
        return np.sum(np.where(mask, y, 0.0) + np.where(mask, 0.0, y))

    x, mask = np.array([1.0, -2.0, 3.0]), np.array([True, False, True])
    np.testing.assert_allclose(grad(parts)(x, mask), np.exp(x))
    assert "select" not in str(jit(grad(parts)).lower(x, mask).graph())
    # two values do
    weighted = grad(lambda x, m: np.sum(2 * np.where(m, x, 0.0) + 3 * np.where(m, 0.0, x)))
    np.testing.assert_array_equal(jit(weighted)(x, mask), [2.0, 3.0, 2.0])
