"""Named axes: collectives against NumPy on whole arrays, derivatives against finite differences."""

import numpy as np
import pytest

from functrans import (
    checkpoint,
    derivatives,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jit,
    jvp,
    laplacian,
    lax,
    train,
    tree,
    vjp,
    vmap,
)
from functrans import numpy as fnp
from functrans.errors import AxesError, ShapeError

RNG = np.random.default_rng(5)
N = 4
SHIFT = [(i, (i + 1) % N) for i in range(N)]
SOME = [(0, 2), (3, 1)]


def everywhere(x):
    return np.broadcast_to(x, (N, *x.shape))


def received(x, moves):
    out = np.zeros_like(x)
    for sender, receiver in moves:
        out[receiver] = x[sender]
    return out


# a collective of a lane's (4, 3), and the same of all lanes' (4, 4, 3), by NumPy
COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), lambda x: everywhere(x.sum(0))),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda x: everywhere(x.mean(0))),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda x: everywhere(x.max(0))),
    "pmin": (lambda x: lax.pmin(x, "i"), lambda x: everywhere(x.min(0))),
    "all_gather": (lambda x: lax.all_gather(x, "i"), everywhere),
    "all_gather behind": (
        lambda x: lax.all_gather(x, "i", axis=-1), lambda x: everywhere(np.moveaxis(x, 0, -1))
    ),
    "all_gather tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        lambda x: everywhere(np.concatenate(list(x), axis=1)),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), lambda x: x.sum(0)),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x.T, "i", scatter_dimension=1, tiled=True),
        lambda x: np.swapaxes(x.sum(0)[:, None], 1, 2),
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), lambda x: np.swapaxes(x, 0, 1)),
    "all_to_all moved": (
        lambda x: lax.all_to_all(x, "i", 0, 1), lambda x: np.moveaxis(np.swapaxes(x, 0, 1), 1, 2)
    ),
    "all_to_all tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
        lambda x: np.stack([np.concatenate([x[j, i : i + 1] for j in range(N)], 1)
                            for i in range(N)]),
    ),
    "ppermute": (lambda x: lax.ppermute(x, "i", SHIFT), lambda x: received(x, SHIFT)),
    "ppermute some": (lambda x: lax.ppermute(x, "i", SOME), lambda x: received(x, SOME)),
    "pvary": (lambda x: lax.pvary(x, "i"), lambda x: x),
    "axis_index": (
        lambda x: x * lax.axis_index("i"), lambda x: x * np.arange(N).reshape(N, 1, 1)
    ),
}  # fmt: skip


each = pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES.keys())


@each
@pytest.mark.parametrize("where", [0, 1, 2])
def test_values(collective, where):
    ours, numpys = collective
    x = RNG.normal(size=(N, 4, 3))
    mapped = vmap(ours, in_axes=where, axis_name="i")
    given = np.moveaxis(x, 0, where)
    np.testing.assert_allclose(mapped(given), numpys(x), rtol=1e-13)
    np.testing.assert_allclose(jit(mapped)(given), numpys(x), rtol=1e-13)


@each
def test_values_that_all_lanes_share(collective):
    ours, numpys = collective
    x = RNG.normal(size=(4, 3))
    mapped = vmap(ours, in_axes=None, axis_name="i", axis_size=N)
    np.testing.assert_allclose(mapped(x), numpys(np.array(everywhere(x))), rtol=1e-13)


@each
def test_other_lanes_go_along(collective):
    ours, numpys = collective
    x = RNG.normal(size=(2, N, 4, 3))
    expected = np.stack([numpys(each) for each in x])
    inner = vmap(vmap(ours, axis_name="i"))
    outer = vmap(vmap(ours), in_axes=1, out_axes=1, axis_name="i")
    np.testing.assert_allclose(inner(x), expected, rtol=1e-13)
    np.testing.assert_allclose(outer(x), expected, rtol=1e-13)


def differences(f, x, step=1e-6):
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[place] = step
        out[place] = (f(x + d) - f(x - d)) / (2 * step)
    return out


def loss_of(ours):
    """A loss that is summed over the lanes: of a weight that they share, and of their examples."""

    def loss(w, x):
        y = fnp.sin(ours(w * x * x))
        return lax.psum((y * (1.0 + lax.axis_index("i"))).sum(), "i")

    return loss


FORMS = {
    "as it stands": lambda f: f,
    "checkpoint": lambda f: checkpoint(f),
    "jit": lambda f: jit(f),
    "cond": lambda f: lambda w, x: lax.cond(w[0, 0] > -9, f, lambda w, x: w.sum(), w, x),
    "scan": lambda f: (
        lambda w, x: lax.scan(lambda c, u: (c + u * f(w, x), None), 0.0, np.array([0.25, 0.75]))[0]
    ),
    "while_loop": lambda f: (
        lambda w, x: lax.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + 0.5 * f(w, x)), (0, 0.0)
        )[1]
    ),
}


@pytest.mark.dear
@each
@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("form", FORMS)
def test_derivatives(collective, form, around):
    loss = FORMS[form](loss_of(collective[0]))
    w, x = RNG.normal(size=(4, 3)), RNG.normal(size=(N, 4, 3))

    def total(w, x):
        return vmap(loss, in_axes=(None, 0), out_axes=None, axis_name="i")(w, x)

    mapped = vmap(grad(loss, argnums=(0, 1)), in_axes=(None, 0), out_axes=(None, 0), axis_name="i")
    by_w, by_x = around(mapped)(w, x)
    np.testing.assert_allclose(by_w, differences(lambda w: total(w, x), w), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(by_x, differences(lambda x: total(w, x), x), rtol=1e-6, atol=1e-7)
    outside = grad(total, argnums=(0, 1))(w, x)
    np.testing.assert_allclose(outside[0], by_w, rtol=1e-12)
    np.testing.assert_allclose(outside[1], by_x, rtol=1e-12)


@each
def test_second_derivatives(collective):
    loss = loss_of(collective[0])
    w, x = RNG.normal(size=(4, 3)), RNG.normal(size=(N, 4, 3))
    axes = {"in_axes": (None, 0), "out_axes": None, "axis_name": "i"}

    def slope(w):
        return (vmap(grad(loss), **axes)(w, x) * v).sum()

    v = RNG.normal(size=(4, 3))
    expected = differences(slope, w)

    def pulled(w, x):
        return grad(lambda w: (grad(loss)(w, x) * v).sum())(w)

    def pushed(w, x):
        return jvp(lambda w: grad(loss)(w, x), (w,), (v,))[1]

    np.testing.assert_allclose(vmap(pulled, **axes)(w, x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(vmap(pushed, **axes)(w, x), expected, rtol=1e-5, atol=1e-6)
    whole = vmap(hessian(loss), **axes)(w, x)
    np.testing.assert_allclose(np.tensordot(whole, v, 2), expected, rtol=1e-5, atol=1e-6)


def test_two_axes():
    x = RNG.normal(size=(2, 3, 5))

    def f(w, x):
        return lax.psum((w * x).sum() ** 2 * (1 + lax.axis_index("a")), ("a", "b"))

    inner = vmap(grad(f), in_axes=(None, 0), out_axes=None, axis_name="b")
    w = RNG.normal(size=5)
    found = vmap(inner, in_axes=(None, 0), out_axes=None, axis_name="a")(w, x)
    weights = np.array([1.0, 2.0])[:, None, None]
    expected = (2 * weights * (x @ w)[..., None] * x).sum((0, 1))
    np.testing.assert_allclose(found, expected)


def test_training_in_a_scan():
    """The weights are a carry that stays the same in all lanes."""
    x, y = RNG.normal(size=(N, 6, 3)), RNG.normal(size=(N, 6))

    def train(w, x, y):
        def step(w, _):
            g = grad(lambda w: lax.pmean(((x @ w - y) ** 2).mean(), "i"))(w)
            return w - 0.1 * g, None

        return lax.scan(step, w, None, length=5)[0]

    w = np.zeros(3)
    found = vmap(train, in_axes=(None, 0, 0), out_axes=None, axis_name="i")(w, x, y)
    rows, targets = x.reshape(-1, 3), y.reshape(-1)
    for _ in range(5):
        w = w - 0.1 * 2 * rows.T @ (rows @ w - targets) / len(rows)
    np.testing.assert_allclose(found, w, rtol=1e-12)


def test_collectives_in_the_condition_of_a_loop_and_in_one_branch():
    def f(w, x):
        def goes_on(c):
            return lax.pmax(abs(c), "i") > 1.0

        y = lax.while_loop(goes_on, lambda c: c * (0.5 * w), x)
        y = lax.cond(w > 0, lambda y: y * w, lambda y: lax.pmean(y, "i"), y)
        return lax.psum(y * y, "i")

    w, x = 1.1, RNG.normal(size=N) * 8

    def total(w):
        return vmap(f, in_axes=(None, 0), out_axes=None, axis_name="i")(float(w[0]), x)

    found = vmap(grad(f), in_axes=(None, 0), out_axes=None, axis_name="i")(w, x)
    np.testing.assert_allclose(found, differences(total, np.array([w]))[0], rtol=1e-6)


def test_pieces_of_a_batch_in_each_lane():
    """Shapes are looked for by a trace of their own, in which derivatives are taken as well."""
    x = RNG.normal(size=(N, 6, 3))

    def f(w, x):
        pieces = train.accumulate(grad(lambda w, x: lax.psum(np.sin(x @ w).sum(), "i")), 2)
        return pieces(w, x)

    w = RNG.normal(size=3)
    found = vmap(f, in_axes=(None, 0), out_axes=None, axis_name="i")(w, x)
    expected = np.einsum("nij,ni->j", x, np.cos(x @ w)) / 2
    np.testing.assert_allclose(found, expected)


def test_a_carry_that_comes_to_vary():
    def f(w, x):
        def step(c, _):
            return c * 0.5 + (w * x).sum(), grad(lambda c: lax.psum(c * c * x.sum(), "i"))(c)

        (last, slopes) = lax.scan(step, 1.0, None, length=3)
        return lax.psum(last, "i") + lax.psum(slopes.sum(), "i")

    w, x = RNG.normal(size=3), RNG.normal(size=(N, 3))

    def total(w):
        return vmap(f, in_axes=(None, 0), out_axes=None, axis_name="i")(w, x)

    found = vmap(grad(f), in_axes=(None, 0), out_axes=None, axis_name="i")(w, x)
    np.testing.assert_allclose(found, differences(total, w), rtol=1e-6)


@each
def test_a_pullback_is_the_adjoint_over_all_lanes(collective):
    """``sum_i <c_i, J_i t> = <pulled c, t>``, for an argument that all lanes share."""
    ours = collective[0]
    w, x, t = RNG.normal(size=(4, 3)), RNG.normal(size=(N, 4, 3)), RNG.normal(size=(4, 3))

    def both(w, x):
        def f(w):
            return lax.pvary(ours(w * x), "i")

        out, moved = jvp(f, (w,), (t,))
        c = fnp.cos(fnp.arange(out.size).reshape(out.shape) + lax.axis_index("i"))
        (pulled,) = vjp(f, w)[1](c)
        return lax.psum((c * moved).sum(), "i"), (pulled * t).sum()

    a, b = vmap(both, in_axes=(None, 0), out_axes=None, axis_name="i")(w, x)
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_lanes_that_tie_share_the_derivative_of_an_extreme():
    slopes = vmap(grad(lambda x: lax.pmax(x, "i")), axis_name="i")(np.array([2.0, 5.0, 5.0]))
    np.testing.assert_array_equal(slopes, [0.0, 0.5, 0.5])


@pytest.mark.parametrize("transform", [grad, jacrev, hessian])
def test_a_loss_that_varies_has_no_one_derivative(transform):
    def f(w, x):
        return transform(lambda w: (w * x) ** 2)(w)

    with pytest.raises(AxesError) as caught:
        vmap(f, in_axes=(None, 0), axis_name="i")(1.0, np.ones(3))
    words = str(caught.value)
    assert "differentiates a result that varies along the axis 'i' with respect to" in words
    assert "lax.psum(loss, 'i')" in words
    assert "lax.pvary(x, 'i')" in words
    # which each lane has for itself
    own = vmap(lambda w, x: jacfwd(lambda w: (w * x) ** 2)(w), in_axes=(None, 0), axis_name="i")
    np.testing.assert_array_equal(own(1.0, np.array([1.0, 2.0])), [2.0, 8.0])


def test_forward_transforms_ask_nothing():
    def f(w, x):
        g = lambda w: np.sin(w * x)  # noqa: E731
        return derivatives(g, 2)(w)[2], laplacian(g)(w), jvp(g, (w,), (1.0,))[1]

    x = np.array([1.0, 2.0])
    second, total, first = vmap(f, in_axes=(None, 0), axis_name="i")(0.3, x)
    np.testing.assert_allclose(second, -np.sin(0.3 * x) * x**2)
    np.testing.assert_allclose(total, second)
    np.testing.assert_allclose(first, np.cos(0.3 * x) * x)


def test_a_jitted_function_is_not_kept_for_another_size():
    @jit
    def mean(x):
        return lax.psum(x, "i") / lax.axis_size("i")

    for n in (2, 5, 2):
        x = RNG.normal(size=n)
        np.testing.assert_allclose(vmap(mean, axis_name="i")(x), np.full(n, x.mean()))


NO_AXIS = (
    "psum goes along the named axis 'i', and the function does not run along one (those around "
    "it: {}): call it under vmap(..., axis_name='i')"
)


def test_an_axis_that_is_not_there():
    with pytest.raises(AxesError) as caught:
        lax.psum(np.ones(3), "i")
    assert str(caught.value) == NO_AXIS.format("none")
    with pytest.raises(AxesError) as caught:
        vmap(lambda x: lax.psum(x, "i"), axis_name="batch")(np.ones(3))
    assert str(caught.value).startswith(NO_AXIS.format("'batch'"))


def test_a_name_twice():
    with pytest.raises(AxesError, match="there is an axis of this name around it already"):
        vmap(vmap(lambda x: x, axis_name="i"), axis_name="i")(np.ones((2, 3)))


def test_a_name_that_is_none():
    with pytest.raises(AxesError, match="axis_name of vmap must be a string, not 3"):
        vmap(lambda x: x, axis_name=3)(np.ones(2))


def test_chunks_do_not_know_each_other():
    with pytest.raises(ValueError, match="leave axis_name or chunk_size out"):
        vmap(lambda x: x, axis_name="i", chunk_size=2)


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: lax.cond(x > 0, lambda x: lax.psum(x, "i"), lambda x: x, x),
        lambda x: lax.while_loop(lambda x: x < 9, lambda x: x + lax.psum(x, "i"), x),
    ],
)
def test_lanes_that_go_different_ways(loop):
    with pytest.raises(AxesError, match="psum along 'i' was met by one lane alone"):
        vmap(loop, axis_name="i")(np.array([1.0, -1.0, 2.0]))


@pytest.mark.parametrize(
    "loop",
    [
        lambda f, x: lax.cond(x[0] > 0, f, np.sin, x),
        lambda f, x: lax.while_loop(
            lambda s: s[0] < 1.5, lambda s: (s[0] + 0.7, f(s[1])), (x[0], x)
        )[1],
        lambda f, x: lax.fori_loop(0, np.floor(x[0]).astype(int) + 2, lambda i, x: f(x), x),
    ],
    ids=["cond", "while_loop", "fori_loop"],
)
@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_derivative_where_lanes_go_different_ways(loop, around):
    x, w = np.linspace(-1, 1, 6).reshape(3, 2), np.array([0.5, 1.5])

    def f(w, x):  # the tangent of the weights, which are the same in all lanes, is each lane's own
        return loop(lambda x: jvp(lambda x: np.sin(x * x * w), (x,), (np.ones(2),))[1], x)

    def loss(w, x):
        return np.sum(f(w, x) ** 2)

    def own(w, x):
        return grad(loss, argnums=(0, 1))(lax.pvary(w, "i"), x)

    for one, named in ((f, f), (grad(loss, argnums=(0, 1)), own)):
        expected = vmap(one, in_axes=(None, 0))(w, x)
        found = around(vmap(named, in_axes=(None, 0), axis_name="i"))(w, x)
        for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: lax.psum_scatter(x, "i"), "must have one place for each of the 3 lanes"),
        (lambda x: lax.psum_scatter(x, "i", tiled=True), "does not fall into equal parts"),
        (lambda x: lax.all_to_all(x, "i", 0, 0), "must have one place for each of the 3 lanes"),
    ],
)
def test_parts_that_do_not_fit(f, words):
    with pytest.raises(ShapeError, match=words):
        vmap(f, axis_name="i")(np.ones((3, 4)))


@pytest.mark.parametrize(
    ("perm", "words"),
    [
        ([(0, 3)], "has lane 3 as a receiver: none of 0 to 2"),
        ([(0, 1), (0, 2)], "has lane 0 as a sender: twice"),
    ],
)
def test_moves_that_do_not_fit(perm, words):
    with pytest.raises(AxesError, match=words):
        vmap(lambda x: lax.ppermute(x, "i", perm), axis_name="i")(np.ones(3))


def test_an_axis_that_is_out_of_range():
    with pytest.raises(AxesError, match="all_gather: axis 3 of an array of shape"):
        vmap(lambda x: lax.all_gather(x, "i", axis=3), axis_name="i")(np.ones((3, 2)))


def test_no_lanes_and_one():
    assert vmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.zeros(0)).shape == (0,)
    one = vmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.array([3.0]))
    np.testing.assert_array_equal(one, [3.0])


def test_a_derivative_where_it_is_not_known_what_varies():
    def f(w, x):
        def solve(residual, start):
            return start - residual(start) / grad(residual)(start)

        return lax.custom_root(lambda z: w * z - x, w, solve, lambda linear, y: y / linear(1.0))

    with pytest.raises(AxesError, match="it is not known whether its arguments vary"):
        vmap(f, in_axes=(None, 0), axis_name="i")(2.0, np.ones(3))
