"""Well-known examples from tutorials on automatic differentiation, with their published numbers."""

import numpy as np
import pytest

from functrans import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    grad,
    jacfwd,
    jacrev,
    jit,
    jvp,
    stop_gradient,
    tree,
    value_and_grad,
    vmap,
)
from functrans.errors import GradientCheckError, TracerBoolError
from functrans.testing import check_grads

WAYS = {"eager": lambda f: f, "compiled": jit, "checkpointed": checkpoint}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request):
    """How the derivative is computed; the number is the same."""
    return request.param


def near(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


# ---- numbers -------------------------------------------------------------------------------------


def test_a_square_of_a_line(way):
    near(way(grad(lambda x: (3.0 * x + 2.0) ** 2))(1.0), 30.0)


def test_a_chain_of_three_steps(way):
    def chain(x):
        tripled = 3.0 * x
        more = tripled + 1.0
        return more**2

    value, slope = way(value_and_grad(chain))(2.0)
    near(value, 49.0)
    near(slope, 42.0)


def test_a_parabola(way):
    near(way(grad(lambda x: x**2 + 5.0 * x))(3.0), 11.0)


def test_nested_elementary_functions(way):
    """A tutorial prints 0.3570 for this; the formula and finite differences say 0.3632."""

    def f(x):
        return np.sin(np.exp(x**2))

    x = 0.5
    slope = way(grad(f))(x)
    near(slope, np.cos(np.exp(x**2)) * np.exp(x**2) * 2 * x)
    near((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, slope, 1e-9)
    assert f"{slope:.4f}" == "0.3632"


def test_first_and_second_derivative_of_a_cube(way):
    near(way(grad(lambda x: x**3))(2.0), 12.0)
    near(way(grad(grad(lambda x: x**3)))(2.0), 12.0)
    near(way(grad(grad(grad(lambda x: x**3))))(2.0), 6.0)


def test_the_mean_of_a_square(way):
    gradient = way(grad(lambda x: np.mean(3.0 * (x + 2.0) ** 2)))(np.ones((2, 2)))
    near(gradient, np.full((2, 2), 4.5))


def test_the_gradient_of_a_sum_of_cubes(way):
    near(way(grad(lambda x: np.sum(x**3)))(np.array([1.0, 2.0, 3.0])), [3.0, 12.0, 27.0])


@pytest.mark.parametrize("jacobian", [jacfwd, jacrev])
def test_a_jacobian(way, jacobian):
    def f(x):
        return np.stack([x[0] ** 2 + x[1], x[0] * x[1]])

    near(way(jacobian(f))(np.array([2.0, 3.0])), [[4.0, 1.0], [3.0, 2.0]])


# ---- a branch on the value -----------------------------------------------------------------------


def branch(x):
    if x > 0:
        return x**2
    return -3.0 * x + 1.0


@pytest.mark.parametrize(("x", "slope"), [(2.0, 4.0), (-1.0, -3.0)])
def test_a_branch_on_the_value_differentiates_the_side_that_is_taken(way, x, slope):
    near(way(grad(branch))(x), slope)
    near(way(jacfwd(branch))(x), slope)
    near(jvp(branch, (x,), (1.0,))[1], slope)


def test_a_compiled_branch_goes_either_way():
    compiled = jit(grad(branch))
    near([compiled(x) for x in (2.0, -1.0, 3.0)], [4.0, -3.0, 6.0])


def test_a_branch_that_is_computed_on_both_sides_goes_both_ways_at_once(way):
    both = way(vmap(grad(lambda x: np.where(x > 0, x**2, -3.0 * x + 1.0))))
    near(both(np.array([2.0, -1.0])), [4.0, -3.0])


def test_where_there_is_no_one_value_a_branch_says_what_to_write():
    with pytest.raises(TracerBoolError, match=r"np\.where\(condition, a, b\)"):
        vmap(grad(branch))(np.array([2.0, -1.0]))


# ---- rules of one's own --------------------------------------------------------------------------


@custom_vjp
def round_through(x):
    """Rounds, and lets the gradient pass as if it had not."""
    return np.round(x)


round_through.defvjp(lambda x: (np.round(x), None), lambda residuals, ct: (ct,))


def test_straight_through_rounding(way):
    x = np.array([0.4, 1.6, -2.3])
    near(round_through(x), [0.0, 2.0, -2.0])
    near(way(grad(lambda x: np.sum(round_through(x) ** 2)))(x), 2.0 * np.round(x))


def test_check_grads_finds_that_the_straight_through_rule_is_no_derivative():
    message = r"argument 0 \('x'\) of round_through is 0\.\d+, but finite differences give 0\.0$"
    with pytest.raises(GradientCheckError, match=message):
        check_grads(round_through, (0.4,), order=1, modes=("rev",))


def test_straight_through_rounding_without_a_rule(way):
    """The same by `stop_gradient`, in both modes."""

    def through(x):
        return x + stop_gradient(np.round(x) - x)

    near(way(through)(1.6), 2.0)
    near(way(grad(through))(1.6), 1.0)
    near(jvp(through, (1.6,), (1.0,)), (2.0, 1.0))


@custom_jvp
def clamp(x):
    """Between -1 and 1; outside, its derivative is 0."""
    return np.minimum(np.maximum(x, -1.0), 1.0)


@clamp.defjvp
def clamp_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return clamp(x), np.where(np.abs(x) < 1.0, dx, 0.0)


def test_clamp(way):
    x = np.array([-2.0, -0.5, 0.5, 3.0])
    near(way(grad(lambda x: np.sum(clamp(x))))(x), [0.0, 1.0, 1.0, 0.0])
    check_grads(clamp, (x,))
    check_grads(lambda x: np.sin(clamp(x)) * x, (x,))


@custom_jvp
def log_sum_exp(x):
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


@log_sum_exp.defjvp
def log_sum_exp_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    result = log_sum_exp(x)
    return result, np.sum(np.exp(x - result) * dx)


def test_a_stable_log_sum_exp(way):
    x = np.array([0.5, -1.0, 2.0])
    near(way(log_sum_exp)(x), np.log(np.sum(np.exp(x))))
    near(way(grad(log_sum_exp))(x), np.exp(x) / np.sum(np.exp(x)))
    near(way(grad(log_sum_exp))(np.array([1000.0, 1000.0])), [0.5, 0.5])
    check_grads(log_sum_exp, (x,), order=3)


@custom_vjp
def masked_softmax(x, mask):
    kept = np.where(mask, x, -np.inf)
    weights = np.exp(kept - np.max(kept))
    return weights / np.sum(weights)


def masked_softmax_forward(x, mask):
    result = masked_softmax(x, mask)
    return result, result


def masked_softmax_backward(result, ct):
    return result * (ct - np.sum(ct * result)), None  # the mask has no gradient


masked_softmax.defvjp(masked_softmax_forward, masked_softmax_backward)


def test_a_masked_softmax(way):
    x = np.array([1.0, 900.0, 2.0, -np.inf])
    mask = np.array([True, False, True, False])
    e = np.exp(1.0)
    near(way(masked_softmax)(x, mask), [1 / (1 + e), 0.0, e / (1 + e), 0.0])

    def first(x):
        return masked_softmax(x, mask)[0]

    slope = e / (1 + e) ** 2
    near(way(grad(first))(x), [slope, 0.0, -slope, 0.0])


def test_a_masked_softmax_passes_check_grads():
    x = np.array([1.0, 0.3, 2.0, -0.5])
    mask = np.array([True, False, True, True])
    check_grads(masked_softmax, (x, mask), modes=("rev",))


# ---- gradients of gradients ----------------------------------------------------------------------


def test_the_gradient_penalty_of_a_linear_critic(way):
    """The gradient of a linear critic is its weights, so that the penalty is (|w| - 1)^2."""

    def penalty(w, x):
        slope = grad(lambda x: np.dot(w, x))(x)
        return (np.linalg.norm(slope) - 1.0) ** 2

    w = np.array([3.0, 4.0])
    near(way(grad(penalty))(w, np.ones(2)), 2.0 * (5.0 - 1.0) * w / 5.0)


def test_the_gradient_penalty_of_wgan_gp(way):
    rng = np.random.default_rng(0)
    params = {"hidden": rng.normal(size=(3, 5)), "out": rng.normal(size=5)}
    real, fake, mix = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.uniform(size=(6, 1))

    def critic(params, x):
        return np.tanh(x @ params["hidden"]) @ params["out"]

    def loss(params, real, fake, mix):
        between = mix * real + (1.0 - mix) * fake
        slopes = vmap(grad(critic, argnums=1), in_axes=(None, 0))(params, between)
        norms = np.sqrt(np.sum(slopes**2, axis=1))
        gain = np.mean(critic(params, fake)) - np.mean(critic(params, real))
        return gain + 10.0 * np.mean((norms - 1.0) ** 2)

    check_grads(lambda params: loss(params, real, fake, mix), (params,), order=1)

    # By hand: the critic's gradient at x is W (v * (1 - tanh(x W)^2)).
    def by_hand(params):
        between = mix * real + (1.0 - mix) * fake
        hidden = np.tanh(between @ params["hidden"])
        slopes = ((1.0 - hidden**2) * params["out"]) @ params["hidden"].T
        norms = np.sqrt(np.sum(slopes**2, axis=1))
        gain = np.mean(critic(params, fake)) - np.mean(critic(params, real))
        return gain + 10.0 * np.mean((norms - 1.0) ** 2)

    expected = grad(by_hand)(params)
    tree.map(near, way(grad(loss))(params, real, fake, mix), expected)


def test_maml_on_a_parabola(way):
    """An inner step on (w - a)^2 / 2 gives w' = w - r (w - a), and dw'/dw = 1 - r counts."""
    a, b, rate = 1.0, 4.0, 0.25

    def meta_loss(w):
        adapted = w - rate * grad(lambda w: 0.5 * (w - a) ** 2)(w)
        return 0.5 * (adapted - b) ** 2

    def first_order(w):
        adapted = w - rate * stop_gradient(grad(lambda w: 0.5 * (w - a) ** 2)(w))
        return 0.5 * (adapted - b) ** 2

    w = 3.0
    adapted = w - rate * (w - a)
    near(way(grad(meta_loss))(w), (adapted - b) * (1.0 - rate))
    near(way(grad(first_order))(w), adapted - b)


def test_maml_over_several_tasks_and_inner_steps(way):
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(2, 4)), "v": rng.normal(size=4)}
    tasks = {"x": rng.normal(size=(3, 5, 2)), "y": rng.normal(size=(3, 5))}

    def loss(params, x, y):
        return np.mean((np.tanh(x @ params["w"]) @ params["v"] - y) ** 2)

    def adapt(params, x, y):
        for _ in range(3):
            gradient = grad(loss)(params, x, y)
            params = tree.map(lambda p, g: p - 0.1 * g, params, gradient)
        return params

    def meta_loss(params, tasks):
        def task_loss(x, y):
            return loss(adapt(params, x[:3], y[:3]), x[3:], y[3:])

        return np.mean(vmap(task_loss)(tasks["x"], tasks["y"]))

    check_grads(lambda params: meta_loss(params, tasks), (params,), order=1, modes=("rev",))
    tree.map(near, way(grad(meta_loss))(params, tasks), grad(meta_loss)(params, tasks))


def test_per_sample_gradients_are_those_of_a_loop(way):
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(4, 3)), rng.normal(size=3)), (rng.normal(size=(3, 2)), np.zeros(2))]
    xs, labels = rng.normal(size=(7, 4)), rng.integers(0, 2, 7)

    def loss(params, x, label):
        for w, b in params[:-1]:
            x = np.maximum(x @ w + b, 0.0)
        w, b = params[-1]
        logits = x @ w + b
        return np.log(np.sum(np.exp(logits))) - logits[label]

    at_once = way(vmap(grad(loss), in_axes=(None, 0, 0)))(params, xs, labels)
    one_by_one = [grad(loss)(params, x, label) for x, label in zip(xs, labels, strict=True)]
    tree.map(near, at_once, tree.map(lambda *rows: np.stack(rows), *one_by_one))
    mean = grad(lambda params: np.mean(vmap(loss, in_axes=(None, 0, 0))(params, xs, labels)))(
        params
    )
    tree.map(lambda each, all: near(np.mean(each, axis=0), all), at_once, mean)
