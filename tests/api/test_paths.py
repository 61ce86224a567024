"""Python's if and while on traced values under jit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import checkpoint, grad, hessian, jacfwd, jit, jvp, lax, value_and_grad, vmap
from functrans.errors import PathLimitError, TracerBoolError
from tests.amount import examples
from tests.lax.bodies import close


def branching(x):
    if x > 1.0 and x < 5.0:
        return np.sin(x * x)
    return x**3 if x < 0 else x * x


POINTS = (2.0, 0.3, 7.0, -1.5, 3.0, -2.0, 0.4)


@pytest.mark.parametrize(
    "transform",
    [lambda f: f, grad, value_and_grad, jacfwd, hessian, lambda f: grad(checkpoint(f))],
    ids=["itself", "grad", "value_and_grad", "jacfwd", "hessian", "grad of checkpoint"],
)
def test_each_call_goes_its_own_way(transform):
    compiled = jit(transform(branching))
    for x in (*POINTS, *POINTS):
        close(compiled(x), transform(branching)(x))
    assert compiled.paths().programs == 4


@pytest.mark.full
def test_transforms_outside_of_jit():
    compiled = jit(branching)
    for x in POINTS:
        close(grad(compiled)(x), grad(branching)(x))
        close(grad(grad(compiled))(x), grad(grad(branching))(x))
        close(jvp(compiled, (x,), (1.0,)), jvp(branching, (x,), (1.0,)))
        # called from another compiled function, which then has the paths
        outer = jit(lambda x: compiled(x) + compiled(x + 1))
        close(outer(x), branching(x) + branching(x + 1))


def heron(a, tolerance):
    x, steps = a, 0
    while abs(x * x - a) > tolerance:
        x, steps = (x + a / x) / 2, steps + 1
    return x, steps


def test_a_loop_whose_length_depends_on_the_data():
    compiled = jit(heron)
    for tolerance in (1e-2, 1e-10, 1e-4, 1e-2, 10.0):
        close(compiled(2.0, tolerance), heron(2.0, tolerance))
    gradient = jit(grad(lambda a: heron(a, 1e-10)[0]))
    close(gradient(2.0), 0.5 / np.sqrt(2.0))
    close(gradient(3.0), 0.5 / np.sqrt(3.0))


questions = st.tuples(st.integers(0, 2), st.floats(-1, 1), st.integers(0, 2))


@pytest.mark.dear
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(questions, min_size=1, max_size=3), st.integers(0, 1000))
def test_random_branches(program, seed):
    def f(x):
        for i, bound, change in program:
            if x[i] > bound:
                x = np.sin(x) * (change + 1)
            elif np.sum(x) < bound:
                x = x - bound
        return np.sum(x * x)

    value, gradient = jit(f, max_paths=64), jit(grad(f), max_paths=64)
    for x in np.random.default_rng(seed).normal(size=(5, 3)):
        close(value(x), f(x))
        close(gradient(x), grad(f)(x))


def test_flipping_between_two_paths_leaves_two_programs():
    @jit
    def f(x):
        return x * 2 if x > 0 else -x

    for i in range(10_000):
        assert f(1.0 if i % 2 else -1.0) == (2.0 if i % 2 else 1.0)
    assert f.paths().programs == 2


def test_the_report():
    @jit
    def f(x):
        if x > 0:
            return x * 2
        return -x

    for x in (1.0, -1.0, 2.0):
        f(x)
    lines = str(f.paths()).splitlines()
    assert lines[0] == "f(f64*[])"
    assert lines[1].startswith("  test_paths.py") and lines[1].endswith("`if x > 0:`")
    assert lines[2:] == ["    True:", "      2 operations, 2 calls", "    False:",
                         "      2 operations, 1 call"]  # fmt: skip
    # another type of argument has paths of its own
    f(np.float32(1.0))
    assert f.paths().programs == 3
    plain = jit(lambda x: x + 1)
    plain(1.0)
    assert str(plain.paths()) == "<lambda>(f64*[])\n  1 operations"


def test_too_many_paths_name_the_line():
    @jit(max_paths=3)
    def halve(x):
        while x > 1.0:
            x = x / 2
        return x

    for x in (1.0, 2.0, 4.0):
        halve(x)
    with pytest.raises(PathLimitError) as caught:
        halve(8.0)
    message = str(caught.value)
    assert message.startswith("halve has gone 3 different ways through its Python branches")
    assert "`while x > 1.0:`" in message and "lax.while_loop" in message
    assert halve(4.0) == 1.0  # the known ones still work


def test_what_goes_wrong_on_a_path_that_is_not_the_calls_does_not_matter():
    @jit
    def pick(x, i):
        return x[i] if i < 3 else x[0]

    x = np.array([1.0, 2.0, 3.0])
    assert pick(x, 1) == 2.0
    assert pick(x, 7) == 1.0  # first tried along the path that indexes
    with pytest.raises(IndexError):
        pick(x, -7)  # its own path does it


def test_nothing_decides_for_all_lanes_or_steps():
    with pytest.raises(TracerBoolError, match="traced by vmap"):
        jit(vmap(branching))(np.ones(3))
    with pytest.raises(TracerBoolError, match="traced by map"):
        jit(lambda xs: lax.map(branching, xs))(np.ones(3))
    # but what is the same for all of them is decided once
    f = jit(lambda x, ys: vmap(lambda y: y * x if x > 0 else y)(ys))
    close(f(2.0, np.ones(2)), np.full(2, 2.0))
    close(f(-2.0, np.ones(2)), np.ones(2))
    g = jit(vmap(lambda x, y: y * x if x > 0 else y, in_axes=(None, 0)))
    close(g(2.0, np.ones(2)), np.full(2, 2.0))
    close(g(-2.0, np.ones(2)), np.ones(2))
    g = jit(lambda x, ys: lax.map(lambda y: y * x if x > 0 else y, ys))
    close(g(2.0, np.ones(2)), np.full(2, 2.0))
    close(g(-2.0, np.ones(2)), np.ones(2))


def test_loops_and_branches_of_both_kinds():
    def f(x):
        y = lax.while_loop(lambda v: v < 10.0, lambda v: v * 2.0, x)
        return np.log(y) if y > 15.0 else lax.cond(x > 1.0, np.sin, np.cos, y)

    for transform in (lambda f: f, grad):
        compiled = jit(transform(f))
        for x in (1.9, 1.1, 0.7, 1.9):
            close(compiled(x), transform(f)(x))


def test_methods_and_static_arguments():
    class Model:
        def __init__(self, slope):
            self.slope = slope

        @jit(static_argnames="twice")
        def __call__(self, x, twice=False):
            y = x if x > 0 else self.slope * x
            return y * 2 if twice else y

    model = Model(0.1)
    assert model(2.0) == 2.0
    close(model(-2.0, twice=True), -0.4)
    assert model(2.0, twice=True) == 4.0


def test_random_choices_of_a_boundary_value_end():
    # compiled code and NumPy may disagree in the last bit: the compiled guard is what counts
    @jit
    def f(x):
        return 1.0 if np.sin(x) ** 2 + np.cos(x) ** 2 == 1.0 else 2.0

    for x in np.linspace(0, 10, 200):
        assert f(x) in (1.0, 2.0)
    assert f.paths().programs <= 2
