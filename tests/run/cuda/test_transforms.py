"""Programs of all transforms on device arrays, eagerly and under jit, in the emulator."""

import numpy as np
import pytest

import functrans
import functrans.numpy as fnp
from functrans import (
    checkpoint,
    config,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    lax,
    linearize,
    random,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
)
from functrans.run.cuda.array import DeviceArray

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)).astype(np.float32)
V = RNG.normal(size=5)
W = RNG.normal(size=(5, 3))
N = np.array([3, 1, 4, 1, 5])
POSITIVE = np.abs(V) + 0.5


def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)


@custom_jvp
def soft(x):
    return np.log1p(np.exp(x))


@soft.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return soft(x), t / (1 + np.exp(-x))


@custom_vjp
def clipped(x):
    return x * x


clipped.defvjp(lambda x: (x * x, x), lambda x, g: (np.clip(g, -1, 1) * 2 * x,))


def branching(x):
    return np.sum(x * 2) if x[0] > 0 else np.sum(x * x)


def rk4(x):
    def step(state, _):
        k = np.sin(state)
        return state + 0.1 * k, state.sum()

    return lax.scan(step, x, None, length=4)


def newton(x):
    return lax.while_loop(
        lambda pair: pair[1] < 5, lambda pair: (0.5 * (pair[0] + 2 / pair[0]), pair[1] + 1), (x, 0)
    )[0]


def assigned(x):
    y = x * 1.0
    y[1] = 5.0
    y[2:] += x[2:]
    return y


def normal(seed):
    return random.normal(random.key(seed), (3,))


PROGRAMS = {
    "softmax": (lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x).sum(1)[:, None], X),
    "grad": (grad(lambda x: np.sum(np.sin(x) ** 2)), V),
    "grad of a product": (grad(loss), W, V),
    "grad by both": (grad(loss, argnums=(0, 1)), W, V),
    "value and grad": (value_and_grad(loss), W, V),
    "second derivative": (grad(lambda x: grad(lambda y: np.sum(y**3))(x).sum()), V),
    "grad of a mean": (grad(lambda x: np.mean(np.log(x))), POSITIVE),
    "grad of sorting by index": (grad(lambda x: x[::-1][1:3].sum()), V),
    "grad of a gather": (grad(lambda x: np.sum(x[np.array([0, 0, 2])] ** 2)), V),
    "jvp": (lambda x, t: jvp(np.sin, (x,), (t,)), V, POSITIVE),
    "vjp": (lambda x, t: vjp(np.exp, x)[1](t), V, POSITIVE),
    "linearize": (lambda x, t: linearize(np.cos, x)[1](t), V, POSITIVE),
    "jacfwd": (jacfwd(lambda x: np.outer(x, x)[:2]), V),
    "jacrev": (jacrev(lambda x: x[:2] * np.sum(x)), V),
    "hessian": (hessian(lambda x: np.sum(x**3) + x[0] * x[1]), V),
    "hvp": (lambda x, t: hvp(lambda y: np.sum(np.cos(y)))(x, t), V, POSITIVE),
    "vmap": (vmap(lambda row: row / row.sum()), X),
    "vmap along another axis": (vmap(lambda row: row * row[0], in_axes=1, out_axes=1), X),
    "per-sample gradients": (vmap(grad(loss), in_axes=(None, 0)), W, X.astype(float)),
    "vmap of a hessian": (vmap(hessian(lambda x: np.prod(x))), X[:, :3].astype(float)),
    "scan": (rk4, V),
    "grad of a scan": (grad(lambda x: rk4(x)[1].sum()), V),
    "vmap of a scan": (vmap(rk4), X.astype(float)),
    "while": (newton, POSITIVE[0]),
    "vmap of a while": (vmap(newton), POSITIVE),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, y: y * x, x), V),
    "cond": (lambda x: lax.cond(x[0] > 0, np.sin, np.cos, x), V),
    "Python's branch": (branching, V),
    "grad of Python's branch": (grad(branching), V),
    "custom jvp": (soft, V),
    "grad of custom jvp": (grad(lambda x: soft(x).sum()), V),
    "custom vjp": (grad(lambda x: clipped(x).sum()), V),
    "checkpoint": (grad(lambda x: np.sum(checkpoint(lambda y: np.sin(np.exp(y)))(x))), V),
    "stop_gradient": (grad(lambda x: np.sum(x * stop_gradient(x))), V),
    "assignment": (jit(assigned), V),
    "grad of assignment": (grad(lambda x: assigned(x).sum()), V),
    "integers": (lambda n: np.cumsum(n) % 4 + (n << 2), N),
    "complex": (lambda x: np.abs(np.exp(1j * x) @ x), V),
    "grad through complex": (grad(lambda x: np.sum(np.abs(x + 1j * x**2))), V),
    "where and clip": (lambda x: np.where(x > 0, np.clip(x, 0.1, 0.9), -x), V),
    "einsum": (lambda x, w: np.einsum("ni,ij->jn", x, w), X.astype(float), W),
    "norms": (grad(lambda x: np.linalg.norm(x)), V),
    "functrans.numpy": (lambda x: fnp.sqrt(fnp.sum(fnp.square(x))), V),
    "logsumexp": (lambda x: functrans.scipy.special.logsumexp(x, axis=1), X),
    "pytrees": (lambda d: {"y": [d["x"] * 2, d["w"].T], "n": d["x"].sum()}, {"x": V, "w": W}),
    "random numbers": (normal, np.int64(7)),
    "segments": (lambda x, n: lax.segment_sum(x, n, num_segments=6), V, N),
}


def on_device(tree):
    return functrans.tree.map(lambda x: functrans.device_put(x), tree)


@pytest.mark.few(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_those_of_the_host(emulated, name):
    function, *args = PROGRAMS[name]
    expected = function(*args)
    there = [on_device(x) for x in args]
    for run in (function, jit(function)):
        found = run(*there)
        leaves = functrans.tree.leaves(found)
        assert all(isinstance(x, DeviceArray) for x in leaves)
        for x, y in zip(leaves, functrans.tree.leaves(expected), strict=True):
            assert (x.shape, x.dtype) == (np.shape(y), np.asarray(y).dtype)
            np.testing.assert_allclose(np.asarray(x), y, rtol=2e-5, atol=1e-6)
        del found, leaves, x


def test_a_device_array_that_is_read_from_outside_is_an_argument_too(emulated):
    """What is computed with it is computed where it is, and its results are there."""
    weights = functrans.device_put(V)
    for run in (jit(lambda x: x * weights), lambda x: jit(lambda y: y * weights)(x)):
        found = run(V)
        assert isinstance(found, DeviceArray)
        np.testing.assert_allclose(np.asarray(found), V * V)
    slope = grad(lambda x: (x * weights).sum())(V)
    assert isinstance(slope, DeviceArray)
    np.testing.assert_allclose(np.asarray(slope), V)
    del found, slope


def test_another_array_outside_is_read_anew(emulated):
    here = {"w": functrans.device_put(V)}
    f = jit(lambda x: x + here["w"])
    np.testing.assert_allclose(np.asarray(f(V)), 2 * V)
    here["w"] = functrans.device_put(3 * V)
    np.testing.assert_allclose(np.asarray(f(V)), 4 * V)
    scale = functrans.device_put(2.0)
    np.testing.assert_allclose(np.asarray(jit(lambda x: x * scale)(V)), 2 * V)


def squared(x):
    return lax.while_loop(lambda y: y < 10, lambda y: y * y + 1, x)


def test_steps_of_a_batch_of_loops_are_kept_on_the_host_if_it_is_allowed(emulated, monkeypatch):
    monkeypatch.setattr(config, "cuda_fallback", "host")
    slope, x = vmap(grad(squared)), np.array([1.0, 2.0, 0.5, 11.0])
    found = jit(slope)(functrans.device_put(x))
    assert isinstance(found, DeviceArray)
    np.testing.assert_allclose(np.asarray(found), slope(x))
