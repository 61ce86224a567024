"""Loop-invariant matrices of products in loops are packed once, before the loop."""

import numpy as np
import pytest

import functrans
from functrans import grad, jit, lax
from functrans.run.code import host
from tests.targets import take_host_for

RNG = np.random.default_rng(0)
MACHINES = {
    "AVX-512": {"vector_bytes": 64, "registers": 32},
    "AVX2": {"vector_bytes": 32, "registers": 16},
    "NEON": {"vector_bytes": 16, "registers": 32},
}


@pytest.fixture(autouse=True)
def plan_for_small_matrices(monkeypatch):
    take_host_for(monkeypatch, invariant_packing={"least_bytes": 0})


def network(turned):
    """The sum of what a recurrent network makes, of a matrix or of its transpose."""

    def loss(w, h, xs):
        def step(h, x):
            h = np.tanh(x + h @ (w.T if turned else w))
            return h, h

        last, hs = lax.scan(step, h, xs)
        return np.sum(hs * hs) + np.sum(last)

    return loss


def panels_of(function, given):
    """How many copies of the matrix a program makes, panel by panel."""
    terms, columns = given[0].shape
    width = 2 * host.target().lanes(8)
    made = f"f64[{columns // width},{terms},{width}] = transpose[permutation=(1, 0, 2)]"
    before, *_ = str(jit(function).lower(*given).stages()).split("== materialisation")
    return before.count(made)


def arguments(rows, columns, dtype=float, steps=9):
    w = RNG.standard_normal((columns, columns)).astype(dtype) / np.sqrt(columns).astype(dtype)
    h = RNG.standard_normal((rows, columns)).astype(dtype)
    return w, h, RNG.standard_normal((steps, rows, columns)).astype(dtype)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (12, 40), (32, 96), (5, 129), (1, 64)])
def test_steps_read_panels(monkeypatch, machine, turned, rows, columns):
    take_host_for(monkeypatch, **MACHINES[machine], invariant_packing={"least_bytes": 0})
    given = arguments(rows, columns)
    loss = network(turned)
    for function in (loss, grad(loss), grad(loss, argnums=1)):
        found, wanted = jit(function)(*given), function(*given)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_one_copy_is_made_for_all_loops():
    def twice(w, h, xs):
        def step(h, x):
            return np.tanh(x + h @ w), None

        return lax.scan(step, lax.scan(step, h, xs)[0], xs[::-1])[0]

    given = arguments(8, 96)
    assert panels_of(network(False), given) == panels_of(network(True), given) == 1
    assert panels_of(twice, given) == 1
    np.testing.assert_allclose(jit(twice)(*given), twice(*given), rtol=1e-10)


def test_while_loops_have_panels_too():
    def iterated(w, h):
        return lax.while_loop(lambda h: np.max(abs(h)) > 0.01, lambda h: np.sin(h @ w) / 2, h)

    w, h, _ = arguments(8, 96)
    assert panels_of(iterated, (w, h)) == 1
    np.testing.assert_allclose(jit(iterated)(w, h), iterated(w, h), rtol=1e-10)


def test_what_a_step_changes_is_read_where_it_is():
    def changing(w, h, xs):
        def step(carry, x):
            h, w = carry
            return (np.tanh(x + h @ w), w * 0.9), None

        return lax.scan(step, (h, w), xs)[0][0]

    given = arguments(8, 64)
    np.testing.assert_allclose(jit(changing)(*given), changing(*given), rtol=1e-10)


def test_a_few_steps_are_not_worth_a_copy():
    assert panels_of(network(False), arguments(8, 96, steps=3)) == 0


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bits_do_not_depend_on_threads(monkeypatch, threads):
    given = arguments(32, 96, np.float32)
    monkeypatch.setattr(functrans.config, "threads", 1)
    wanted = jit(grad(network(False)))(*given)
    monkeypatch.setattr(functrans.config, "threads", threads)
    np.testing.assert_array_equal(jit(grad(network(False)))(*given), wanted)


def cell(w, v, h, xs):
    """A step that multiplies its input and its state by constant matrices."""
    return lax.scan(lambda h, x: (np.tanh(x @ v + h @ w), None), h, xs)[0]


def mixing(w, v, h, xs):
    """One whose rows are normalised together, so that threads cannot share them."""

    def step(h, x):
        h = np.tanh(x @ v + h @ w)
        return h - np.mean(h, axis=0), None

    return lax.scan(step, h, xs)[0]


@pytest.mark.parametrize(
    ("step", "rows", "steps_of_input"), [(cell, 16, 0), (cell, 8, 1), (mixing, 16, 1)]
)
def test_products_of_the_input_stay_in_loops_whose_rows_are_shared(step, rows, steps_of_input):
    w, h, xs = arguments(rows, 96)
    compiled, given = jit(step), (w, w[::-1].copy(), h, xs)
    before, *_ = str(compiled.lower(*given).stages()).split("== materialisation")
    assert before.count(f"f64[9,{rows},96] = dot_general") == steps_of_input
    np.testing.assert_allclose(compiled(*given), step(*given), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("step", "is_packed"), [(cell, True), (mixing, False)])
def test_large_products_read_panels_if_rows_are_shared(monkeypatch, step, is_packed):
    take_host_for(
        monkeypatch, invariant_packing={"least_bytes": 0}, forms={"least_work_in_loops": 1000}
    )
    w, h, xs = arguments(32, 96)
    compiled, given = jit(step), (w, w[::-1].copy(), h, xs)
    before, *_ = str(compiled.lower(*given).stages()).split("== materialisation")
    assert ("transpose[permutation=(1, 0, 2)]" in before) == is_packed
    np.testing.assert_allclose(compiled(*given), step(*given), rtol=1e-10, atol=1e-12)
