"""Sums of products are contractions of the factors: equal results, no array of products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functrans import grad, jit, tree, vmap
from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.loop.target import CPU
from functrans.lower.grid.target import CUDA
from functrans.optimise.machine.sums.distribution import distribute_sums
from tests.ir.written import graph
from tests.optimise.machine.rewrites import names, rewritten, stays

OUTER = "dot_general[contract=((), ()), batch=((0,), (0,))]"
SUMMED = "dot_general[contract=((1,), (1,)), batch=((0,), (0,))]"


def largest(made):
    """The elements of the largest array that is made."""
    return max(eqn.outputs[0].aval.size for eqn in made.eqns)


# -- what is taken apart ---------------------------------------------------------------------------

NORMS = {
    "square": "s:f64[30,64,48] = square g\n n = reduce_sum[axes=(1, 2)] s",
    "multiplied": "s:f64[30,64,48] = multiply g g\n n = reduce_sum[axes=(1, 2)] s",
    "contracted": "n = dot_general[contract=((1, 2), (1, 2)), batch=((0,), (0,))] g g",
    "transposed": """t = transpose[permutation=(2, 0, 1)] g
        s = square t
        n = reduce_sum[axes=(0, 2)] s""",
    "in a row": """t = reshape[shape=(30, 3072)] g
        n = dot_general[contract=((1,), (1,)), batch=((0,), (0,))] t t""",
    "with axes of one": """t = reshape[shape=(30, 1, 64, 1, 48)] g
        s = square t
        n = reduce_sum[axes=(1, 2, 3, 4)] s""",
    "scaled": """c = reshape[shape=(30, 1, 1)] w
        t = multiply g c
        s = square t
        n = reduce_sum[axes=(1, 2)] s""",
    "weighted": """c = reshape[shape=(30, 1, 1)] w
        t = square g
        s = multiply c t
        n = reduce_sum[axes=(1, 2)] s""",
    "divided": """c = reshape[shape=(30, 1, 1)] w
        t = divide g c
        s = square t
        n = reduce_sum[axes=(1, 2)] s""",
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS.keys())
def test_the_norm_of_an_outer_product_is_the_product_of_norms(norm):
    made = graph(
        f"""{{ x:f64[30,64], y:f64[30,48], w:f64[30] ->
        g = {OUTER} x y
        {norm}
        return n }}"""
    )
    after = rewritten(distribute_sums, made)
    assert largest(after) <= 30 * 64


SUMS = {
    "plain": "t = reduce_sum[axes=(0,)] g",
    "weighted": """c = reshape[shape=(30, 1, 1)] w
        s = multiply c g
        t = reduce_sum[axes=(0,)] s""",
    "divided": """c = reshape[shape=(30, 1, 1)] w
        s = divide g c
        t = reduce_sum[axes=(0,)] s""",
    "broadcast": """c = reshape[shape=(30, 1, 1)] w
        b = broadcast_to[shape=(30, 64, 48)] c
        s = multiply g b
        t = reduce_sum[axes=(0,)] s""",
    "contracted": "t = dot_general[contract=((0,), (0,)), batch=((), ())] w g",
}


@pytest.mark.parametrize("total", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("places", [0, 5])
def test_a_sum_of_gradients_is_one_product(total, places):
    """Also of a layer that is applied at several places."""
    axes, product = ("5,", SUMMED) if places else ("", OUTER)
    made = graph(
        f"""{{ x:f64[30,{axes}64], y:f64[30,{axes}48], w:f64[30] ->
        g = {product} x y
        {total}
        return t }}"""
    )
    after = rewritten(distribute_sums, made)
    assert largest(after) <= max(64 * 48, 30 * places * 64)
    assert "reduce_sum" not in names(after)


def test_gradients_that_are_a_result_are_not_made_twice():
    """Neither is their sum then a product of matrices; norms are still those of the factors."""
    text = f"""{{ x:f64[30,5,64], y:f64[30,5,48] ->
        g = {SUMMED} x y
        t = reduce_sum[axes=(0,)] g
        return t, g }}"""
    stays(distribute_sums, text)
    made = graph(
        f"""{{ x:f64[30,64], y:f64[30,48] ->
        g = {OUTER} x y
        s = square g
        n = reduce_sum[axes=(1, 2)] s
        return n, g }}"""
    )
    after = rewritten(distribute_sums, made)
    assert "square" not in names(after)


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "grid"])
def test_gradients_of_which_norms_are_taken_are_made_once(target):
    made = graph(
        f"""{{ x:f64[30,5,64], y:f64[30,5,48], w:f64[30] ->
        g = {SUMMED} x y
        s = square g
        n = reduce_sum[axes=(1, 2)] s
        c = reshape[shape=(30, 1, 1)] w
        v = multiply g c
        t = reduce_sum[axes=(0,)] v
        return n, t }}"""
    )
    assert distribute_sums(made, target) == made


def test_inner_products_of_gradients():
    made = graph(
        """{ x:f64[9,64], y:f64[9,48], u:f64[7,64], v:f64[7,48] ->
        g = dot_general[contract=((), ()), batch=((0,), (0,))] x y
        h = dot_general[contract=((), ()), batch=((0,), (0,))] u v
        k = dot_general[contract=((1, 2), (1, 2)), batch=((), ())] g h
        return k }"""
    )
    assert largest(rewritten(distribute_sums, made)) <= 9 * 64


def test_a_product_of_low_rank_is_applied_from_the_right():
    made = graph(
        """{ u:f64[300,3], v:f64[3,300], x:f64[300] ->
        m = dot_general[contract=((1,), (0,)), batch=((), ())] u v
        y = dot_general[contract=((1,), (0,)), batch=((), ())] m x
        return y }"""
    )
    assert largest(rewritten(distribute_sums, made)) == 300


# -- what stays ------------------------------------------------------------------------------------

KEPT = {
    # as a sum over pairs of places it would cancel
    "a norm of sums": (
        "x:f64[30,5,64], y:f64[30,5,48]",
        f"g = {SUMMED} x y\n s = square g\n t = reduce_sum[axes=(1, 2)] s",
    ),
    "small": (
        "x:f64[3,4], y:f64[3,5]",
        f"g = {OUTER} x y\n s = square g\n t = reduce_sum[axes=(1, 2)] s",
    ),
    "half precision": (
        "x:f16[30,64], y:f16[30,48]",
        f"g = {OUTER} x y\n s = square g\n t = reduce_sum[axes=(1, 2)] s",
    ),
    "integers": ("x:i64[30,64], y:i64[30,48]", f"g = {OUTER} x y\n t = reduce_sum[axes=(0,)] g"),
    "empty": ("x:f64[0,64], y:f64[0,48]", f"g = {OUTER} x y\n t = reduce_sum[axes=(0,)] g"),
    "no product": ("x:f64[300,64]", "s = square x\n t = reduce_sum[axes=(1,)] s"),
    "a chain of equal matrices": (
        "x:f64[64,64], y:f64[64,64], v:f64[64]",
        """g = dot_general[contract=((1,), (0,)), batch=((), ())] x y
        t = dot_general[contract=((1,), (0,)), batch=((), ())] g v""",
    ),
    "another function": (
        "x:f64[30,64], y:f64[30,48]",
        f"g = {OUTER} x y\n s = absolute g\n t = reduce_sum[axes=(1, 2)] s",
    ),
}


@pytest.mark.parametrize(("inputs", "body"), KEPT.values(), ids=KEPT.keys())
def test_what_stays(inputs, body):
    stays(distribute_sums, f"{{ {inputs} ->\n {body}\n return t }}")


# -- rounding and range ----------------------------------------------------------------------------


def norms(count, n, m, dtype):
    """A graph of squared norms of outer products, and what the rewrite makes of it."""
    short = {"float32": "f32", "float64": "f64"}[dtype]
    made = graph(
        f"""{{ x:{short}[{count},{n}], y:{short}[{count},{m}] ->
        g = {OUTER} x y
        s = square g
        t = reduce_sum[axes=(1, 2)] s
        return t }}"""
    )
    return made, checked(distribute_sums(made, CPU), "distribute_sums")


@given(
    count=st.sampled_from([1, 2, 17]),
    n=st.sampled_from([2, 17, 300]),
    m=st.sampled_from([1, 2, 17, 300]),
    dtype=st.sampled_from(["float32", "float64"]),
    spread=st.floats(0.0, 1.0),
    shift=st.floats(-1.0, 1.0),
    seed=st.integers(0, 100),
)
def test_norms_are_right_to_a_few_roundings(count, n, m, dtype, spread, shift, seed):
    """Over the whole range of factors whose products have squares that are normal numbers."""
    rng = np.random.default_rng(seed)
    _, after = norms(count, n, m, dtype)
    limits = np.finfo(dtype)
    # exponents of 2, of x and of y, whose sum is small
    middle = shift * 0.9 * limits.maxexp
    exponents = [sign * middle + rng.uniform(-4, 4, (count, 1)) for sign in (1, -1)]
    x, y = (
        (
            rng.standard_normal((count, size))
            * 2.0 ** (e - spread * rng.uniform(0, 8, (count, size)))
        )
        for size, e in zip((n, m), exponents, strict=True)
    )
    x, y = x.astype(dtype), y.astype(dtype)
    exact = np.einsum("bi,bj->bij", x.astype(np.longdouble), y.astype(np.longdouble))
    wanted = np.sum(exact**2, axis=(1, 2))
    (found,) = evaluate(after, [x, y])
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=40 * limits.eps)


SPECIAL = [0.0, 1e30, 1e-30, 1e-44, np.inf, np.nan]


@pytest.mark.parametrize("left", SPECIAL)
@pytest.mark.parametrize("right", SPECIAL)
def test_special_factors(left, right):
    made, after = norms(4, 64, 48, "float32")
    assert made != after
    given_ = [np.full((4, 64), left, np.float32), np.full((4, 48), right, np.float32)]
    with np.errstate(all="ignore"):
        (found,), (wanted,) = evaluate(after, given_), evaluate(made, given_)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


# -- whole programs --------------------------------------------------------------------------------


def layers(params, x, y):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.mean((hidden @ params["v"] - y) ** 2)


def sequence(params, x, y):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.mean((np.mean(hidden, axis=0) @ params["v"] - y) ** 2)


def squared_norm(gradient):
    return sum(np.sum(leaf**2) for leaf in tree.leaves(gradient))


def clipped(gradient, bound):
    scale = np.minimum(1.0, bound / np.sqrt(squared_norm(gradient)))
    return tree.map(lambda leaf: leaf * scale, gradient)


def private(loss, params, x, y):
    """The sum of clipped gradients."""
    one = vmap(lambda p, x, y: clipped(grad(loss)(p, x, y), 0.3), in_axes=(None, 0, 0))
    return tree.map(lambda leaf: np.sum(leaf, axis=0), one(params, x, y))


def case(loss, count, n, m, dtype=np.float64):
    rng = np.random.default_rng(count + n + m)
    shape = (count, n) if loss is layers else (count, 6, n)
    params = {
        "w": rng.normal(size=(n, m)).astype(dtype),
        "b": rng.normal(size=m).astype(dtype),
        "v": rng.normal(size=(m, 17)).astype(dtype),
    }
    return params, rng.normal(size=shape).astype(dtype), rng.normal(size=(count, 17)).astype(dtype)


SIZES = [(0, 17, 17), (1, 1, 2), (2, 17, 300), (17, 300, 17)]


@pytest.mark.parametrize("loss", [layers, sequence])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_and_clipped_sums_are_those_of_single_gradients(loss, sizes, dtype):
    params, x, y = case(loss, *sizes, dtype)
    exactly = tree.map(lambda leaf: leaf.astype(np.float64), params)
    samples = zip(x.astype(float), y.astype(float), strict=True)
    one_by_one = [grad(loss)(exactly, *sample) for sample in samples]
    rtol = 1e-10 if dtype == np.float64 else 2e-4
    of_all = jit(lambda p, x, y: vmap(lambda x, y: squared_norm(grad(loss)(p, x, y)))(x, y))
    found = of_all(params, x, y)
    assert found.dtype == dtype and found.shape == (len(x),)
    np.testing.assert_allclose(found, [squared_norm(g) for g in one_by_one], rtol=rtol)
    total = jit(lambda p, x, y: private(loss, p, x, y))(params, x, y)
    for name, leaf in total.items():
        wanted = sum((clipped(g, 0.3)[name] for g in one_by_one), np.zeros(leaf.shape))
        np.testing.assert_allclose(leaf, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["CPU", "CUDA"])
def test_private_gradients_are_not_made_one_by_one(target):
    params, x, y = case(layers, 100, 64, 48)
    device = "cuda" if target is CUDA else "cpu"
    cost = jit(lambda p, x, y: private(layers, p, x, y)).lower(params, x, y, device=device).cost()
    one_each = x.shape[0] * params["w"].nbytes
    assert sum(nest.bytes_written for nest in cost.nests) < one_each / 4
    assert sum(nest.operations for nest in cost.nests) < 3 * one_each
