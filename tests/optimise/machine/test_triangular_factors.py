"""Products are annotated with the triangles of their operands that are zero."""

import numpy as np
import pytest

from functrans import config, jit, vmap
from functrans.optimise import rewritten
from functrans.run.code import host

RNG = np.random.default_rng(0)


def definite(*stack, n=60):
    a = RNG.standard_normal((*stack, n, n))
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def choices(function, *args):
    """How many choices there are in a program."""
    graph = rewritten(jit(function).lower(*args).graph(), host.target())
    return sum(eqn.primitive.name == "select" for eqn in graph.eqns)


cholesky = np.linalg.cholesky

PRODUCTS = {
    "left": (lambda s, b: cholesky(s) @ b, 1),
    "transposed": (lambda s, b: cholesky(s).T @ b, 1),
    "right": (lambda s, b: b.T @ cholesky(s), 1),
    "right, transposed": (lambda s, b: b.T @ cholesky(s).T, 1),
    "upper": (lambda s, b: cholesky(s, upper=True) @ b, 1),
    "both": (lambda s, b: cholesky(s) @ cholesky(s).T, 1),
    "of QR": (lambda s, b: np.linalg.qr(s, "r") @ b, 1),
    "few columns": (lambda s, b: cholesky(s) @ b[:, :2], 0),
    "a vector": (lambda s, b: cholesky(s) @ b[:, 0], 0),
    "no product": (lambda s, b: np.linalg.solve(cholesky(s), b), 0),
}


@pytest.mark.dear
@pytest.mark.parametrize("name", PRODUCTS)
def test_zeros_are_written_out_for_products(name):
    function, wanted = PRODUCTS[name]
    s, b = definite(), RNG.standard_normal((60, 40))
    assert choices(function, s, b) == wanted
    np.testing.assert_allclose(jit(function)(s, b), function(s, b), rtol=1e-9, atol=1e-9)


@pytest.mark.dear
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("place", [(0, 0), (59, 0), (30, 39)])
def test_zeros_times_infinity_are_nan(value, place, monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    s, b = definite(), RNG.standard_normal((60, 40))
    b[place] = value
    for function in (lambda s, b: cholesky(s) @ b, lambda s, b: b.T @ cholesky(s)):
        with np.errstate(all="ignore"):
            expected = function(s, b)
        np.testing.assert_allclose(jit(function)(s, b), expected, rtol=1e-9, atol=1e-9)


def test_stacks():
    s, b = definite(3), RNG.standard_normal((3, 60, 40))
    function = lambda s, b: cholesky(s) @ b  # noqa: E731
    np.testing.assert_allclose(jit(vmap(function))(s, b), function(s, b), rtol=1e-9, atol=1e-9)
