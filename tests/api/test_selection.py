"""Selection of the arguments to differentiate: argument names, and integer arguments."""

import numpy as np
import pytest

from functrans import float0, grad, jit, value_and_grad, vmap
from functrans.errors import ArgnumsError, IntegerInputError

X = np.array([0.5, -1.0, 2.0])


def loss(x, w, *, scale=1.0):
    return np.sum(x * w**2) * scale


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_by_name(around):
    expected = grad(loss, argnums=1)(X, 2 * X)
    np.testing.assert_array_equal(around(grad(loss, argnames="w"))(X, 2 * X), expected)
    np.testing.assert_array_equal(around(grad(loss, argnames="w"))(X, w=2 * X), expected)
    np.testing.assert_array_equal(around(grad(loss, argnames="w"))(w=2 * X, x=X), expected)
    scale, w = around(grad(loss, argnames=("scale", "w")))(X, 2 * X, scale=3.0)
    assert scale == loss(X, 2 * X)
    np.testing.assert_array_equal(w, 3.0 * expected)
    value, (one,) = around(value_and_grad(argnames=["w"])(loss))(X, 2 * X)
    assert value == loss(X, 2 * X)
    np.testing.assert_array_equal(one, expected)


def test_names_that_do_not_fit():
    with pytest.raises(ArgnumsError, match="argnames names 'scale', which is not among the argum"):
        grad(loss, argnames="scale")(X, X)
    with pytest.raises(
        ArgnumsError, match=r"names 'v', .* of this call of loss: it takes x, w, sc"
    ):
        grad(loss, argnames=("w", "v"))(X, X)
    with pytest.raises(ArgnumsError, match="argnums=1 and argnames='w' for loss: give one"):
        grad(loss, argnums=1, argnames="w")
    with pytest.raises(ArgnumsError, match="names an argument twice"):
        grad(loss, argnames=("w", "w"))
    with pytest.raises(IntegerInputError, match=r"argument 0 \('w'\) of loss has dtype int64"):
        grad(loss, argnames="w")(X, w=np.arange(3))


def test_integers_among_what_is_differentiated():
    def of_params(p, x):
        return np.sum(p["table"][p["rows"]] * x) * (2.0 if p["flag"].all() else 1.0)

    params = {"table": X, "rows": np.array([0, 2]), "flag": np.array([True]), "n": 3}
    with pytest.raises(IntegerInputError):
        grad(of_params)(params, 1.5)
    found = grad(of_params, allow_int=True)(params, 1.5)
    np.testing.assert_array_equal(found["table"], [3.0, 0.0, 3.0])
    for name, shape in (("rows", (2,)), ("flag", (1,)), ("n", ())):
        assert found[name].dtype == float0
        assert found[name].shape == shape
    value, again = value_and_grad(of_params, allow_int=True)(params, 1.5)
    assert value == of_params(params, 1.5)
    np.testing.assert_array_equal(again["table"], found["table"])
    both = grad(of_params, (0, 1), allow_int=True)(params, 1.5)
    assert both[1] == 2.0 * (X[0] + X[2])


def test_under_vmap():
    rows = np.stack([X, 2 * X])
    found = vmap(grad(loss, argnames="w"), in_axes=(None, 0))(X, rows)
    np.testing.assert_array_equal(found, 2 * X * rows)
