"""Gathers and scatters at constant positions become slices and selections; equal bits."""

import numpy as np
import pytest

from functrans import grad, jacfwd, jit, jvp, lax, vmap
from functrans.ops.indexing.at import at

EXTENTS = (0, 1, 2, 17, 300, 2600)
ORDER = np.array([3, 1, 0, 2])
REPEATED = np.array([[3, 3], [0, -1]])
ROWS, COLUMNS = np.triu_indices(4)


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def names(function, *args):
    """The primitives of the optimised graph, and of all that is inside of it."""
    return str(jit(function).lower(*args).graph())


GATHERS = {
    "permutation": lambda x: x[:, ORDER],
    "from the end": lambda x: x[:, -1 - ORDER],
    "repeated": lambda x: x[:, REPEATED],
    "first": lambda x: x.T[ORDER],
    "equally spaced": lambda x: x[:, np.array([3, 2, 1, 0])],
    "none": lambda x: x[:, np.zeros(0, int)],
    "two axes": lambda x: (x[:, :, None] * x[:, None, :])[:, ROWS, COLUMNS],
    "axes apart": lambda x: (x[:, None, :] * x[:, :, None]).transpose(1, 0, 2)[ROWS, :, COLUMNS],
    "in a program": lambda x: x[:, np.arange(4) // 2 + 1],
    "cross": lambda x: np.cross(x[:, :3], x[:, 1:]),
}
WRITES = {
    "permutation": lambda x: at(np.zeros(x.shape))[:, ORDER].set(x),
    "some": lambda x: at(x)[:, ORDER[:2]].set(2 * x[:, :2]),
    "repeated": lambda x: at(x)[:, [1, 1, 2]].set(x[:, :3]),
    "added": lambda x: at(x)[:, ORDER].add(x),
    "added twice": lambda x: at(x)[:, [1, 1, 2, 1]].add(x),
    "multiplied": lambda x: at(x)[:, ORDER[1:]].multiply(x[:, 1:]),
    "triangle": lambda x: at(np.zeros((len(x), 4, 4)))[:, ROWS, COLUMNS].set(
        np.concatenate([x, x + 1, x[:, :2]], axis=1)
    ),
}
FORMS = [*GATHERS.values(), *WRITES.values()]
NAMES = [*GATHERS, *(f"{name} written" for name in WRITES)]


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_no_index_is_read_and_nothing_is_scattered(form):
    for function in (form, grad(lambda x: np.sum(np.sin(form(x))))):
        graph = names(function, drawn(5, 4))
        assert "gather" not in graph
        assert "scatter" not in graph


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_results_are_numpys_to_the_bit(form, extent):
    x = drawn(extent, 4)
    np.testing.assert_array_equal(jit(form)(x), form(x))
    negative_zeros = np.full((extent, 4), -0.0)
    result, wanted = jit(form)(negative_zeros), form(negative_zeros)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(wanted))


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_derivatives(form, extent):
    x, v = drawn(extent, 4), np.cos(drawn(extent, 4))
    loss = lambda x: np.sum(np.sin(form(x)))  # noqa: E731
    np.testing.assert_allclose(jit(grad(loss))(x), grad(loss)(x), rtol=1e-13, atol=1e-13)
    along = lambda x: jvp(form, (x,), (v,))[1]  # noqa: E731
    np.testing.assert_allclose(jit(along)(x), along(x), rtol=1e-13, atol=1e-13)


def test_integers_and_counters_in_a_program_are_followed():
    x = drawn(6, 8)
    function = lambda x: x[:, 2 * np.arange(4)]  # noqa: E731
    assert "slice" in names(function, x)
    np.testing.assert_array_equal(jit(function)(x), x[:, ::2])


def test_constants_reach_the_bodies_of_loops_and_branches():
    def stepped(h, xs):
        return lax.scan(lambda c, x: (np.cross(c, x) + x[ORDER[1:]], None), h, xs)[0]

    def until(h, x):
        return lax.while_loop(lambda c: np.sum(c[[0, 2]]) < 3, lambda c: c[[2, 0, 1]] + x, h)

    def chosen(h, x):
        return lax.cond(np.sum(x) > 0, lambda h: h[[2, 0, 1]], lambda h: h[[1, 0, 2]], h)

    for function, args in (
        (stepped, (drawn(3), drawn(7, 3))),
        (until, (drawn(3), np.ones(3))),
        (chosen, (drawn(3), np.ones(3))),
    ):
        assert "gather" not in names(function, *args)
        np.testing.assert_allclose(jit(function)(*args), function(*args), rtol=1e-14)


def test_large_index_arrays_and_large_targets_stay_as_they_are():
    x, many = drawn(2000), np.random.default_rng(0).permutation(2000)
    assert "gather" in names(lambda x: x[many], x)
    assert "scatter_set" in names(lambda x: at(x)[ORDER].set(x[:4] + 1), x)
    assert "pick" in names(lambda x: x[ORDER], x)


def test_an_index_array_that_changes_is_read_anew():
    index = np.array([0, 1, 2])
    function = jit(lambda x: x[index] * 2.0)
    x = drawn(5)
    for entries in ([0, 1, 2], [4, 4, 0], [1, 3, 2], [0, 1, 2]):
        index[:] = entries
        np.testing.assert_array_equal(function(x), x[index] * 2.0)


def test_jacobian_blocks_are_one_kernel():
    """Of cross products, choices and concatenations: no gather, and nothing between in memory."""

    def residual(camera, point):
        turned = np.where(np.sum(camera) > 0, np.cross(camera[:3], point), point)
        moved = turned + camera[3:6]
        return camera[6] * moved[:2] / moved[2]

    def blocks(camera, point):
        whole = jacfwd(lambda z: residual(z[:9], z[9:]))(np.concatenate([camera, point]))
        return whole[:, :9], whole[:, 9:]

    args = drawn(300, 9), drawn(300, 3) + 4.0
    lowered = jit(vmap(blocks)).lower(*args)
    assert lowered.schedule().count("nest ") == 1
    for one, other in zip(jit(vmap(blocks))(*args), vmap(blocks)(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
