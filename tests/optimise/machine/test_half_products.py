"""Half-precision products are computed in float32 between casts."""

import ml_dtypes
import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import grad, jit, lax
from functrans.optimise import rewritten
from functrans.run.code import host

RNG = np.random.default_rng(0)


def halves(*shape):
    return RNG.standard_normal(shape).astype(np.float16)


def products(function, *args):
    """The dtypes of the products of a program."""
    graph = rewritten(jit(function).lower(*args).graph(), host.target())
    return [
        str(eqn.outputs[0].aval.dtype) for eqn in graph.eqns if eqn.primitive.name == "dot_general"
    ]


@pytest.mark.parametrize("shape", [(40, 70, 33), (130, 300, 64), (2, 700, 30), (300, 5, 300)])
def test_they_are_added_up_in_float32_and_rounded_once(shape):
    rows, terms, columns = shape
    x, y = halves(rows, terms), halves(terms, columns)
    function = lambda x, y: x @ y  # noqa: E731
    assert products(function, x, y) == ["float32"]
    found = jit(function)(x, y)
    assert found.dtype == np.float16
    wide = x.astype(np.float64) @ y.astype(np.float64)
    # half a unit in the last place, and what float32 is off by
    allowed = 0.51 * np.spacing(np.abs(wide).astype(np.float16)).astype(float) + 1e-3 * 2**-11
    assert (np.abs(found - wide) <= allowed + 1e-5).all()


def test_what_follows_reads_what_was_rounded():
    x, y, b = halves(40, 70), halves(70, 33), halves(33)
    found = jit(lambda x, y, b: np.tanh(x @ y + b))(x, y, b)
    product = jit(lambda x, y: x @ y)(x, y)
    np.testing.assert_array_equal(found, jit(lambda z, b: np.tanh(z + b))(product, b))


def test_gradients_are_half_floats_too():
    x, y = halves(40, 70), halves(70, 33)
    function = lambda x, y: fnp.sum(x @ y)  # noqa: E731
    found = jit(grad(function, argnums=(0, 1)))(x, y)
    expected = grad(function, argnums=(0, 1))(x, y)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float16
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=2e-3, atol=2e-3)


def test_small_ones_stay():
    assert products(lambda x, y: x @ y, halves(4, 5), halves(5, 6)) == ["float16"]


def test_steps_of_a_scan_have_them_too():
    h, w = halves(16, 64), halves(64, 64) / np.float16(8)
    function = lambda h, w: lax.scan(lambda h, _: (np.tanh(h @ w), None), h, None, length=5)[0]  # noqa: E731
    found, expected = jit(function)(h, w), function(h, w)
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-2, atol=5e-3)


def test_bfloat16_is_widened_by_numpy():
    x, y = (halves(*shape).astype(ml_dtypes.bfloat16) for shape in ((40, 70), (70, 33)))
    found = jit(lambda x, y: x @ y)(x, y)
    assert found.dtype == (x @ y).dtype == np.float32
    np.testing.assert_allclose(found, x.astype(np.float32) @ y.astype(np.float32), 1e-5, 1e-5)
