"""Every pass and every rewrite preserves the results of graphs."""

import numpy as np
import pytest

from functrans import grad, hessian, jacfwd, jacrev, lax, value_and_grad, vmap
from functrans.api.lowered import _staged
from tests.composition.test_products import OPERATORS, can_be_composed, composed
from tests.lower.stages import check_all
from tests.primitives.harness import cases, like, pullback_graph, run, tangent_graph

CASES = {
    name: case
    for name, case in cases(np.float64).items()
    if not case.primitive.higher_order and case.primitive.name != "external"
}


def by_primitive():
    groups = {}
    for case in CASES.values():
        groups.setdefault(case.primitive.name, []).append(case)
    return groups


GROUPS = by_primitive()


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
def test_primitives_and_their_derivatives(group):
    rng = np.random.default_rng(0)
    for case in group:
        graph, operands = case.graph(), list(case.operands)
        check_all(graph, operands)
        if not case.differentiable:
            continue
        tangent = tangent_graph(graph, case.moving)
        directions = [like(rng, x) for x, flag in zip(operands, case.moving, strict=True) if flag]
        check_all(tangent, [*operands, *directions])
        cotangents = [like(rng, x) for x in run(tangent, [*operands, *directions])]
        back = pullback_graph(tangent, len(operands), len(directions))
        check_all(back, [*operands, *cotangents])


PAIRS = [
    (first, second)
    for first in OPERATORS
    for second in OPERATORS
    if can_be_composed((first, second)) and "jit" not in (first.name, second.name)
]


def check_function(function, *args):
    staged, _ = _staged(function, args, {}, "test")
    leaves = [x for arg in args for x in (arg if isinstance(arg, tuple) else (arg,))]
    return check_all(staged.graph, [*leaves, *staged.captures])


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(each.name for each in pair))
def test_transforms_of_transforms(pair):
    check_function(composed(*pair), 0.7)


RNG = np.random.default_rng(0)
X, D, W = RNG.normal(size=(700, 80)), RNG.normal(size=700), RNG.normal(size=(40, 30)) / 6
A = RNG.normal(size=(6, 6)) + 12 * np.eye(6)
XS = RNG.normal(size=(12, 30))


def recurrent(w, u, xs):
    def step(h, x):
        h = np.tanh(w @ x + u @ h)
        return h, h * 2.0

    last, every = lax.scan(step, np.zeros(40), xs)
    return np.sum(last**2) + np.sum(every**3)


def halving(x):
    return lax.while_loop(lambda c: np.sum(c) > 1.0, lambda c: c * 0.5 + np.sin(c) * 0.1, x)


U = RNG.normal(size=(40, 40)) / 7

LAY_OUT, MOVE_OUT = "lay_out_contractions", "move_out_of_scans"

FUNCTIONS = {
    "gram": (lambda x: x.T @ x, (X,), {LAY_OUT}),
    "gram of rows": (lambda x: x @ x.T, (X,), {LAY_OUT}),
    "weighted": (lambda x, d: x.T @ (d[:, None] * x), (X, D), {LAY_OUT}),
    "long sum": (lambda x, y: np.einsum("tbi,tbj->ij", x, y),
                 (RNG.normal(size=(130, 20, 20)), RNG.normal(size=(130, 20, 24))), {LAY_OUT}),
    "turned": (lambda x: (x.T * 2.0) @ x + np.eye(80) @ x.T @ x, (X,), {LAY_OUT}),
    "transposed product": (vmap(lambda w, x: w @ x, (None, 0)), (W, XS), {"swap_products"}),
    "recurrent": (recurrent, (W, U, XS), {MOVE_OUT}),
    "gradient": (value_and_grad(recurrent, (0, 1, 2)), (W, U, XS), {MOVE_OUT}),
    "constant matrix": (lambda u, h: lax.scan(lambda h, _: (np.tanh(u @ h), None), h, None, 9)[0],
                        (U, np.ones(40)), {"columns_first"}),
    "embedding": (grad(lambda e, i: np.sum(lax.scan(
        lambda c, k: (c, np.sin(e[k]) * c), 1.0, i)[1])), (X, np.array([1, 2, 1])), {MOVE_OUT}),
    "solve": (lambda a, b: np.linalg.solve(a.T, b) + np.linalg.solve(a, b), (A, XS[0, :6]),
              {"solve_through_transposes"}),
    "derivatives of solve": (jacrev(lambda a: np.linalg.solve(a.T, XS[0, :6])), (A,), set()),
    "hessian": (hessian(lambda w: np.mean(np.logaddexp(0.0, X @ w))), (D[:80] / 9,), {LAY_OUT}),
    "while": (jacfwd(halving), (np.ones(3),), set()),
    "two loops": (lambda x: (halving(x), grad(lambda x: np.sum(lax.scan(
        lambda c, _: (np.sin(c), c), x, None, 5)[1]))(x)), (np.ones(3),), set()),
    "cond": (vmap(grad(lambda x: lax.cond(x > 0, np.sin, lambda x: x * x, x))), (D,), set()),
}  # fmt: skip


@pytest.mark.parametrize(("function", "args", "changed"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_programs(function, args, changed):
    assert changed <= set(check_function(function, *args))
