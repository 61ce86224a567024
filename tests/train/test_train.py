"""functrans.train: accumulation, clipping, mixed precision, optimisers."""

import numpy as np
import pytest

from functrans import config, grad, hessian, jit, train, tree, value_and_grad, vmap
from functrans.errors import AxesError, ShapeError

RNG = np.random.default_rng(0)
W = {"w": RNG.normal(size=(3, 2)), "b": np.zeros(2)}
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 2))


def loss(params, x, y):
    return np.mean((np.tanh(x @ params["w"] + params["b"]) - y) ** 2)


def assert_trees_close(found, expected, **tolerance):
    assert tree.structure(found) == tree.structure(expected)
    for one, other in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


# -- accumulation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3, 12])
@pytest.mark.parametrize("transform", [jit, lambda f: f])
def test_pieces_give_what_the_batch_gives(steps, transform):
    found = transform(train.accumulate(value_and_grad(loss), steps))(W, X, Y)
    assert_trees_close(found, value_and_grad(loss)(W, X, Y), rtol=1e-12)


def test_pieces_are_consecutive_along_any_axis():
    seen = train.accumulate(lambda _, x: x, 2, in_axes=(None, 1), reduce="sum")
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(seen(0.0, x), x[:, :2] + x[:, 2:])
    np.testing.assert_array_equal(jit(seen)(0.0, x), x[:, :2] + x[:, 2:])
    last = train.accumulate(lambda _, x: x, 2, in_axes=(None, -1), reduce="sum")
    np.testing.assert_array_equal(last(0.0, x), x[:, :2] + x[:, 2:])


def test_counts_are_added_up_and_floats_averaged():
    def function(_, x):
        return np.mean(x), np.sum(x > 0), np.any(x > 2), np.float32(1.0) * x[0].astype(np.float32)

    x = np.array([1.0, -1.0, 3.0, 5.0])
    mean, positive, any_large, first = jit(train.accumulate(function, 2))(0.0, x)
    assert (mean, positive, any_large, first) == (2.0, 3, 1, 2.0)
    assert (positive.dtype, first.dtype) == (np.int64, np.float32)
    total = train.accumulate(function, 2, reduce="sum")(0.0, x)
    assert (total[0], total[3]) == (4.0, 4.0)


def test_only_a_piece_is_in_memory(monkeypatch):
    def f(w, x):
        return np.mean(np.tanh(np.tanh(x @ w) @ w))

    w, x = np.ones((64, 64)), np.ones((4096, 64))
    # as if the arrays of all pieces were larger than what is done at once
    monkeypatch.setattr(config, "skip_passes", ("move_out_of_scans",))
    whole = jit(grad(f)).lower(w, x).cost().temporary_bytes
    pieces = jit(train.accumulate(grad(f), 64)).lower(w, x).cost().temporary_bytes
    assert pieces - x.nbytes < (whole - x.nbytes) / 8


def test_it_is_a_function_like_others():
    twice = train.accumulate(lambda w, x: w * np.mean(x**2), 2)
    x = np.arange(4.0)
    assert np.isclose(grad(twice)(3.0, x), np.mean(x**2))
    np.testing.assert_allclose(vmap(twice, in_axes=(0, None))(np.ones(2), x), [3.5, 3.5])
    assert np.isclose(hessian(lambda w: twice(w * w, x))(1.0), 2 * 3.5)
    assert repr(twice).startswith("accumulate(<lambda>, steps=2")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [(lambda: train.accumulate(loss, 5)(W, X, Y), ShapeError,
      r"argument 1 \('x'\) of loss has 12 examples, which 5 steps do not divide; pad the batch"),
     (lambda: train.accumulate(loss, 2)(W, X, 3.0), AxesError,
      r"argument 2 \('y'\) of loss has shape \(\): it has no axis 0 of examples; for an argument"),
     (lambda: train.accumulate(loss, 2, in_axes=(None, 0))(W, X, Y), AxesError,
      "in_axes has 2 entries, but there are 3 arguments"),
     (lambda: train.accumulate(loss, 2, in_axes=(None, None, None))(W, X, Y), AxesError,
      "no axis to cut into pieces"),
     (lambda: train.accumulate(loss, 0), ValueError, "a positive number of steps, not 0"),
     (lambda: train.accumulate(loss, 2, reduce="max"), ValueError, "'mean' or 'sum', not 'max'"),
     (lambda: train.accumulate(3.0, 2), TypeError, r"train\.accumulate")],
)  # fmt: skip
def test_what_accumulate_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- clipping --------------------------------------------------------------------------------------


def test_norms():
    gradients = {"a": np.array([[3.0, 0.0]]), "b": np.array(4.0), "c": np.array([1j * 12.0])}
    assert train.global_norm(gradients) == 13.0
    assert train.global_norm({}) == 0.0
    clipped = train.clip_by_global_norm(gradients, 6.5)
    assert_trees_close(clipped, tree.map(lambda x: x / 2, gradients), rtol=1e-15)
    assert_trees_close(train.clip_by_global_norm(gradients, 14.0), gradients, rtol=0)


def test_dtypes_stay():
    clipped = train.clip_by_global_norm([np.full(3, 5.0, np.float32), np.float16(7.0)], 1.0)
    assert [x.dtype for x in clipped] == [np.float32, np.float16]
    assert np.isclose(train.global_norm(clipped), 1.0, rtol=1e-3)


def test_there_are_slopes_at_zero_and_through_the_norm():
    def clipped(x):
        return np.sum(train.clip_by_global_norm([x], 1.0)[0] * np.array([1.0, 2.0]))

    np.testing.assert_array_equal(grad(clipped)(np.zeros(2)), [1.0, 2.0])
    x = np.array([3.0, 4.0])
    steps = 1e-6 * np.eye(2)
    differences = [(clipped(x + h) - clipped(x - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(grad(clipped)(x), differences, rtol=1e-6)


def test_per_sample():
    gradient = grad(loss)
    found = jit(train.per_sample_clipped(gradient, 0.3))(W, X, Y)
    each = [train.clip_by_global_norm(gradient(W, x, y), 0.3) for x, y in zip(X, Y, strict=True)]
    assert any(np.isclose(train.global_norm(one), 0.3) for one in each)
    expected = tree.map(lambda *xs: sum(xs) / 12, *each)
    assert_trees_close(found, expected, rtol=1e-12)
    total = train.per_sample_clipped(gradient, 0.3, in_axes=(None, 0, 0), reduce="sum")(W, X, Y)
    assert_trees_close(total, tree.map(lambda x: 12 * x, expected), rtol=1e-12)


# -- mixed precision -------------------------------------------------------------------------------


def small(w, x):
    """A loss whose gradients are below what float16 can be."""
    return np.mean(x @ w) * np.asarray(1e-3, x.dtype) * np.asarray(1e-5, x.dtype)


SMALL_W, SMALL_X = np.ones(4, np.float32), np.ones((8, 4), np.float32)


def test_gradients_underflow_without_a_scale_and_not_with_one():
    half = train.cast(small)
    assert not np.any(grad(half)(SMALL_W, SMALL_X))
    state = train.loss_scale(2.0**15)
    for transform in (jit, lambda f: f):
        scaled = transform(train.scaled_value_and_grad(half))
        value, gradient, is_finite, after = scaled(state, SMALL_W, SMALL_X)
        assert is_finite
        np.testing.assert_allclose(gradient, grad(small)(SMALL_W, SMALL_X), rtol=2e-2)
        assert gradient.dtype == np.float32
        assert (after.scale, after.steps) == (2.0**15, 1)
        assert value.dtype == np.float32


def test_an_overflow_skips_the_step_and_halves_the_scale():
    def large(w):
        return np.sum(w * np.asarray(100.0, w.dtype))

    w = np.ones(2, np.float32)
    step = jit(train.scaled_value_and_grad(train.cast(large), interval=3))
    state = train.loss_scale(4096.0)
    _, gradient, is_finite, state = step(state, w)
    assert not is_finite
    np.testing.assert_array_equal(gradient, 0.0)
    updated = train.choose(is_finite, {"w": w - gradient}, {"w": w + 7})
    np.testing.assert_array_equal(updated["w"], w + 7)
    scales = [float(state.scale)]
    while not is_finite:
        _, gradient, is_finite, state = step(state, w)
        scales.append(float(state.scale))
    assert scales == [2048.0, 1024.0, 512.0, 512.0]
    np.testing.assert_array_equal(gradient, 100.0)
    for _ in range(2):
        *_, state = step(state, w)
    assert (state.scale, state.steps) == (1024.0, 0)


def test_what_stays_in_its_dtype():
    seen = {}

    def function(params, x, n):
        seen.update(
            {k: params[k].dtype for k in params}, x=x.dtype, n=type(n), flag=params["mask"].dtype
        )
        return params["w"] * x, n

    params = {"w": np.float32(1.0), "norm": np.float32(1.0), "mask": np.bool_(True)}
    result, n = train.cast(function, keep=["norm"])(params, np.float64(2.0), 3)
    assert (seen["w"], seen["norm"], seen["x"], seen["mask"]) == (
        np.float16, np.float32, np.float16, np.bool_,
    )  # fmt: skip
    assert (result.dtype, n, seen["n"]) == (np.float32, 3, int)
    train.cast(function, keep=lambda path: path.endswith("['w']"), result=None)(params, 1.0, 3)
    assert (seen["w"], seen["norm"]) == (np.float32, np.float16)


def test_sums_are_in_float32():
    ones = np.ones(5000, np.float32)
    assert jit(train.cast(np.sum))(ones) == 5000.0  # one after the other, float16 stays at 2048
    assert jit(train.cast(lambda x: x @ x))(ones) == 5000.0


def test_with_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    found = grad(train.cast(loss, compute=ml_dtypes.bfloat16))(
        tree.map(np.float32, W), X.astype(np.float32), Y.astype(np.float32)
    )
    assert all(x.dtype == np.float32 for x in tree.leaves(found))
    assert_trees_close(found, grad(loss)(W, X, Y), atol=2e-2)


def test_auxiliary_data_of_a_scaled_loss():
    def function(w):
        return np.sum(w * w), {"norm": np.sum(np.abs(w))}

    (value, aux), gradient, _, _ = train.scaled_value_and_grad(function, has_aux=True)(
        train.loss_scale(), np.ones(3)
    )
    assert (value, aux["norm"]) == (3.0, 3.0)
    np.testing.assert_array_equal(gradient, 2.0)


# -- optimisers ------------------------------------------------------------------------------------


def test_adam_is_what_its_paper_says():
    rate, b1, b2, eps, decay = 0.01, 0.9, 0.99, 1e-6, 0.1
    optimiser = train.adam(rate, b1, b2, eps, decay)
    gradients = RNG.normal(size=(20, 5))
    params, state = np.ones(5), optimiser.init(np.ones(5))
    expected, m, v = np.ones(5), np.zeros(5), np.zeros(5)
    step = jit(optimiser.update)
    for t, g in enumerate(gradients, 1):
        updates, state = step(g, state, params)
        params = train.apply_updates(params, updates)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        shrunk = expected * (1 - rate * decay)
        expected = shrunk - rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    np.testing.assert_allclose(params, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="needs params"):
        optimiser.update(gradients[0], state)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd(momentum, nesterov):
    optimiser = train.sgd(0.1, momentum, nesterov)
    params = {"a": np.float32(1.0)}
    state = optimiser.init(params)
    x, m = 1.0, 0.0
    for g in (1.0, -2.0, 0.5):
        updates, state = optimiser.update({"a": np.float32(g)}, state)
        params = train.apply_updates(params, updates)
        m = momentum * m + g
        x -= 0.1 * (momentum * m + g if nesterov else m)
    assert params["a"].dtype == np.float32
    assert np.isclose(params["a"], x)


def test_a_training_loop_with_all_of_it():
    rng = np.random.default_rng(1)
    true = rng.normal(size=(3, 2)).astype(np.float32)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    y = x @ true
    optimiser = train.adam(0.05)
    fitted = train.cast(lambda w, x, y: np.mean((x @ w - y) ** 2))

    @jit
    def step(w, state, scale, x, y):
        _, gradient, is_finite, scale = train.scaled_value_and_grad(fitted)(scale, w, x, y)
        gradient = train.clip_by_global_norm(gradient, 1.0)
        updates, after = optimiser.update(gradient, state)
        new = train.apply_updates(w, updates)
        return train.choose(is_finite, new, w), train.choose(is_finite, after, state), scale

    w, scale = np.zeros((3, 2), np.float32), train.loss_scale()
    state = optimiser.init(w)
    for _ in range(300):
        w, state, scale = step(w, state, scale, x, y)
    np.testing.assert_allclose(w, true, atol=5e-3)
