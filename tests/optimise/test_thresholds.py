"""Rewrites for a machine read their thresholds from the given target."""

import numpy as np
import pytest

from functrans import jit, lax
from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.loop.target import CPU
from functrans.ops.arrays.shape import Joins
from functrans.ops.linalg.compiled.blas import Products
from functrans.optimise.machine.contraction_layout import lay_out_contractions
from functrans.optimise.machine.outlining import Outlining, outline
from functrans.optimise.machine.product_layout import Columns, columns_first
from functrans.optimise.machine.scan_motion import Motion, move_out_of_scans
from functrans.optimise.machine.selection import Ranks, select_ranks
from functrans.optimise.machine.write_coalescing import coalesce_writes

RNG = np.random.default_rng(0)
XS, W, U = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=(20, 20)) / 9
X = RNG.normal(size=(40, 64))


def products_with_inputs(w, h, xs):
    return lax.scan(lambda h, x: (np.tanh(h + w @ x), None), h, xs)[0]


def products_with_carry(u, h):
    return lax.scan(lambda h, _: (np.tanh(u @ h), None), h, None, 3)[0]


def gram(x):
    return x.T @ x


def assigned(x):
    y = x * 0.5
    y[:1], y[1:2] = x[2:3], x[:1] + 1.0
    return y


def steps(x):
    for _ in range(5):
        x = np.sin(x) * 0.9
    return x


CASES = [
    (move_out_of_scans, products_with_inputs, (W, W[0], XS), Motion(least_work=1)),
    (columns_first, products_with_carry, (U, U[0]), Columns(least_steps=2)),
    (lay_out_contractions, gram, (X,), Products(worth_splitting=1000)),
    (coalesce_writes, assigned, (XS[0],), Joins(few=1, small=1)),
    (select_ranks, np.median, (XS[:, 0],), Ranks(elements=0)),
    (outline, steps, (XS,), Outlining(least_code=1, least_saved=1)),
]


@pytest.mark.parametrize(
    ("rewrite", "function", "args", "low"), CASES, ids=[rewrite.__name__ for rewrite, *_ in CASES]
)
def test_a_lower_threshold_changes_what_is_done(rewrite, function, args, low):
    graph = jit(function).lower(*args).graph()
    after = checked(rewrite(graph, CPU.having(low)), rewrite.__name__)
    assert after != rewrite(graph, CPU)
    wanted = evaluate(graph, args)
    for one, other in zip(evaluate(after, args), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
