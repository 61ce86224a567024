"""debug.callback, print and breakpoint: once per execution, in order, under all transforms."""

import sys

import numpy as np
import pytest

from functrans import (
    checkpoint,
    debug,
    grad,
    hessian,
    jacfwd,
    jit,
    jvp,
    lax,
    value_and_grad,
    vjp,
    vmap,
)


class Seen(list):
    def see(self, *values):
        self.append(tuple(np.asarray(x).tolist() for x in values))


@pytest.fixture
def seen():
    return Seen()


TRANSFORMS = {
    "nothing": lambda f: f,
    "jit": jit,
    "grad": grad,
    "jit of grad": lambda f: jit(grad(f)),
    "grad of jit": lambda f: grad(jit(f)),
    "value_and_grad": value_and_grad,
    "jit of value_and_grad": lambda f: jit(value_and_grad(f)),
    "hessian": hessian,
    "jit of hessian": lambda f: jit(hessian(f)),
    "grad of grad": lambda f: grad(grad(f)),
    "jit of grad of grad": lambda f: jit(grad(grad(f))),
    "jit of jacfwd": lambda f: jit(jacfwd(f)),
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,)),
    "vjp": lambda f: lambda x: vjp(f, x)[1](1.0),
    "jit of vjp": lambda f: jit(lambda x: vjp(f, x)[1](1.0)),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_each_once_and_in_order(transform, seen):
    def function(x):
        debug.callback(seen.see, "x", x)
        y = np.sin(x)
        debug.callback(seen.see, "y", y)
        debug.callback(seen.see, "constants")
        debug.callback(seen.see, "used for nothing else", np.sum(y * y))
        return y * 2.0

    y = np.sin(1.0)
    transformed = transform(texts(function, seen))
    for _ in range(3):
        seen.clear()
        transformed(1.0)
        assert seen == [(0, 1.0), (1, y), (2,), (3, y * y)]


def texts(function, seen):
    """The function, with numbers for the texts: what is called are arrays."""
    numbers = {"x": 0, "y": 1, "constants": 2, "used for nothing else": 3}
    see, before = seen.see, debug.callback

    def called(x):
        def callback(_, text, *values):
            before(see, numbers[text], *values)

        debug.callback = callback
        try:
            return function(x)
        finally:
            debug.callback = before

    return called


def test_under_vmap_it_is_for_each_example(seen):
    def function(x):
        debug.callback(seen.see, 0, x)
        debug.callback(seen.see, 1)
        return np.sin(x)

    xs = np.array([1.0, 2.0])
    for transformed in (vmap(function), jit(vmap(function)), jit(vmap(grad(function)))):
        seen.clear()
        transformed(xs)
        assert seen == [(0, 1.0), (0, 2.0), (1,), (1,)]


def scanned(seen):
    def step(c, i):
        debug.callback(seen.see, i, c)
        debug.callback(seen.see)
        return c * 2.0, None

    return lambda x: lax.scan(step, x, np.arange(3.0))[0]


@pytest.mark.parametrize(
    "transform", [jit, grad, lambda f: jit(grad(f)), lambda f: jit(value_and_grad(f)), lambda f: f]
)
def test_in_each_step_of_a_scan(transform, seen):
    transform(scanned(seen))(1.0)
    assert seen == [(0.0, 1.0), (), (1.0, 2.0), (), (2.0, 4.0), ()]


def test_in_each_step_and_for_each_example(seen):
    for transformed in (vmap(scanned(seen)), jit(vmap(scanned(seen)))):
        seen.clear()
        transformed(np.array([1.0, 10.0]))
        steps = [[(i, 2.0**i * x) for x in (1.0, 10.0)] for i in range(3)]
        assert seen == [row for step in steps for row in (*step, (), ())]


def test_in_while_loops_and_branches(seen):
    def loop(x):
        def body(c):
            debug.callback(seen.see, c)
            return c * x

        return lax.while_loop(lambda c: c < 10.0, body, 1.0)

    jit(loop)(2.0)
    assert seen == [(1.0,), (2.0,), (4.0,), (8.0,)]

    def branch(x):
        def side(sign):
            def chosen(x):
                debug.callback(seen.see, sign, x)
                return sign * x

            return chosen

        return lax.cond(x > 0, side(1), side(-1), x)

    for transformed in (jit(branch), jit(grad(branch))):
        seen.clear()
        transformed(2.0)
        transformed(-2.0)
        assert seen == [(1, 2.0), (-1, -2.0)]


def test_loops_come_in_their_turn(seen):
    def step(c, _):
        debug.callback(seen.see, 1, c)
        return c + 1.0, None

    def inside(x):
        return lax.scan(step, x, None, length=2)[0]

    def function(x):
        debug.callback(seen.see, 0, x)
        y = inside(x)
        debug.callback(seen.see, 2, x)
        return inside(y)

    for transformed in (jit(function), jit(grad(function)), grad(function), function):
        seen.clear()
        transformed(1.0)
        assert seen == [(0, 1.0), (1, 1.0), (1, 2.0), (2, 1.0), (1, 3.0), (1, 4.0)]


def test_pythons_branches(seen):
    @jit
    def function(x):
        debug.callback(seen.see, 1 if x > 0 else -1, x)
        return x * x

    function(2.0)
    function(-2.0)
    assert seen == [(1, 2.0), (-1, -2.0)]


def test_a_checkpoint_computes_it_again(seen):
    @checkpoint
    def function(x):
        y = np.sin(x)
        debug.callback(seen.see, y)
        return np.sin(y)

    assert jit(grad(function))(1.0) == grad(lambda x: np.sin(np.sin(x)))(1.0)
    assert set(seen) == {(np.sin(1.0),)}


@pytest.mark.dear
def test_values_are_the_same_with_it_and_without(seen):
    def function(w, x, looking):
        def step(h, row):
            h = np.tanh(h @ w + row)
            if looking:
                debug.callback(seen.see, h)
            return h, np.sum(h)

        h, sums = lax.scan(step, np.zeros(4), x)
        if looking:
            debug.callback(seen.see, sums)
        return np.sum(h * h) + sums[2]

    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=(5, 4))
    plain, looking = ((lambda w, x, flag=flag: function(w, x, flag)) for flag in (False, True))
    for transform in (value_and_grad, lambda f: jit(value_and_grad(f)), lambda f: jit(hessian(f))):
        for one, other in zip(transform(plain)(w, x), transform(looking)(w, x), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


def test_what_it_raises_comes_out():
    def fails(x):
        raise KeyError("no such thing")

    def function(x):
        debug.callback(fails, x)
        return x

    for transformed in (function, jit(function), grad(function)):
        with pytest.raises(KeyError, match="no such thing"):
            transformed(1.0)


def test_it_gets_copies_in_trees():
    def spoil(tree, *, name):
        tree["w"][:] = 0.0
        assert type(tree["w"]) is np.ndarray
        assert name[0] == 3

    def function(x):
        debug.callback(spoil, {"w": x}, name=(3,))
        return x * 2.0

    np.testing.assert_array_equal(jit(function)(np.ones(2)), [2.0, 2.0])
    np.testing.assert_array_equal(function(np.ones(2)), [2.0, 2.0])


# -- print and breakpoint --------------------------------------------------------------------------


def test_print(capsys):
    @jit
    def function(x, n):
        debug.print("x = {:.2f}, n = {n}, {} {n:03d}", x, x > 1, n=n)
        debug.print("nothing")
        return x

    function(1.5, 7)
    assert capsys.readouterr().out == "x = 1.50, n = 7, True 007\nnothing\n"


@pytest.mark.parametrize(
    ("text", "args", "kwargs", "message"),
    [("{} {}", (1.0,), {}, r"debug.print('{} {}', ...) asks for {1}, which is not given"),
     ("{x}", (), {"y": 1.0}, r"debug.print('{x}', ...) asks for {x}, which is not given"),
     ("{x.real}", (), {"x": 1.0, "y": 1.0},
      r"debug.print('{x.real}', ...) does not ask for {y}, which is given")],
)  # fmt: skip
def test_a_text_that_does_not_fit(text, args, kwargs, message):
    with pytest.raises(ValueError) as caught:
        jit(lambda x: (debug.print(text, *args, **kwargs), x)[1])(1.0)
    assert str(caught.value) == message


def test_breakpoint(monkeypatch):
    stops = []

    def hook():
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_filename, frame.f_globals["x"], frame.f_globals["tree"]))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @jit
    def function(x):
        debug.breakpoint(x=x, tree={"twice": 2.0 * x})
        return x

    function(1.0)
    [(file, x, tree)] = stops
    assert file.startswith("<debug.breakpoint at test_printing.py:")
    assert (x, tree) == (1.0, {"twice": 2.0})


def test_a_function_is_asked_for():
    with pytest.raises(TypeError, match=r"debug\.callback"):
        debug.callback(3.0, 1.0)


def test_a_tangent_has_no_effects_of_its_own(seen):
    """What is printed of a value is printed once, and not again for its tangents."""
    jit(jacfwd(scanned(seen)))(1.0)
    assert len(seen) == 6
