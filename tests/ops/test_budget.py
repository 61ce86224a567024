"""checkpoint(f, budget=...): the residuals fit the budget, and save the most recomputation."""

import numpy as np
import pytest

from functrans import checkpoint, custom_jvp, debug, grad, jit, lax, value_and_grad, vmap
from functrans.ops.calls.budget import Budget

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(20, 20)) / 4 for _ in range(4)]
X = RNG.normal(size=(50, 20))
LAYER = X.nbytes


def network(weights, x):
    for w in weights:
        x = np.tanh(x @ w) * 2.0
    return np.sum(x)


def kept(budget):
    """The bytes of what the checkpoint hands to the backward pass, besides its operands."""
    path, _ = jit(grad(checkpoint(network, budget=budget))).path_of((WEIGHTS, X), {})
    calls = [eqn for eqn in path.graph.eqns if eqn.primitive.name == "checkpoint"]
    inside = {var for eqn in calls for var in eqn.outputs}
    return sum(
        int(np.prod(atom.aval.shape)) * 8
        for eqn in calls
        if any(x in inside for x in eqn.inputs)
        for atom in eqn.inputs
        if atom in inside and atom.aval.shape == X.shape
    )


@pytest.mark.parametrize("budget", [0, LAYER, 2.5 * LAYER, "20KB", "1GB"])
@pytest.mark.parametrize("transform", [lambda f: f, jit])
def test_gradients_are_the_same(budget, transform):
    if not isinstance(budget, str):
        budget = int(budget)
    value, slopes = transform(value_and_grad(checkpoint(network, budget=budget)))(WEIGHTS, X)
    expected = value_and_grad(network)(WEIGHTS, X)
    assert value == pytest.approx(expected[0], rel=1e-13)
    for a, b in zip(slopes, expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_what_is_kept_fits_into_the_budget():
    found = [kept(int(n * LAYER)) for n in (0, 1, 2.5, 4, 100)]
    assert found[:2] == [0, LAYER]
    assert found[2] == 2 * LAYER
    assert found == sorted(found)
    assert found[4] <= 8 * LAYER  # and nothing that is of no use


@pytest.mark.parametrize("budget", [LAYER, 2 * LAYER, 3 * LAYER, 4 * LAYER])
def test_one_of_several_results_is_kept(budget):
    def f(x):
        y, steps = lax.scan(lambda c, _: (np.sin(c) + x, np.cos(c)), x, length=3)
        return np.sum(y * y) + np.sum(steps**3)

    np.testing.assert_allclose(
        jit(grad(checkpoint(f, budget=budget)))(X), grad(f)(X), rtol=1e-12, atol=1e-12
    )


def test_products_are_kept_first():
    def f(x, w):
        y = debug.name(np.sin(x), "sin")
        z = debug.name(y @ w, "product")
        return np.sum(np.exp(np.cos(z) * y))

    def computed_again(budget):
        graph = jit(grad(checkpoint(f, budget=budget))).path_of((X, WEIGHTS[0]), {})[0].graph
        again = [
            eqn.primitive.name
            for outer in graph.eqns
            for inner in [outer.params.get("graph")]
            if inner is not None
            for eqn in inner.eqns
            if eqn.source is not None and eqn.source.derivative == "again"
        ]
        return set(again)

    assert "dot_general" in computed_again(0)
    assert "dot_general" not in computed_again(LAYER)
    assert "sin" in computed_again(LAYER)


def test_under_every_transform():
    f = checkpoint(lambda w, x: np.sum(np.tanh(x @ w) ** 2), budget=LAYER)
    g = lambda w, x: np.sum(np.tanh(x @ w) ** 2)  # noqa: E731
    w = WEIGHTS[0]
    for transform in (
        lambda f: vmap(grad(f), in_axes=(None, 0)),
        lambda f: grad(lambda w, x: np.sum(grad(f)(w, x) ** 2)),
        lambda f: grad(lambda w, x: lax.scan(lambda c, r: (c + f(w, r), None), 0.0, x)[0]),
    ):
        np.testing.assert_allclose(
            jit(transform(f))(w, X), jit(transform(g))(w, X), rtol=1e-11, atol=1e-13
        )


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [(5, 5), ("5", 5), ("2 KB", 2000), ("1.5MB", 1_500_000), ("1 GiB", 2**30), ("3b", 3)],
)
def test_units(size, nbytes):
    from functrans.api.recompute import _in_bytes

    assert _in_bytes(size) == nbytes


def test_words():
    for wrong in ("much", "-5", "5 TBs", -3):
        with pytest.raises(ValueError, match="budget of checkpoint is a number of bytes, or"):
            checkpoint(network, budget=wrong)
    with pytest.raises(ValueError, match="takes a policy \\('dots'\\) or a budget, not both"):
        checkpoint(network, policy="dots", budget=5)
    assert repr(checkpoint(network, budget="5MB")) == "checkpoint(network, budget='5MB')"
    assert Budget(5) == Budget(5)


@pytest.mark.parametrize("where", [lambda f: f, lambda f: lambda x: lax.fori_loop(0, 2, f, x)])
def test_functions_with_rules_of_their_own(where):
    """Resolving the rules leaves the budget as it is."""

    @custom_jvp
    def f(x):
        return np.exp(x)

    f.defjvp(lambda x, dx: (np.exp(x[0]), np.exp(x[0]) * dx[0]))

    def g(*x):
        return f(np.sin(x[-1]))

    x = np.arange(1.0, 4.0)
    frugal = where(checkpoint(g, budget="1KB"))
    expected = grad(lambda x: np.sum(where(g)(x)))(x)
    assert np.allclose(grad(lambda x: np.sum(frugal(x)))(x), expected)
