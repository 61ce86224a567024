"""debug.trace_back: magnitudes of cotangents, from the loss to the parameters."""

import numpy as np
import pytest

from functrans import debug, grad, jit, lax, value_and_grad

LAYERS = [0.1 * np.random.default_rng(i).normal(size=(8, 8)) for i in range(4)]


def loss(layers, x):
    for w in layers:
        x = np.tanh(x @ w)
    return np.sum(x)


@pytest.mark.parametrize("transform", [grad, value_and_grad, lambda f: jit(grad(f))])
def test_gradients_vanish_layer_by_layer(transform):
    traced = debug.trace_back(transform(loss))(LAYERS, np.ones((5, 8)))
    first, *rest = traced.visits
    assert first.source.text == "return np.sum(x)"
    assert {visit.source.text for visit in rest} == {"x = np.tanh(x @ w)"}
    # by hand: the cotangents of the outputs of the layers
    x, kept = np.ones((5, 8)), []
    for w in LAYERS:
        x = np.tanh(x @ w)
        kept.append(x)
    cotangent = np.ones((5, 8))
    found = [visit.cotangents for visit in rest]
    for w, x in zip(LAYERS[::-1], kept[::-1], strict=True):
        cotangent = cotangent * (1 - x**2)
        size = np.sqrt(np.mean(cotangent**2))
        assert any(np.isclose(one.mean_square, size, rtol=1e-10) for one in found)
        cotangent = cotangent @ w.T


def test_results_are_in_the_table():
    traced = debug.trace_back(value_and_grad(loss))(LAYERS, np.ones((5, 8)))
    value, gradients = value_and_grad(loss)(LAYERS, np.ones((5, 8)))
    assert list(traced.results) == ["[0]", *(f"[1][{i}]" for i in range(4))]
    assert np.isclose(traced.results["[0]"].largest, abs(value))
    for i, gradient in enumerate(gradients):
        found = traced.results[f"[1][{i}]"]
        assert np.isclose(found.mean_square, np.sqrt(np.mean(gradient**2)))
        assert np.isclose(found.largest, np.max(np.abs(gradient)))
    assert f"the result[1][{i}]" in repr(traced)


def test_the_steps_of_a_loop_are_visits():
    def looped(w):
        return lax.fori_loop(0, 5, lambda i, x: np.tanh(x * w), 1.0)

    sizes = [visit.cotangents.largest for visit in debug.trace_back(grad(looped))(0.5).visits]
    assert len(sizes) >= 5
    assert sizes[-1] < sizes[0]


def test_a_long_table_is_cut_in_the_middle():
    def looped(w):
        return lax.fori_loop(0, 500, lambda i, x: np.sin(x * w), 1.0)

    lines = repr(debug.trace_back(grad(looped))(0.5)).splitlines()
    assert len(lines) < 50
    assert any(line.strip().startswith("...") and line.endswith("more") for line in lines)


def test_a_picture(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = debug.trace_back(grad(loss))(LAYERS, np.ones((5, 8))).plot()
    axes.figure.savefig(tmp_path / "picture.png")
    assert axes.get_yscale() == "log"
