"""Loop distribution: loops with long steps become loops of the program over several kernels."""

import signal
import threading
import time

import numpy as np
import pytest

import functrans
import functrans.numpy as fnp
from functrans import config, grad, jit, lax, tree
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Store, buffer, load
from functrans.loop.target import CPU
from functrans.lower.kernel.distribution import distributed
from functrans.lower.nest.bodies import Nest
from tests.lower.kernel.turns import turns_of

RNG = np.random.default_rng(0)


def network(params, xs):
    """Layers one after the other."""

    def layer(h, w):
        return np.tanh(h @ w), fnp.sum(h * h)

    h, sums = lax.scan(layer, xs, params)
    return fnp.sum(h) + fnp.sum(sums)


def trained(params, xs):
    """Steps of gradient descent, with a counter, a moving average, and their losses."""

    def loss(w, x):
        return fnp.sum(np.tanh(x @ w) ** 2)

    def step(carry, x):
        w, mean, count = carry
        value, g = functrans.value_and_grad(loss)(w, x)
        mean = 0.9 * mean + 0.1 * g
        count = count + 1
        return (w - 0.1 * mean / (1 - 0.9**count), mean, count), value

    return lax.scan(step, (params, np.zeros_like(params), 0.0), xs)


def epochs(w, xs):
    """A loop in a loop."""

    def epoch(w, scale):
        def step(w, x):
            return w + scale * (x.T @ np.tanh(x @ w)), None

        return lax.scan(step, w, xs)[0], fnp.max(w)

    return lax.scan(epoch, w, np.array([0.1, 0.01, 0.001]))


SQUARES = RNG.standard_normal((3, 24, 24)) / 5
ROWS = RNG.standard_normal((30, 24))
PROGRAMS = {
    "layers": (network, (SQUARES, ROWS)),
    "gradients of layers": (grad(network, argnums=(0, 1)), (SQUARES, ROWS)),
    "training": (trained, (SQUARES[0], RNG.standard_normal((4, 17, 24)))),
    "epochs": (epochs, (SQUARES[0], RNG.standard_normal((4, 17, 24)))),
    "backwards": (
        lambda w, x: lax.scan(lambda h, m: (h @ m, h[0]), x, w, reverse=True),
        (SQUARES, ROWS),
    ),
    "one step": (network, (SQUARES[:1], ROWS)),
    "no step": (network, (SQUARES[:0], ROWS)),
    "no step of a loop in a loop": (epochs, (SQUARES[0], np.zeros((0, 17, 24)))),
    "no turn": (
        grad(lambda x: fnp.sum(lax.fori_loop(0, 0, lambda _, y: np.sin(np.roll(y, 1)), x))),
        (ROWS,),
    ),
    "empty": (network, (SQUARES, ROWS[:0])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_turns_give_what_the_interpreter_gives(low, name):
    function, args = PROGRAMS[name]
    expected = function(*args)
    for one, other in zip(tree.leaves(jit(function)(*args)), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.dear
def test_what_is_in_turns(low):
    w, x = SQUARES, ROWS
    assert "3 turns" in turns_of(jit(network), w, x)
    assert "4 turns in 3 turns" in turns_of(jit(epochs), w[0], PROGRAMS["epochs"][1][1])


def test_long_steps_are_distributed_and_short_ones_are_not():
    short, long = RNG.standard_normal((2, 20, 20)), RNG.standard_normal((2, 256, 256))
    assert not any(turns_of(jit(network), short, RNG.standard_normal((20, 20))))
    assert "2 turns" in turns_of(jit(network), long, RNG.standard_normal((128, 256)))


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_without_turns_stays(turns):
    """A program counts a turn when it has gone through it, so that there must be one."""
    t, i = index("t", turns), index("i", 1 << 21)
    x, out = buffer("x", float, (1 << 21,)), buffer("out", float, (1 << 21,))
    store = Store(out, (i,), load(x, (i,)) * 2 + 1)
    inner = For(i, ZERO, const(1 << 21, INDEX), (store,), parallel=True)
    nest = Nest((For(t, ZERO, const(turns, INDEX), (inner,)),), ())
    made = distributed(nest, CPU)
    assert [part.turns for part in made] == [(t,) if turns else ()]


def test_the_bits_do_not_depend_on_the_number_of_threads(low, monkeypatch):
    function, args = PROGRAMS["training"]
    compiled, results = jit(function), []
    for number in (1, 2, 3):
        monkeypatch.setattr(config, "threads", number)
        results.append(tree.leaves(compiled(*args)))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.full
@pytest.mark.parametrize("name", ["training", "epochs"])
def test_numba_goes_through_the_turns_as_well(low, name, monkeypatch):
    monkeypatch.setattr(config, "backend", "numba")
    function, args = PROGRAMS[name]
    expected = tree.leaves(function(*args))
    for one, other in zip(tree.leaves(jit(function)(*args)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_what_is_given_up_is_overwritten(low):
    function, args = PROGRAMS["training"]
    expected = tree.leaves(function(*args))
    given = args[0].copy()
    found = jit(function, donate_argnums=0)(given, args[1])
    for one, other in zip(tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_two_threads_may_run_one_program(low):
    function, args = PROGRAMS["epochs"]
    compiled = jit(function)
    expected, found = tree.leaves(compiled(*args)), []

    def work():
        for _ in range(50):
            found.append(tree.leaves(compiled(*args)))

    workers = [threading.Thread(target=work) for _ in range(2)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(found) == 100
    for leaves in found:
        for one, other in zip(leaves, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_index_out_of_bounds_in_a_turn_is_reported(low):
    def function(x, indices):
        def step(x, i):
            x = np.tanh(x @ x)
            return x, x[i]

        return lax.scan(step, x, indices)

    compiled = jit(function)
    compiled(SQUARES[0], np.array([0, 23, 1]))
    with pytest.raises(IndexError, match="24"):
        compiled(SQUARES[0], np.array([0, 24, 1]))


def test_a_long_loop_is_interrupted(low):
    def function(x):
        return lax.scan(lambda x, _: (np.tanh(x @ x), None), x, None, length=10_000_000)[0]

    compiled = jit(function)
    assert "10000000 turns" in turns_of(compiled, SQUARES[0])

    def interrupt():
        time.sleep(0.3)
        signal.raise_signal(signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compiled(SQUARES[0])
    waiting.join()
    assert time.monotonic() - start < 20


def test_a_profile_counts_each_turn(low):
    function, args = PROGRAMS["layers"]
    with functrans.debug.profile() as profile:
        jit(function)(*args)
    calls = [int(line.split()[3]) for line in str(profile.by_kernel()).splitlines()[1:]]
    assert 3 in calls
