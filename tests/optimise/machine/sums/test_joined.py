"""Sums over concatenations are computed part by part."""

import numpy as np
import pytest

from functrans import grad, jit, tree, vmap
from functrans.optimise.machine.sums.distribution import distribute_sums
from tests.ir.written import graph
from tests.optimise.machine.rewrites import names, rewritten, stays

SUMS = {
    "plain": "t = reduce_sum[axes=(1,)] c",
    "everything": "t = reduce_sum[axes=(0, 1)] c",
    "squares": "s = square c\n t = reduce_sum[axes=(1,)] s",
    "absolute": "s = absolute c\n t = reduce_sum[axes=(1,)] s",
    "of a few operations": """a = multiply c 2.0
        b = tanh a
        s = multiply b c
        t = reduce_sum[axes=(1,)] s""",
    "norm": "t = dot_general[contract=((1,), (1,)), batch=((0,), (0,))] c c",
    "with others": "s = tanh c\n t = dot_general[contract=((1,), (1,)), batch=((0,), (0,))] c s",
}


@pytest.mark.parametrize("total", SUMS.values(), ids=SUMS.keys())
def test_a_sum_is_that_of_the_parts(total):
    made = graph(
        f"""{{ x:f64[5,700], y:f64[5,1], z:f64[5,300], e:f64[5,0] ->
        c = concatenate[axis=1] x y e z
        {total}
        return t }}"""
    )
    assert "concatenate" not in names(rewritten(distribute_sums, made))


KEPT = {
    "along another axis": "t = reduce_sum[axes=(0,)] c",
    "with another array": "s = multiply c w\n t = reduce_sum[axes=(1,)] s",
    "with one that is broadcast": "s = multiply c y\n t = reduce_sum[axes=(1,)] s",
    "a contraction with another": (
        "t = dot_general[contract=((1,), (1,)), batch=((0,), (0,))] c w"
    ),
    "every row with every row": "t = dot_general[contract=((0,), (0,)), batch=((), ())] c c",
    "a running sum": "s = cumsum[axis=1, reverse=False] c\n t = reduce_sum[axes=(1,)] s",
}


@pytest.mark.parametrize("total", KEPT.values(), ids=KEPT.keys())
def test_what_stays(total):
    inputs = "x:f64[5,700], y:f64[5,1], z:f64[5,300], w:f64[5,1001]"
    stays(
        distribute_sums, f"{{ {inputs} ->\n c = concatenate[axis=1] x y z\n {total}\n return t }}"
    )


def test_small_parts_stay():
    inputs = ", ".join(f"x{i}:f64[5]" for i in range(300))
    body = f"c = concatenate[axis=0] {' '.join(f'x{i}' for i in range(300))}"
    stays(distribute_sums, f"{{ {inputs} ->\n {body}\n t = reduce_sum[axes=(0,)] c\n return t }}")


def loss(params, x, y):
    return np.mean((np.tanh(x @ params["w"] + params["b"]) @ params["v"] - y) ** 2)


@pytest.mark.parametrize("sizes", [(0, 17, 17), (1, 1, 2), (2, 17, 300), (17, 300, 17)])
def test_norms_of_raveled_gradients(sizes):
    count, n, m = sizes
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(n, m)), "b": rng.normal(size=m), "v": rng.normal(size=(m, 5))}
    x, y = rng.normal(size=(count, n)), rng.normal(size=(count, 5))

    def norm(params, x, y):
        return np.linalg.norm(tree.ravel(grad(loss)(params, x, y))[0])

    of_all = jit(vmap(norm, in_axes=(None, 0, 0)))
    wanted = [norm(params, *sample) for sample in zip(x, y, strict=True)]
    np.testing.assert_allclose(of_all(params, x, y), np.asarray(wanted), rtol=1e-10)
    cost = of_all.lower(params, x, y).cost()
    assert sum(nest.bytes_written for nest in cost.nests) <= 64 * count * (n + 2 * m + 20)
