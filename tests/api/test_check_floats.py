"""NumPy's floating-point errors in transformed and jitted functions."""

import warnings

import numpy as np
import pytest

from functrans import config, grad, jit, lax, vmap

X = np.array([0.0, -1.0, 2.0])


def logarithms(x):
    return np.sum(np.log(x))


@pytest.fixture
def checking(monkeypatch):
    monkeypatch.setattr(config, "check_floats", True)


@pytest.mark.parametrize(
    "function",
    [jit(logarithms), jit(lambda x: jit(logarithms)(x) + 1.0), jit(vmap(np.log)),
     jit(lambda x: np.log(x).sum() if x[0] < 1 else x.sum()),
     lambda x: vmap(jit(np.log))(x)],
    ids=["jit", "jit in jit", "jit of vmap", "a branch", "vmap of jit"],
)  # fmt: skip
def test_a_jitted_function_raises_as_numpy_does(function, checking):
    with np.errstate(all="raise"), pytest.raises(FloatingPointError) as caught:
        function(X)
    assert any("test_check_floats.py" in note for note in caught.value.__notes__)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        function(X)


def test_without_it_compiled_code_says_nothing():
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(jit(logarithms)(X))


@pytest.mark.parametrize("transform", [grad, lambda f: vmap(f, in_axes=None, axis_size=2)])
def test_other_transforms_always_do(transform):
    with np.errstate(all="raise"), pytest.raises(FloatingPointError) as caught:
        transform(logarithms)(X)
    assert any("test_check_floats.py" in note for note in caught.value.__notes__)


def test_results_are_the_same(checking):
    x = np.array([0.5, 1.0, 2.0])
    function = jit(
        lambda x, n: (grad(logarithms)(x) * n, lax.fori_loop(0, 3, lambda i, x: x * n, x))
    )
    found = function(x, 2.0)
    config.check_floats = False
    for one, other in zip(found, function(x, 2.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
        assert one.dtype == other.dtype
    same = jit(lambda x: x)(x)
    same[0] = 7.0
    assert x[0] == 0.5
