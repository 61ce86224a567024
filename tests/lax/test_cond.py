"""cond and switch against Python's if: values, derivatives, batched predicates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, hessian, jacfwd, jacrev, jit, lax, vmap
from functrans.lax import select
from tests.amount import examples
from tests.lax.bodies import WIDTH, arrays, close, programs

BRANCHES = 3
seeds = st.integers(0, 1000)
several = st.lists(programs(results=2), min_size=2, max_size=BRANCHES)


def chosen(branches):
    def f(i, a, x):
        u, v = branches[int(np.clip(i, 0, len(branches) - 1))](a, x)
        return np.sum(u * v) + np.sum(v)

    return f


def switched(branches):
    def f(i, a, x):
        # one branch closes over a value, another is given it
        functions = [lambda x, p=p: tuple(p(a, x)) for p in branches]
        u, v = lax.switch(i, functions, x)
        return np.sum(u * v) + np.sum(v)

    return f


@pytest.mark.dear
@settings(max_examples=examples(15), deadline=None)
@given(several, st.integers(-1, BRANCHES), seeds)
def test_value_and_derivatives(branches, i, seed):
    expected, found = chosen(branches), switched(branches)
    args = (i, *arrays(seed, WIDTH, WIDTH))
    close(found(*args), expected(*args))
    close(grad(found, (1, 2))(*args), grad(expected, (1, 2))(*args))
    close(jacfwd(found, (1, 2))(*args), grad(expected, (1, 2))(*args))
    second = hessian(expected, (1, 2))(*args)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            close(outer(inner(found, (1, 2)), (1, 2))(*args), second)


@settings(max_examples=examples(10), deadline=None)
@given(several, seeds, st.tuples(*[st.sampled_from([0, None])] * 3).filter(lambda t: 0 in t))
def test_lanes(branches, seed, axes):
    lanes = 4
    a, x = arrays(seed, *((WIDTH,) if axis is None else (lanes, WIDTH) for axis in axes[1:]))
    args = (1 if axes[0] is None else np.array([0, 2, 1, 0]), a, x)

    def lane(i):
        return [x if axis is None else x[i] for x, axis in zip(args, axes, strict=True)]

    expected, found = chosen(branches), switched(branches)
    close(vmap(found, in_axes=axes)(*args), np.stack([expected(*lane(i)) for i in range(lanes)]))
    gradients = [grad(expected, (1, 2))(*lane(i)) for i in range(lanes)]
    stacked = [np.stack(parts) for parts in zip(*gradients, strict=True)]
    close(vmap(grad(found, (1, 2)), in_axes=axes)(*args), stacked)


@pytest.mark.dear
@settings(max_examples=examples(6), deadline=None)
@given(several, seeds)
def test_compiled(branches, seed):
    expected, found = chosen(branches), switched(branches)
    compiled, gradient = jit(found), jit(grad(found, (1, 2)))
    for i in range(len(branches)):
        args = (i, *arrays(seed + i, WIDTH, WIDTH))
        close(compiled(*args), expected(*args))
        close(gradient(*args), grad(expected, (1, 2))(*args))


# -- by hand ---------------------------------------------------------------------------------------


def test_an_untaken_branch_is_not_run():
    def f(x):
        return lax.cond(x > 0.0, lambda x: np.log(x), lambda x: x / 2, x)

    xs = np.array([-1.0, 0.0, 2.0])
    with np.errstate(all="raise"):
        close(vmap(f)(xs), np.array([-0.5, 0.0, np.log(2.0)]))
        close(vmap(grad(f))(xs), np.array([0.5, 0.5, 0.5]))
        close(jit(vmap(grad(f)))(xs), np.array([0.5, 0.5, 0.5]))


def test_loops_of_unknown_length_in_branches():
    def f(x, y):
        def grow(v):
            return lax.while_loop(lambda u: u < 5.0, lambda u: u * y + 0.3, v)

        def shrink(v):
            return lax.while_loop(lambda u: u > 0.1, lambda u: np.sin(u) * y / 2, v) * v

        return lax.cond(x < 1.0, grow, shrink, x)

    def g(x, y):
        if x < 1.0:
            while x < 5.0:
                x = x * y + 0.3
            return x
        v = x
        while v > 0.1:
            v = np.sin(v) * y / 2
        return v * x

    for x in (0.5, 2.0):
        close(f(x, 1.2), g(x, 1.2))
        close(grad(f, (0, 1))(x, 1.2), grad(g, (0, 1))(x, 1.2))
        close(hessian(f, (0, 1))(x, 1.2), hessian(g, (0, 1))(x, 1.2))
        close(jacrev(jacrev(f))(x, 1.2), hessian(g)(x, 1.2))
    xs = np.array([0.5, 2.0, 0.1])
    gradients = [grad(g, (0, 1))(x, 1.2) for x in xs]
    stacked = tuple(np.stack(part) for part in zip(*gradients, strict=True))
    close(vmap(grad(f, (0, 1)), in_axes=(0, None))(xs, 1.2), stacked)
    # one predicate for all lanes, whose loops run in lock-step where their conditions agree
    ys = np.array([1.2, 1.3])
    gradients = [grad(g, (0, 1))(0.5, y) for y in ys]
    stacked = tuple(np.stack(part) for part in zip(*gradients, strict=True))
    close(vmap(grad(f, (0, 1)), in_axes=(None, 0))(0.5, ys), stacked)


def test_python_numbers_take_the_dtype_of_the_other_branch():
    x = np.float32(2.0)
    assert lax.cond(True, lambda: 0, lambda: x).dtype == np.float32
    assert lax.switch(1, [lambda: 0, lambda: 1.5]) == 1.5


def test_branches_that_return_nothing_that_moves():
    close(grad(lambda x: lax.cond(x > 0, lambda: 1.0, lambda: 2.0) * x)(3.0), 1.0)
    assert lax.cond(False, lambda: None, lambda: None) is None


def test_branches_by_pytrees():
    def f(p, tree):
        return lax.cond(
            p, lambda t: {"s": t["a"] + 1, "n": 1}, lambda t: {"s": t["b"], "n": 2}, tree
        )

    value = {"a": np.ones(2), "b": np.zeros(2)}
    close(list(f(True, value).values()), [1, np.full(2, 2.0)][::-1])
    assert f(np.False_, value)["n"] == 2


def test_select_by_leaves():
    mask = np.array([True, False])
    chosen = select(mask, {"x": np.ones(2), "y": (2.0,)}, {"x": np.zeros(2), "y": (3.0,)})
    close([chosen["x"], chosen["y"][0]], [np.array([1.0, 0.0]), np.array([2.0, 3.0])])
    close(grad(lambda x: np.sum(select(mask, x, x * x)))(np.full(2, 3.0)), np.array([1.0, 6.0]))
