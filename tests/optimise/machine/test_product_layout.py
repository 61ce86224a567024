"""Products are transposed if that makes them vectorisable."""

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap

RNG = np.random.default_rng(0)


def test_a_mapped_product_with_a_vector_is_not_transposed():
    w, x = RNG.standard_normal((12, 20)), RNG.standard_normal((40, 20))
    compiled = jit(vmap(lambda x: np.tanh(w @ x)))
    *_, product = compiled.lower(x).cost().nests
    assert product.form.startswith("40 x 20 times 20 x 12, ")
    np.testing.assert_allclose(compiled(x), np.tanh(x @ w.T), rtol=1e-12)


def test_batches_of_products_are_swapped_too():
    x, y = RNG.standard_normal((3, 24, 18)), RNG.standard_normal((3, 18, 20))
    compiled = jit(lambda x, y: np.swapaxes(x @ y, 1, 2))
    *_, product = compiled.lower(x, y).cost().nests
    assert product.form.startswith("3 of 20 x 18 times 18 x 24, ")
    np.testing.assert_allclose(compiled(x, y), np.swapaxes(x @ y, 1, 2), rtol=1e-10)


def test_a_product_that_is_used_as_it_is_stays():
    x = RNG.standard_normal((40, 30))
    compiled = jit(lambda x: (x @ x.T[:, :20], (x @ x.T[:, :20]).T))
    for one, other in zip(compiled(x), (x @ x[:20].T, (x @ x[:20].T).T), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize(("rows", "columns"), [(50, 50), (100, 20), (20, 60)])
def test_steps_go_along_the_columns_of_constant_matrices(rows, columns):
    w = RNG.standard_normal((rows, columns)) / 8

    def loss(w, x):
        def step(h, _):
            return np.tanh(w.T @ np.sin(w @ h)), None

        return np.sum(lax.scan(step, x, None, length=12)[0] ** 2)

    x = RNG.standard_normal(columns)
    for function in (loss, grad(loss), grad(loss, argnums=1)):
        np.testing.assert_allclose(jit(function)(w, x), function(w, x), rtol=1e-10, atol=1e-12)


def test_the_matrix_is_transposed_once():
    w, x = RNG.standard_normal((50, 50)) / 8, RNG.standard_normal(50)
    compiled = jit(lambda x: lax.scan(lambda h, _: (np.tanh(w @ h), None), x, None, length=12)[0])
    schedule = compiled.lower(x).schedule()
    assert schedule.index("t0[") < schedule.index("for t in")
    assert "on t0, " in schedule.split("for t in")[1]
