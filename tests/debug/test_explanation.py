"""debug.explain: the cost, the residuals and the compiled form of each line."""

import time

import numpy as np
import pytest

from functrans import callback, debug, grad, jit, lax, value_and_grad, vmap
from functrans.debug import explanation
from functrans.ir.types import Aval
from functrans.scipy import special

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(8, 4)), RNG.normal(size=(100, 8))


def loss(w, x):
    h = np.tanh(x @ w)
    return np.sum(h**2)


def line(found, text):
    [one] = [one for one in found.lines if one.source is not None and one.source.text == text]
    return one


def test_work_forward_and_backward():
    found = debug.explain(value_and_grad(loss))(W, X)
    first = line(found, "h = np.tanh(x @ w)")
    assert first.forward.operations == 2
    assert first.forward.flops == 2 * 100 * 8 * 4 + 400
    assert first.forward.nbytes == 8 * (800 + 32 + 400 + 400 + 400)
    assert first.results == ["f64[100,4]"]
    assert first.backward.flops >= 2 * 100 * 8 * 4
    assert first.forward.seconds > 0
    assert first.backward.seconds > 0
    assert found.seconds > 0
    assert found.seconds_by_numpy >= first.seconds


def test_what_is_kept_for_the_backward_pass():
    found = debug.explain(jit(grad(loss)))(W, X)
    # its slope, and twice the value
    assert [(one.type, one.nbytes) for one in found.kept] == [("f64[100,4]", 3200)] * 2
    texts = {one.source.text for one in found.kept}
    assert texts == {"h = np.tanh(x @ w)", "return np.sum(h**2)"}
    assert debug.explain(loss)(W, X).kept == []


def test_a_slow_line_is_the_first():
    def slow(x):
        time.sleep(0.01)
        return x

    def function(x):
        y = np.sin(x)
        y = callback(slow, out_types=Aval(x.shape, x.dtype))(y)  # slow
        return np.sum(y * 2.0)

    found = debug.explain(function, repeats=2)(np.ones(10))
    assert "# slow" in found.lines[0].source.text
    assert found.lines[0].seconds > 0.009
    slowest = max(found.parts, key=lambda part: part.seconds)
    assert slowest.call == "external"
    assert slowest.lines[0].line == found.lines[0].source.line


def test_what_is_compiled_together_and_what_is_not():
    def function(x):
        y = np.sin(x) * 2.0
        s = special.struve(1.0, y)
        return np.cos(s) + y

    found = debug.explain(function)(np.linspace(0.0, 1.0, 2000))
    assert [part.call for part in found.parts] == ["", "struve", ""]
    assert all(part.seconds > 0 for part in found.parts)
    texts = [[source.text for source in part.lines] for part in found.parts]
    assert texts == [
        ["y = np.sin(x) * 2.0"], ["s = special.struve(1.0, y)"], ["return np.cos(s) + y"],
    ]  # fmt: skip
    text = repr(found)
    assert "NumPy: struve, line " in text
    assert ": it has no compiled form" in text


def test_calls_of_blas():
    # columns along two axes
    x, y = RNG.normal(size=(200, 40)), RNG.normal(size=(40, 20, 30))
    found = debug.explain(lambda x, y: np.tanh(np.tensordot(x, np.cos(y), 1)))(x, y)
    assert found.parts[0].libraries == ("dgemm",)
    assert ", calls dgemm" in repr(found)


def test_lines_inside_of_loops_count_each_step():
    def function(xs):
        def step(h, x):
            h = np.tanh(h + x)
            return h, None

        return lax.scan(step, 0.0, xs)[0]

    found = debug.explain(vmap(function))(np.ones((3, 50)))
    inside = line(found, "h = np.tanh(h + x)")
    assert inside.forward.operations == 100
    assert inside.forward.flops == 300
    assert "h = np.tanh(h + x)" in [source.text for source in found.parts[0].lines]


def test_values_that_are_alive():
    def function(x):
        y = x + 1.0
        z = y * 2.0
        return np.sum(z)

    found = debug.explain(function)(np.ones(1000))
    peaks = {
        one.source.text: found.peaks[explanation.key_of(one.source)] for one in found.lines
    }  # fmt: skip
    assert peaks == {"y = x + 1.0": 8000, "z = y * 2.0": 16000, "return np.sum(z)": 8008}


def test_the_report():
    lines = repr(debug.explain(value_and_grad(loss))(W, X)).splitlines()
    assert lines[0].startswith("loss: ")
    assert lines[1].startswith("compiled ")
    assert "  h = np.tanh(x @ w)" in lines[6] + lines[7]
    assert "kept for the backward pass: 6.4 KB in 2 values" in lines
    assert "the compiled program:" in lines


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0"), (2e-9, "2 ns"), (3.14159e-5, "31.4 us"), (1.5, "1.5 s")]
)
def test_units(seconds, text):
    assert explanation.time(seconds) == text


def test_drawings():
    found = debug.explain(grad(loss))(W, X)
    dot, mermaid = found.to_dot(), found.to_mermaid()
    for text in (dot, mermaid):
        assert text.count("->") >= len(found.graph.eqns)
        assert "tanh" in text
        assert "f64[100,4]" in text
    assert dot.startswith("digraph {")
    assert mermaid.startswith("flowchart TD\n  in0([")
    assert "<lambda>" not in debug.explain(lambda x: x * 2.0)(1.0).to_mermaid()


def test_times_of_kernels():
    found = debug.explain(value_and_grad(loss))(W, X)
    assert any("tanh" in row.what and row.calls == 1 for row in found.kernels)
    assert "def " in found.source
    assert "its kernels:" in repr(found)
