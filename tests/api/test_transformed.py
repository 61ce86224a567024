"""Transformed functions as objects: names, attributes, repr, pickles, copies, other processes."""

import copy
import functools
import inspect
import multiprocessing
import pickle
import types

import numpy as np
import pytest

import functrans
from functrans import (
    Aval,
    callback,
    checkpoint,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    trace,
    value_and_grad,
    vmap,
)

X = np.array([1.0, 2.0])


def loss(x, scale=1.0):
    """A loss."""
    return np.sum(x**3) * scale


loss.tag = {"units": "m"}


@grad
def decorated(x):
    return np.sum(x**2)


@custom_jvp
def clamp(x):
    return np.clip(x, -1.0, 1.0)


@clamp.defjvp
def clamp_jvp(primals, tangents):
    return clamp(*primals), tangents[0]


def straight(x):
    return np.round(x)


through = custom_vjp(straight)


def keep(x):
    return np.round(x), None


def pass_on(saved, ct):
    return (ct,)


through.defvjp(keep, pass_on)

MADE = {
    "grad(loss)": grad(loss),
    "grad(loss, argnums=1)": grad(loss, argnums=1),
    "grad(loss, argnums=(0, 1))": grad(loss, argnums=(0, 1)),
    "value_and_grad(loss)": value_and_grad(loss),
    "vmap(loss)": vmap(loss),
    "vmap(loss, in_axes=None, axis_size=3)": vmap(loss, in_axes=None, axis_size=3),
    "jacfwd(loss)": jacfwd(loss),
    "jacrev(loss, chunk_size=2)": jacrev(loss, chunk_size=2),
    "hessian(loss)": hessian(loss),
    "checkpoint(loss, policy='dots')": checkpoint(loss, policy="dots"),
    "jit(loss)": jit(loss),
    "jit(loss, static_argnames=('scale',))": jit(loss, static_argnames="scale"),
    "jit(grad(loss))": jit(grad(loss)),
    "jit(vmap(grad(loss), in_axes=None, axis_size=2))": jit(
        vmap(grad(loss), in_axes=None, axis_size=2)
    ),
    "trace(grad(loss))": trace(grad(loss)),
    "custom_vjp(straight)": through,
    "grad(custom_jvp(clamp))": grad(clamp),
    "callback(loss, out_types=f64[])": callback(loss, Aval((), float)),
    "hvp(loss)": hvp(loss),
}


@pytest.mark.parametrize("text", MADE)
def test_text(text):
    assert repr(MADE[text]) == text


def arguments_of(function):
    if "hvp" in repr(function):
        return X, X
    return (
        (X[0],) if "clamp" in repr(function) else (X, 2.0) if "argnums" in repr(function) else (X,)
    )


@pytest.mark.parametrize("text", MADE)
@pytest.mark.parametrize(
    "again", [lambda f: pickle.loads(pickle.dumps(f)), copy.deepcopy, copy.copy]
)
def test_pickles_and_copies(text, again):
    made = MADE[text]
    other = again(made)
    assert repr(other) == text
    args = arguments_of(made)
    for one, two in zip(
        functrans.tree.leaves(made(*args)), functrans.tree.leaves(other(*args)), strict=True
    ):
        if isinstance(one, np.ndarray | np.generic):
            np.testing.assert_array_equal(one, two)


def test_a_decorated_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert pickle.loads(pickle.dumps(clamp)) is clamp
    assert pickle.loads(pickle.dumps(jit(decorated)))(X).tolist() == [2.0, 4.0]


@pytest.mark.full
def test_another_process(monkeypatch):
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.map(grad(loss), [X])[0].tolist() == [3.0, 12.0]
        assert pool.map(jit(grad(loss)), [X])[0].tolist() == [3.0, 12.0]


ALL = [grad, value_and_grad, vmap, jit, hessian, hvp, jacfwd, jacrev, checkpoint, trace]


@pytest.mark.parametrize("transform", [*ALL, custom_jvp, custom_vjp])
def test_what_the_function_had_is_kept(transform):
    made = (
        transform(transform(loss)) if transform not in (custom_jvp, custom_vjp) else transform(loss)
    )
    assert (made.__name__, made.__doc__, made.__module__) == ("loss", "A loss.", __name__)
    assert made.tag is loss.tag
    assert inspect.signature(made) == inspect.signature(loss)
    assert made.__wrapped__ is not made
    inner = made
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    assert inner is loss


def test_what_the_function_had_is_no_state_of_ours():
    """A rule inside of a rule: each keeps its own function."""
    one = custom_jvp(lambda x: x**2)
    one.defjvps(lambda t, y, x: 10.0 * t)
    other = custom_jvp(one)
    other.defjvps(lambda t, y, x: 7.0 * t)
    assert (other(3.0), grad(other)(3.0), grad(one)(3.0)) == (9.0, 7.0, 10.0)


def test_a_transformed_function_is_a_method_of_a_class():
    class Model:
        def __init__(self):
            self.scale = 3.0

        @grad(argnums=1)
        def slope(self, x):
            return self.scale * x**2

        both = vmap(lambda self, x: self.scale * x, in_axes=(None, 0))

    model = Model()
    assert isinstance(model.slope, types.MethodType)
    assert model.slope(2.0) == 12.0
    assert model.both(X).tolist() == [3.0, 6.0]
    assert Model.slope(model, 1.0) == 6.0


def test_without_a_name():
    part = functools.partial(loss, scale=2.0)
    assert repr(grad(part)) == "grad(partial)"
    assert grad(part).__name__ == "grad(partial)"


FORWARDING = (functrans.extend, functrans.numpy, functrans.numpy.linalg)


@pytest.mark.parametrize(
    "module",
    [functrans, functrans.errors, functrans.extend, functrans.lax, functrans.numpy,
     functrans.numpy.linalg, functrans.scipy, functrans.testing, functrans.tree],
    ids=lambda module: module.__name__,
)  # fmt: skip
def test_a_module_shows_its_public_names_only(module):
    shown = dir(module)
    assert shown == sorted(shown)
    foreign = {"Any", "Callable", "Iterable", "Sequence", "annotations", "np", "sys"}
    assert foreign.isdisjoint(shown)
    for name in shown:
        assert name in getattr(module, "__all__", shown)
        value = getattr(module, name)
        if isinstance(value, types.ModuleType) and module not in FORWARDING:
            assert value.__name__ == f"{module.__name__}.{name}"


def test_the_switches_are_shown():
    assert dir(functrans.config) == sorted(functrans.config._SWITCHES)
