"""Programs on bfloat16 arrays: compiled, batched and differentiated as they are eagerly."""

import numpy as np
import pytest
import scipy.special

import functrans.scipy as fscipy
from functrans import (
    callback,
    checkpoint,
    config,
    custom_jvp,
    grad,
    jacfwd,
    jacrev,
    jit,
    jvp,
    lax,
    tree,
    vjp,
    vmap,
)

ml_dtypes = pytest.importorskip("ml_dtypes")

NARROW = np.dtype(ml_dtypes.bfloat16)
SIZES = [0, 1, 2, 17, 300, 2600]


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(NARROW)


def softmax(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-9))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def by_steps(x):
    def step(total, y):
        total = total + y * y
        return total, np.sqrt(total)

    return lax.scan(step, x.dtype.type(0), x)


def until_small(x):
    return lax.while_loop(lambda y: np.max(abs(y), initial=0) > 0.5, lambda y: y / 2, x)


def assigned(x):
    y = x.copy()
    y[::2] *= 2
    y[: len(y) // 3] = 0
    return y


ELEMENTWISE = {
    "arithmetic": lambda x: (x * x + x) / (abs(x) + 1) - 2 * x,
    "functions": lambda x: np.tanh(x) * np.exp(-x * x) + np.log1p(abs(x)),
    "choice": lambda x: np.where(x > 0, x, np.maximum(x * x, 1)),
    "wider": lambda x: (x * 1.5, x + np.float32(2), x.astype(np.float64) ** 2, x**3),
    "truth": lambda x: (x > 0, np.isnan(x), x == x[::-1]),
    "moves": lambda x: (x[::-1], np.concatenate([x, x]), np.stack([x, -x]), np.roll(x, 1)),
    "assignment": assigned,
    "softmax": softmax,
    "scan": by_steps,
    "while": until_small,
    "cond": lambda x: lax.cond(np.sum(x) > 0, lambda x: x * 2, lambda x: x - 1, x),
    "checkpoint": lambda x: checkpoint(lambda x: np.sin(np.cos(x)))(x),
    "order": lambda x: (np.sort(x), np.argsort(x, kind="stable"), np.sort(-x)),
}


def assert_near(found, expected):
    """The same types, and numbers that differ by rounding."""
    found, expected = tree.leaves(found), tree.leaves(expected)
    assert [(x.dtype, np.shape(x)) for x in found] == [(x.dtype, np.shape(x)) for x in expected]
    for x, y in zip(found, expected, strict=True):
        tolerance = {NARROW: 2.0**-6, np.dtype("f4"): 1e-5}.get(y.dtype, 1e-12)
        np.testing.assert_allclose(
            np.asarray(x, float), np.asarray(y, float), rtol=tolerance, atol=tolerance
        )


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_compiled_and_batched_as_numpy_has_it(name):
    function = ELEMENTWISE[name]
    for n in SIZES:
        x = drawn(n)
        expected = function(x)
        assert_near(jit(function)(x), expected)
        rows = vmap(function)(np.stack([x, x[::-1]]))
        assert_near(tree.map(lambda y: y[0], rows), expected)


def loss_of(function):
    def loss(x):
        results = [y for y in tree.leaves(function(x)) if y.dtype == NARROW]
        return sum(np.sum(y) for y in results)

    return loss


@pytest.mark.parametrize("name", ["arithmetic", "functions", "choice", "moves", "softmax", "scan"])
def test_gradients_are_those_of_float32_nearly(name):
    for n in (1, 17, 300):
        x = drawn(n)
        found = jit(grad(loss_of(ELEMENTWISE[name])))(x)
        assert found.dtype == NARROW
        single = x.astype(np.float32)

        def wide(x, name=name):
            return sum(np.sum(y) for y in tree.leaves(ELEMENTWISE[name](x)))

        expected = grad(wide)(single)
        scale = 1 + np.max(abs(expected))
        np.testing.assert_allclose(found.astype(float), expected, rtol=0.1, atol=0.1 * scale)
        assert_near(grad(loss_of(ELEMENTWISE[name]))(x), found)


@pytest.mark.parametrize("function", [np.sum, np.mean, np.cumsum, np.var, np.prod, np.trace])
@pytest.mark.parametrize("n", [0, 1, 2, 17, 300, 2600])
def test_sums_are_added_in_float32(function, n):
    # of ones that are added in bfloat16, 256 is the most that there is
    x = np.ones((n, n) if function is np.trace and n < 2600 else (n, 1), NARROW)
    if function in (np.mean, np.var) and n == 0:
        return
    wide = np.asarray(function(x.astype(np.float32)), NARROW)
    assert_near(jit(lambda x: function(x))(x), wide)
    assert jvp(lambda x: function(x), (x,), (x,))[0].dtype == NARROW


@pytest.mark.parametrize("shape", [(0, 3, 2), (1, 1, 1), (2, 2, 2), (17, 17, 17), (300, 70, 40)])
def test_products_of_matrices_are_added_in_float32(shape):
    m, k, n = shape
    a, b = drawn(m, k), drawn(k, n)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    product = jit(lambda a, b: a @ b)(a, b)
    assert product.dtype == np.matmul(a, b).dtype == np.float32
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-5)
    rounded = jit(np.dot)(a, b)
    assert rounded.dtype == NARROW
    np.testing.assert_allclose(rounded.astype(float), expected, rtol=2.0**-7, atol=1e-5)
    value, pullback = vjp(jit(np.dot), a, b)
    back = pullback(value)
    wide_back = expected @ b.T.astype("f4"), a.T.astype("f4") @ expected
    for found, wide in zip(back, wide_back, strict=True):
        assert found.dtype == NARROW
        scale = np.max(abs(wide), initial=1)
        np.testing.assert_allclose(found.astype(float), wide, rtol=0.02, atol=0.02 * scale)


def test_jacobians():
    x = drawn(5)
    for jacobian in (jacfwd, jacrev):
        found = jacobian(lambda x: x * x)(x)
        assert found.dtype == NARROW
        np.testing.assert_array_equal(found.astype(float), np.diag(2 * x.astype(float)))


def test_a_layer_of_mixed_precision():
    """Weights kept in float32, activations stored in bfloat16, as networks are trained."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.normal(size=(30, 20)).astype("f4"), "b": np.zeros(20, "f4")}
    x = drawn(64, 30)

    def loss(weights, x):
        narrow = tree.map(lambda w: w.astype(NARROW), weights)
        hidden = np.tanh(np.dot(x, narrow["w"]) + narrow["b"])
        return np.mean(hidden.astype(np.float32) ** 2)

    def wide_loss(weights, x):
        return np.mean(np.tanh(x @ weights["w"] + weights["b"]) ** 2)

    found = jit(grad(loss))(weights, x)
    expected = grad(wide_loss)(weights, x.astype("f4"))
    for name in weights:
        assert found[name].dtype == np.float32
        scale = np.max(abs(expected[name]))
        np.testing.assert_allclose(found[name], expected[name], rtol=0.05, atol=0.05 * scale)


def test_a_vector_of_a_tree_and_back():
    given = {"a": drawn(3), "b": drawn(2, 2)}
    vector, unravel = tree.ravel(given)
    assert vector.dtype == NARROW
    assert tree.ravel({**given, "c": np.ones(1, "f4")})[0].dtype == np.float32
    assert_near(unravel(vector), given)


IMAGES, KERNELS = drawn(2, 3, 10, 10), drawn(4, 3, 3, 3)
VECTOR, LABELS = drawn(300), np.random.default_rng(2).integers(0, 5, 300)
BY_LAX = {
    "convolution": (lambda x: lax.conv(x, KERNELS.astype(x.dtype), (1, 1), "SAME"), IMAGES),
    "max_pool": (lambda x: lax.max_pool(x, (2, 2)), IMAGES),
    "avg_pool": (lambda x: lax.avg_pool(x, (2, 2)), IMAGES),
    "segment_sum": (lambda x: lax.segment_sum(x, LABELS, 6), VECTOR),
    "segment_max": (lambda x: lax.segment_max(x, LABELS, 5), VECTOR),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x), VECTOR),
    "a branch for each": (
        vmap(lambda s: lax.cond(s > 0, lambda s: s * 2, lambda s: s - 1, s)), VECTOR,
    ),
    "gather and scatter": (lambda x: x.at[LABELS].set(x[0])[LABELS[::-1]] + x, VECTOR),
}  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("name", BY_LAX)
def test_what_lax_has(name):
    function, x = BY_LAX[name]
    for each in (jit(function), jit(grad(lambda x: np.sum(function(x) * function(x))))):
        found, expected = each(x), each(x.astype(np.float32))
        assert found.dtype == NARROW
        scale = 1 + np.max(abs(expected))
        np.testing.assert_allclose(found.astype(float), expected, rtol=0.05, atol=0.02 * scale)


@pytest.mark.dear
def test_what_numpy_and_scipy_compute_in_other_precisions():
    matrix = np.eye(3).astype(NARROW) * 2
    for function, x in (
        (np.linalg.inv, matrix), (np.linalg.norm, VECTOR), (lambda x: abs(np.fft.fft(x)), VECTOR),
        (fscipy.special.erf, VECTOR), (fscipy.special.log_softmax, VECTOR),
    ):  # fmt: skip
        plain = scipy.special.log_softmax if function is fscipy.special.log_softmax else function
        found, expected = jit(function)(x), np.asarray(plain(x))
        assert found.dtype == expected.dtype
        tolerance = 0.02 if found.dtype == NARROW else 1e-5
        np.testing.assert_allclose(
            found.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance
        )
        assert grad(lambda x, f=function: np.sum(f(x)))(x).dtype == NARROW


def test_python_and_given_up_memory():
    sorted_by_python = callback(np.sort, lambda x: x)
    np.testing.assert_array_equal(jit(sorted_by_python)(VECTOR), np.sort(VECTOR))
    given = VECTOR.copy()
    np.testing.assert_array_equal(jit(lambda x: x * 2, donate_argnums=0)(given), VECTOR * 2)
    np.testing.assert_array_equal(jit(lambda x: x * 2)(VECTOR[::-2]), VECTOR[::-2] * 2)


def test_a_rule_of_the_users():
    @custom_jvp
    def sine(x):
        return np.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), tangents[0] * np.cos(primals[0])))
    expected = grad(lambda x: np.sum(np.sin(x)))(VECTOR)
    assert_near(jit(grad(lambda x: np.sum(sine(x))))(VECTOR), expected)
    assert_near(vmap(grad(sine))(VECTOR), expected)


def test_a_nan_is_found(monkeypatch):
    monkeypatch.setattr(config, "check_floats", True)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        jit(lambda x: np.log(x - 4))(drawn(3))
