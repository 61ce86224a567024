"""Pullbacks that are made under a named axis: what they sum over, and where they may be called."""

import numpy as np
import pytest

from functrans import jit, lax, vjp, vmap
from functrans.errors import AxesError

RNG = np.random.default_rng(5)
N = 4


def test_a_cotangent_that_varies_of_a_result_that_does_not():
    def f(x):
        _, pullback = vjp(lambda x: lax.psum(x, "i"), x)
        return pullback(x)

    with pytest.raises(AxesError) as caught:
        vmap(f, axis_name="i")(np.ones(3))
    assert str(caught.value).startswith(
        "the cotangent varies along the axis 'i', and the result of <lambda> does not: it has one "
        "cotangent for all lanes. Add theirs up (lax.psum(ct, 'i'))"
    )


@pytest.mark.parametrize("count", [0, 1, N, N + 1])
@pytest.mark.parametrize("compiled", [lambda f: f, jit])
def test_a_batch_of_pullbacks_sums_over_the_named_axis_and_not_over_the_batch(count, compiled):
    """The pullbacks hold the number of the lane, once for each of them."""

    def f(x, w):
        return np.sum(x * w**2)

    def pull(x, w):
        pullbacks = vmap(lambda s: vjp(f, s * x, w)[1])(np.arange(1.0, count + 1))
        return vmap(lambda pullback: pullback(1.0))(pullbacks)

    x, w = RNG.normal(size=(N, 3)), RNG.normal(size=3)
    scales = np.arange(1.0, count + 1)[:, None]
    of_x, of_w = compiled(vmap(pull, in_axes=(0, None), axis_name="i"))(x, w)
    assert np.allclose(of_x, np.broadcast_to(w**2, (N, count, 3)))
    assert np.allclose(of_w, np.broadcast_to(2 * w * scales * x.sum(0), (N, count, 3)))


def test_a_pullback_outside_of_the_axis_under_which_it_was_made():
    def pullback_of(x, w):
        return vjp(lambda x, w: np.sum(x * w), x, w)[1]

    x, w = RNG.normal(size=(N, 3)), RNG.normal(size=3)
    pullbacks = vmap(pullback_of, in_axes=(0, None), axis_name="i")(x, w)

    def pull(pullback):
        return pullback(1.0)

    of_x, of_w = vmap(pull, axis_name="i")(pullbacks)
    assert np.allclose(of_x, np.tile(w, (N, 1)))
    assert np.allclose(of_w, np.tile(x.sum(0), (N, 1)))
    with pytest.raises(AxesError, match=r"a pullback that was made under vmap.* is called outside"):
        vmap(pull)(pullbacks)
