"""Data-dependent loops with long steps: loops of the program with an exit condition."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import functrans
import functrans.numpy as fnp
from functrans import config, grad, jit, lax, tree, vmap
from functrans.errors import PlanError, StepLimitError
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import Assign, For, Let, Store, While, buffer, load, local
from functrans.loop.target import CPU
from functrans.lower.kernel.distribution import distributed
from functrans.lower.nest.bodies import Nest
from functrans.lower.pipeline import plan
from functrans.lower.verify import verify
from functrans.run.code import host
from tests.lower.kernel.turns import turns_of

RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((24, 24)) / 5
DEFINITE = SQUARE @ SQUARE.T + np.eye(24)
RIGHT = RNG.standard_normal(24)
UNTIL_LEFT = "turns until it is left"


def powers(x, n):
    """A number of steps that is an argument."""
    return lax.while_loop(lambda s: s[1] < n, lambda s: (np.tanh(s[0] @ x), s[1] + 1), (x, 0))


def conjugate_gradients(a, b, tolerance):
    """The condition is about the carry, and is itself long."""

    def step(s):
        x, r, p, k = s
        ap = a @ p
        alpha = (r @ r) / (p @ ap)
        following = r - alpha * ap
        return x + alpha * p, following, following + (following @ following) / (r @ r) * p, k + 1

    start = np.zeros_like(b), b, b, 0
    return lax.while_loop(lambda s: fnp.sum(s[1] ** 2) > tolerance, step, start)


def loop_in_scan(x, limits):
    """A while loop in a scan; some of the limits are met at once."""

    def outer(x, limit):
        def step(s):
            return np.tanh(s[0] @ s[0]) * 1.1, s[1] + 1

        y, count = lax.while_loop(lambda s: s[1] < limit, step, (x, 0))
        return y, (count, fnp.sum(y))

    return lax.scan(outer, x, limits)


def scan_in_loop(x, n):
    """A scan is the last thing in a step, so that both end at once."""

    def step(s):
        y = lax.fori_loop(0, 3, lambda _, y: np.sin(y @ x), s[0])
        return y, s[1] + 1

    return lax.while_loop(lambda s: s[1] < n, step, (x, 0))


def loop_in_loop(x, n, limits):
    def step(s):
        y, k = s
        limit = fnp.asarray(limits)[k]

        def inner(t):
            return np.sin(t[0] @ x), t[1] + 1

        return lax.while_loop(lambda t: t[1] < limit, inner, (y, 0))[0], k + 1

    return lax.while_loop(lambda s: s[1] < n, step, (x, 0))


def limited(x, n):
    return lax.while_loop(
        lambda s: s[1] < n, lambda s: (np.tanh(s[0] @ x), s[1] + 1), (x, 0), max_steps=2
    )


def total(function):
    """The sum of the first array, whose gradient goes backwards through the loop."""
    return lambda x, *rest: fnp.sum(function(x, *rest)[0] ** 2)


PROGRAMS = {
    **{f"{n} turns": (powers, (SQUARE, n)) for n in (0, 1, 2, 5)},
    **{f"gradient of {n} turns": (grad(total(powers)), (SQUARE, n)) for n in (0, 1, 2, 5)},
    **{f"gradient of {n} of 2": (grad(total(limited)), (SQUARE, n)) for n in (0, 1, 2)},
    "conjugate gradients": (conjugate_gradients, (DEFINITE, RIGHT, 1e-12)),
    "solved at once": (conjugate_gradients, (DEFINITE, 0 * RIGHT, 1e-12)),
    "loop in scan": (loop_in_scan, (SQUARE, np.array([2, 0, 1, 3, 0]))),
    "scan in loop": (scan_in_loop, (SQUARE, 3)),
    "scan in no turn": (scan_in_loop, (SQUARE, 0)),
    "loop in loop": (loop_in_loop, (SQUARE, 4, np.array([2, 0, 3, 1]))),
    "gradient of scan in loop": (grad(total(scan_in_loop)), (SQUARE, 2)),
    "forward": (lambda x, n: functrans.jvp(lambda x: powers(x, n)[0], (x,), (x,)), (SQUARE, 3)),
    "lanes that end together": (
        lambda x, n: vmap(lambda y: powers(y, n)[0])(np.stack([x, x + 1])),
        (SQUARE, 3),
    ),
    "lanes that end apart": (
        lambda x, n: vmap(lambda y, n: powers(y, n)[0])(np.stack([x, x + 1]), n),
        (SQUARE, np.array([3, 0])),
    ),
    "empty": (powers, (SQUARE[:0, :0], 3)),
}


@pytest.mark.dear
@pytest.mark.parametrize("name", PROGRAMS)
def test_turns_give_what_the_interpreter_gives(low, name):
    function, args = PROGRAMS[name]
    expected = function(*args)
    for one, other in zip(tree.leaves(jit(function)(*args)), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.dear
def test_what_is_in_turns(low):
    assert UNTIL_LEFT in turns_of(jit(powers), SQUARE, 3)
    assert f"{UNTIL_LEFT} in 5 turns" in turns_of(jit(loop_in_scan), *PROGRAMS["loop in scan"][1])
    assert f"3 turns in {UNTIL_LEFT}" in turns_of(jit(scan_in_loop), SQUARE, 3)
    nested = f"{UNTIL_LEFT} in {UNTIL_LEFT}"
    assert nested in turns_of(jit(loop_in_loop), *PROGRAMS["loop in loop"][1])
    backwards = jit(grad(total(limited))).lower(SQUARE, 2).schedule()
    assert len([line for line in backwards.splitlines() if "going[]" in line]) == 2


@pytest.mark.dear
def test_long_steps_are_distributed_and_short_ones_are_not():
    short, long = RNG.standard_normal((20, 20)), RNG.standard_normal((256, 256))
    assert not any(turns_of(jit(powers), short, 3))
    assert UNTIL_LEFT in turns_of(jit(powers), long, 3)


@pytest.mark.dear
def test_the_bits_do_not_depend_on_the_number_of_threads(low, monkeypatch):
    for name in ("conjugate gradients", "gradient of 5 turns", "loop in scan"):
        function, args = PROGRAMS[name]
        compiled, results = jit(function), []
        for number in (1, 2, 3):
            monkeypatch.setattr(config, "threads", number)
            results.append(tree.leaves(compiled(*args)))
        for other in results[1:]:
            for one, two in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(one, two)


@pytest.mark.full
@pytest.mark.parametrize("name", ["loop in scan", "conjugate gradients", "loop in loop"])
def test_numba_goes_through_the_turns_as_well(low, name, monkeypatch):
    monkeypatch.setattr(config, "backend", "numba")
    function, args = PROGRAMS[name]
    expected = tree.leaves(function(*args))
    for one, other in zip(tree.leaves(jit(function)(*args)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_what_is_given_up_is_overwritten(low, n):
    expected = powers(SQUARE, n)
    found = jit(powers, donate_argnums=0)(SQUARE.copy(), n)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_limit_of_steps_is_kept(low):
    compiled = jit(limited)
    compiled(SQUARE, 2)
    with pytest.raises(StepLimitError, match="max_steps=2"):
        compiled(SQUARE, 3)


def test_plans_of_fewer_steps_than_are_looked_at_are_verified():
    x = SQUARE[:3, :3]
    np.testing.assert_allclose(
        jit(grad(total(limited)))(x, 2), grad(total(limited))(x, 2), rtol=1e-12
    )


def test_an_index_out_of_bounds_in_a_turn_is_reported(low):
    def function(x, k):
        def step(s):
            return np.tanh(x @ s[0]) + x[k], s[1] + 1

        return lax.while_loop(lambda s: s[1] < 3, step, (x, 0))

    compiled = jit(function)
    compiled(SQUARE, 23)
    with pytest.raises(IndexError, match="24"):
        compiled(SQUARE, 24)


def test_a_loop_without_end_is_interrupted(low):
    def function(x):
        return lax.while_loop(lambda y: fnp.max(y) < 2, lambda y: np.tanh(y @ x), x)

    compiled = jit(function)
    assert UNTIL_LEFT in turns_of(compiled, SQUARE)

    def interrupt():
        time.sleep(0.3)
        signal.raise_signal(signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compiled(SQUARE)
    waiting.join()
    assert time.monotonic() - start < 20


def test_a_nan_leaves_as_it_does_in_python(low):
    def function(x):
        return lax.while_loop(lambda y: fnp.sum(y) < 1e3, lambda y: y @ x, x)

    x = SQUARE.copy()
    x[3, 5] = np.nan
    np.testing.assert_array_equal(jit(function)(x), x)


# -- statements ------------------------------------------------------------------------------------

N = 1 << 21


def counting(changes=(), first=ZERO):
    """A while loop that counts its steps, each of which is long."""
    steps, i = local(INDEX, "steps"), index("i", N)
    x, out = buffer("x", float, (N,)), buffer("out", INDEX, ())
    store = Store(x, (i,), load(x, (i,)) * 2 + 1)
    inner = For(i, ZERO, const(N, INDEX), (store,), parallel=True)
    body = (inner, *changes, Assign((steps,), (steps + 1,)))
    loop = While((), steps < 4, body)
    return Nest((Let((steps,), (first,)), loop, Store(out, (), steps)), ()), steps


def test_the_steps_that_a_loop_counts_are_turns():
    nest, _ = counting()
    test, body, after = distributed(nest, CPU)
    assert test.turns == body.turns
    assert len(test.turns) == 1
    assert test.exit is not None
    assert (body.exit, after.exit, after.turns) == (None, None, ())
    assert load(test.exit.count, ()) in [x.value for x in after.body]


def test_a_loop_that_counts_otherwise_stays():
    nest, _ = counting(first=const(1, INDEX))
    assert distributed(nest, CPU) == [nest]
    other = local(float, "carried")
    nest, _ = counting(changes=(Assign((other,), (other * 2,)),))
    nest = replace(nest, body=(Let((other,), (const(1.0, np.dtype(float)),)), *nest.body))
    assert distributed(nest, CPU) == [nest]


# -- plans -----------------------------------------------------------------------------------------


def with_kernel(made, number, change):
    """A plan in which the kernel of a step has other statements."""
    steps = list(made.steps)
    kernel = steps[number].kernel
    steps[number] = replace(steps[number], kernel=replace(kernel, body=change(kernel.body)))
    return replace(made, steps=tuple(steps))


def test_the_count_of_a_loop_is_verified(low):
    made = plan(jit(powers).lower(SQUARE, 3).graph(), host.target())
    verify(made)
    (test,) = [number for number, step in enumerate(made.steps) if step.exit is not None]
    *first, count, going = made.steps[test].kernel.body
    assert isinstance(count, Store)

    def counted(*ends):
        return with_kernel(made, test, lambda _: (*first, *ends))

    for broken in (
        counted(going),
        counted(replace(count, value=count.value + 1), going),
        counted(count, replace(count, value=ZERO), going),
    ):
        with pytest.raises(PlanError, match="not the number of turns"):
            verify(broken)


def test_a_step_asks_whether_the_loop_goes_on_when_that_is_stored(low):
    made = plan(jit(powers).lower(SQUARE, 3).graph(), host.target())
    (test,) = [step for step in made.steps if step.exit is not None]
    never = [step if step is not test else replace(step, exit=None) for step in made.steps]
    with pytest.raises(PlanError, match="no end"):
        verify(replace(made, steps=tuple(never)))
