"""What is computed of the transpose of a product has the layout of the product."""

import numpy as np
import pytest

from functrans import grad, jit, lax
from functrans.optimise.machine.late_transposes import transpose_last
from tests.optimise.machine.rewrites import becomes, stays

RNG = np.random.default_rng(0)
GIVEN = "a:f64[5,32,32], x:f64[40,5,32], b:f64[5,32], y:f64[40,5,32], g:f64[40,5]"
PRODUCT = "s = dot_general[contract=((2,), (2,)), batch=((0,), (1,))] a x"
TURNED = "t = transpose[permutation=(2, 0, 1)] s"


def test_elementwise_operations_reductions_and_transposes():
    becomes(
        transpose_last,
        f"""{{ {GIVEN} ->
        {PRODUCT}
        {TURNED}
        u = add t b
        v = multiply u t
        w = reduce_sum[axes=(2,)] v
        p = reshape[shape=(40, 5, 1)] w
        q = broadcast_to[shape=(40, 5, 32)] p
        r = multiply q v
        z = transpose[permutation=(1, 2, 0)] r
        m = reduce_max[axes=(1,)] w
        return z, m, w }}""",
        f"""{{ {GIVEN} ->
        {PRODUCT}
        c = reshape[shape=(5, 32, 1)] b
        u = add s c
        v = multiply u s
        w = reduce_sum[axes=(1,)] v
        p = reshape[shape=(1, 5, 40)] w
        q = reshape[shape=(5, 1, 40)] p
        z = multiply q v
        m = reduce_max[axes=(0,)] w
        o = transpose[permutation=(1, 0)] w
        return z, m, o }}""",
    )


KEPT = {
    "an array of the same size in another order": "u = add t y\n return u",
    "an axis is divided": "u = reshape[shape=(40, 5, 4, 8)] t\n return u",
    "no operation": "return t",
}


@pytest.mark.parametrize("rest", KEPT.values(), ids=KEPT.keys())
def test_what_stays(rest):
    stays(transpose_last, f"{{ {GIVEN} ->\n {PRODUCT}\n {TURNED}\n {rest} }}")


def test_results():
    a, x, b, y, g = (
        RNG.standard_normal(n) for n in ((5, 32, 32), (40, 5, 32), (5, 32), (40, 5, 32), (40, 5))
    )

    def loss(a, x, b, y, g):
        t = np.einsum("kij,nkj->nki", a, x)
        u = np.where(t > b, t * g[..., None], np.tanh(t)) - b
        s = np.sum(u * u, 2) * g
        return np.sum(np.log(np.sum(np.exp(s - np.max(s, 1, keepdims=True)), 1)) + np.sum(y * t))

    np.testing.assert_allclose(jit(loss)(a, x, b, y, g), loss(a, x, b, y, g), rtol=1e-12)
    for number in range(5):
        of_one = grad(loss, argnums=number)
        np.testing.assert_allclose(
            jit(of_one)(a, x, b, y, g), of_one(a, x, b, y, g), rtol=1e-9, atol=1e-9
        )


OTHERS = {
    "operands of fewer elements": lambda t: np.tanh(t[:, :1]) * np.ones((40, 4, 1)),
    "an operand with more axes": lambda t: np.hypot(t, t[0, 0, 0] * np.ones((1,) * 5)).sum((0, 2)),
    "elements of a table": lambda t: np.interp(t, np.linspace(-1.0, 1.0, 9), np.arange(9.0)),
    "a literal before the product": lambda t: lax.scan(lambda c, y: (c / 2, y * c), 1.0, t)[1],
}


@pytest.mark.parametrize("rest", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("components", [1, 5])
def test_operations_that_do_not_follow(rest, components):
    a, x = RNG.standard_normal((components, 32, 32)), RNG.standard_normal((40, components, 32))
    t = np.einsum("kij,nkj->nki", a, x)
    found = jit(lambda a, x: rest(np.einsum("kij,nkj->nki", a, x)))(a, x)
    np.testing.assert_allclose(found, rest(t), rtol=1e-9, atol=1e-9)
