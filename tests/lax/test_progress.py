"""Progress bars of scan and fori_loop: unchanged results, and a bar that reaches 100%."""

import re
import threading

import numpy as np
import pytest

from functrans import debug, grad, jit, lax, value_and_grad, vmap
from functrans.api import progress
from functrans.errors import StepLimitError
from functrans.ir import evaluate

pytest.importorskip("tqdm")

XS = np.linspace(1.0, 2.0, 257)


def step(c, x):
    c = np.sin(c) * x
    return c, c * x


def run(init, **options):
    return lax.scan(step, init, XS, **options)


@pytest.mark.parametrize("transform", [lambda f: f, jit, lambda f: jit(vmap(f))])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_are_the_same(transform, reverse, capsys):
    init = np.full(3, 0.5)
    with_bar = transform(lambda c: run(c, reverse=reverse, progress="sines"))(init)
    without = transform(lambda c: run(c, reverse=reverse))(init)
    for a, b in zip(with_bar, without, strict=True):
        np.testing.assert_array_equal(a, b)
    shown = capsys.readouterr().err
    assert "sines: 100%" in shown
    assert "257/257" in shown
    assert shown.count("\n") == 1  # one bar, for all examples of a map


def test_gradients_are_the_same():
    f = jit(value_and_grad(lambda c: run(c, progress="f")[1].sum()))
    g = jit(value_and_grad(lambda c: run(c)[1].sum()))
    np.testing.assert_allclose(f(0.5), g(0.5), rtol=1e-13)
    both = grad(lambda c: run(c, progress="f", checkpoint_every=8)[1].sum())(0.5)
    np.testing.assert_allclose(both, g(0.5)[1], rtol=1e-12)


@pytest.mark.parametrize("length", [0, 1, 2, 99, 100, 101, 250])
def test_any_length(length, capsys):
    xs = np.arange(float(length))
    carry, ys = lax.scan(lambda c, x: (c + x, c), 0.0, xs, progress="n")
    assert carry == xs.sum()
    assert ys.shape == (length,)
    shown = capsys.readouterr().err
    assert ("100%" in shown) == (length > 1)


def test_the_bar_moves_after_what_it_shows(monkeypatch):
    order = []
    monkeypatch.setattr(progress.Bar, "__call__", lambda self, done: order.append(int(done)))

    def noted(c, x):
        debug.callback(lambda x: order.append(float(x)), x)
        return c + x, None

    jit(lambda c: lax.scan(noted, c, np.array([0.5, 1.5, 2.5]), progress="p")[0])(0.0)
    assert order == [0.5, 1, 1.5, 2, 2.5, 3]


@pytest.mark.parametrize("init", [0, 0.0, np.float32(0), np.int32(0)])
def test_fori_loop(init, capsys):
    def body(i, s):
        return s + i * 2

    found = lax.fori_loop(3, 407, body, init, progress="numbers")
    plain = lax.fori_loop(3, 407, body, init)
    assert found == plain
    assert found.dtype == plain.dtype
    assert "numbers: 100%" in capsys.readouterr().err
    total = [
        jit(lambda x, p=p: lax.fori_loop(0, 305, lambda i, s: np.sin(s + i) * x, 0.0, progress=p))
        for p in ("n", None)
    ]
    np.testing.assert_array_equal(total[0](2.0), total[1](2.0))


def halvings(x, limit=None, progress="halving"):
    return lax.while_loop(
        lambda s: s[1] > 1.0, lambda s: (s[0] + 1, s[1] / 2), (0, x), limit, progress=progress
    )


@pytest.mark.parametrize("transform", [lambda f: f, jit])
@pytest.mark.parametrize("steps", [0, 1, 2, 63, 64, 65, 700])
def test_while_loop(transform, steps, capsys):
    found = transform(halvings)(2.0**steps)
    plain = transform(lambda x: halvings(x, progress=None))(2.0**steps)
    assert found == plain == (steps, 1.0)
    assert [x.dtype for x in found] == [x.dtype for x in plain]
    shown = capsys.readouterr().err
    assert (f"halving: {steps}it" in shown) == (steps > 0)
    assert shown.count("\n") == (steps > 0)


def test_each_example_of_a_mapped_while_loop_has_a_bar(capsys):
    found = jit(vmap(halvings))(np.array([8.0, 2.0, 0.5]))
    np.testing.assert_array_equal(found[0], [3, 1, 0])
    shown = capsys.readouterr().err
    assert "halving: 3it" in shown
    assert shown.count("\n") == 2


def test_gradients_of_while_loops():
    for t in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f)), lambda f: jit(grad(grad(f)))):
        with_bar, without = (t(lambda x, p=p: halvings(x**3, progress=p)[1]) for p in ("h", None))
        assert with_bar(9.0) == without(9.0)


def test_the_limit_of_a_while_loop():
    words = "a while_loop has not ended after max_steps=70 steps"
    for f in (halvings, jit(halvings, static_argnames="limit")):
        assert f(2.0**70, limit=70)[0] == 70
        with pytest.raises(StepLimitError, match=words):
            f(2.0**71, limit=70)


def test_fori_loop_with_traced_bounds(capsys):
    def total(n, progress):
        return lax.fori_loop(1, n, lambda i, s: s + np.sin(i * 0.5) * i, 0.0, progress=progress)

    both = [jit(lambda n, p=p: total(n, p))(500) for p in ("count", None)]
    assert both[0] == both[1]
    assert "count: 499it" in capsys.readouterr().err


def test_a_while_loop_that_was_broken_off_leaves_no_bar():
    counter = progress.Counter("c")
    for done in (1, 2, 1):  # the third is the next call
        counter(done)
    assert counter._shown[threading.get_ident()].n == 1
    counter._end(1)
    assert not counter._shown


def test_the_steps_between_two_moves_are_compiled(monkeypatch):
    f = jit(halvings)
    f(2.0**10)
    monkeypatch.setattr(evaluate, "_interpret", None)
    monkeypatch.setattr(evaluate, "_evaluator", None)
    assert f(2.0**11) == (11, 1.0)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_map(batch_size, capsys):
    found = lax.map(np.sin, XS, batch_size=batch_size, progress="elements")
    np.testing.assert_array_equal(found, np.sin(XS))
    assert "elements: 100%" in capsys.readouterr().err


@pytest.mark.parametrize("transform", [lambda f: f, jit])
def test_maps_by_chunks(transform, capsys, monkeypatch):
    found = transform(vmap(np.sin, chunk_size=50, progress="rows"))(XS)
    np.testing.assert_allclose(found, np.sin(XS), rtol=1e-15)
    shown = capsys.readouterr().err
    assert "rows: 100%" in shown
    moves = []
    monkeypatch.setattr(progress.Bar, "__call__", lambda self, done: moves.append(int(done)))
    transform(vmap(np.cos, chunk_size=100, progress="rows"))(XS)
    assert moves == [100, 200, 257]
    with pytest.raises(ValueError, match="vmap needs a chunk_size for it"):
        vmap(np.sin, progress="rows")


def test_a_call_that_was_broken_off_leaves_no_bar():
    f = jit(lambda c: lax.scan(lambda c, x: (c + x, None), c, np.ones(300), progress="p")[0])
    one = progress.Bar("p", 300)
    one(3)
    one(6)
    one(3)  # the next call
    one(300)
    assert f(0.0) == 300
    assert not one._shown


def test_words(monkeypatch):
    with pytest.raises(TypeError, match=re.escape(
        "progress of scan is the title of a progress bar, a string: not True"
    )):  # fmt: skip
        run(0.5, progress=True)
    with pytest.raises(TypeError, match=r"^progress of while_loop is the title of"):
        halvings(2.0, progress=1)

    class Missing:
        def resolve(self):
            raise ImportError("No module named 'tqdm'")

    monkeypatch.setattr(progress, "_tqdm", Missing())
    with pytest.raises(ImportError) as caught:
        run(0.5, progress="p")
    assert caught.value.__notes__ == ["Progress bars are drawn by tqdm: pip install tqdm"]
