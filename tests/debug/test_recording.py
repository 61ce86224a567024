"""debug.record: named values and their cotangents, beside the result."""

import numpy as np
import pytest

from functrans import checkpoint, debug, grad, jit, jvp, lax, value_and_grad, vmap
from functrans.ir.graph import inner_graphs
from functrans.run.call.jitted import program

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(3, 2)), RNG.normal(size=(5, 3))


def loss(w, x):
    h = debug.name(np.tanh(x @ w), "h")
    return np.sum(h**2)


@pytest.mark.parametrize("transform", [grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))])
def test_values_and_cotangents(transform):
    seen = debug.record(transform(loss))(W, X)
    np.testing.assert_allclose(seen.result, grad(loss)(W, X))
    [h], [cotangent] = seen.values["h"], seen.cotangents["h"]
    np.testing.assert_allclose(h, np.tanh(X @ W))
    np.testing.assert_allclose(cotangent, 2 * np.tanh(X @ W))
    assert seen.tangents == {}


def test_values_of_a_function_by_itself():
    seen = debug.record(loss)(W, X)
    assert seen.cotangents == {}
    np.testing.assert_allclose(seen.values["h"][0], np.tanh(X @ W))
    assert seen.result == pytest.approx(loss(W, X))


def test_steps_of_a_loop():
    def run(x):
        def step(c, a):
            c = debug.name(np.sin(c) * a, "c")
            return c, None

        return lax.scan(step, x, np.arange(1.0, 5.0))[0]

    seen = debug.record(grad(run))(0.5)
    expected, c = [], 0.5
    for a in np.arange(1.0, 5.0):
        c = np.sin(c) * a
        expected.append(c)
    np.testing.assert_allclose(seen.values["c"], expected)
    # of the last step first: the product of the slopes behind it
    slopes = [1.0]
    for a, c in zip([4.0, 3.0, 2.0], expected[-2::-1], strict=True):
        slopes.append(slopes[-1] * np.cos(c) * a)
    np.testing.assert_allclose(seen.cotangents["c"], slopes)


def test_examples_of_a_map_are_in_one_array():
    seen = debug.record(vmap(grad(loss), in_axes=(None, 0)))(W, X[:, None, :])
    assert seen.values["h"][0].shape == (5, 1, 2)
    np.testing.assert_allclose(seen.cotangents["h"][0][:, 0], 2 * np.tanh(X @ W))


def test_tangents():
    seen = debug.record(lambda x: jvp(lambda x: debug.name(x * x, "s"), (x,), (1.0,)))(3.0)
    assert seen.values["s"] == [9.0]
    assert seen.tangents["s"] == [6.0]


def test_pytrees_and_plain_values():
    seen = debug.record(lambda x: debug.name({"a": x, "b": [x + 1.0, 2.0]}, "t")["a"])(1.0)
    assert set(seen.values) >= {"t['a']"}
    assert debug.name((1.0, "word"), "plain") == (1.0, "word")
    x = np.ones(2)
    assert debug.name(x, "x") is x


def test_it_prints():
    assert (
        repr(debug.record(grad(loss))(W, X))
        .splitlines()[0]
        .startswith("h: value float64[5, 2], root mean square ")
    )
    assert repr(debug.record(np.sin)(1.0)) == (
        "nothing has a name: write debug.name(x, 'x') in the function"
    )
    with pytest.raises(TypeError, match=r"takes a value and then its name, a string, not 1\.0"):
        debug.name("h", 1.0)


def test_a_name_costs_nothing_when_compiled():
    with_name = jit(value_and_grad(loss))
    without = jit(value_and_grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2)))
    texts = [program(f.path_of((W, X), {})[0].graph).llvm() for f in (with_name, without)]
    assert texts[0] == texts[1]


def test_a_policy_of_checkpoint_keeps_what_has_a_name():
    def deep(x):
        y = debug.name(np.sin(x), "y")
        return np.sum(np.exp(np.cos(y)))

    x = RNG.normal(size=10)
    for names in (["y"], []):
        seen = debug.record(grad(checkpoint(deep, policy=names)))(x)
        np.testing.assert_allclose(seen.result, grad(deep)(x))
        np.testing.assert_array_equal(seen.values["y"], [np.sin(x)])
        inner = [
            eqn.primitive.name + (eqn.source.derivative if eqn.source else "")
            for outer in jit(grad(checkpoint(deep, policy=names))).path_of((x,), {})[0].graph.eqns
            for graph in inner_graphs(outer)
            for eqn in graph.eqns
        ]
        assert ("namedagain" in inner) == (not names)


def test_a_value_that_nothing_uses_is_recorded():
    def f(x):
        debug.name(x * 2.0, "unused")
        return x

    assert debug.record(f)(1.5).values["unused"] == [3.0]
