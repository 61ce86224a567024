"""Each pass can be skipped: results of the registry, and of a program for each pass, stay right."""

import re
from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest

import functrans
from functrans import config, grad, jacfwd, jit, lax
from functrans.ir.types import is_complex
from functrans.loop.target import CPU
from functrans.lower.select.partition import compiled
from functrans.ops.collectives.collectives import psum
from functrans.optimise import legalised, optimise, rewritten
from functrans.optimise.passes import FOR_CORES, SIMPLIFICATION
from functrans.run.call.compiled import compile_graph
from tests.fuzz import programs
from tests.primitives.harness import like, pullback_graph, run, tangent_graph
from tests.primitives.test_compiled import COMPILED, COMPLEX

NAMES = dict.fromkeys(
    each.name
    for each in (*SIMPLIFICATION, *FOR_CORES.legalisation, *FOR_CORES.machine)
    if not each.is_required
)

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape) / 4


@jit
def called(x):
    return np.sin(x)


def stepping(w, h, xs):
    """A step that carries a value which never changes, and stacks one twice."""
    return lax.scan(lambda c, x: ((np.tanh(w @ c[0] + x), c[1]), (c[0], c[0])), (h, h), xs)


def twice(w, h, xs):
    """A loop, and another one that does the same and more."""
    first = lax.scan(lambda c, x: (np.tanh(w @ c + x), None), h, xs)[0]
    second, kept = lax.scan(lambda c, x: (np.tanh(w @ c + x), c), h, xs)
    return np.sum(first) + np.sum(second * kept)


def steps(x):
    for _ in range(100):
        x = np.sin(np.cos(np.tanh(np.exp(-x * x)) * 0.9) + x) * 0.9
    return x


def logsumexp(x):
    largest = np.max(x, 1)
    return np.sum(np.log(np.sum(np.exp(x - largest[:, None]), 1)) + largest)


def pieces(x):
    return np.concatenate(
        [np.concatenate([x[i : i + 2], 2 * x[i : i + 2]]) for i in range(0, 40, 4)]
    )


def replaced(x):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] = np.tanh(y[i] * y[i - 1])
    return y


class Alone(NamedTuple):
    """The one process of a mesh, which passes messages to itself, by Python."""

    key: None = None

    def psum(self, x):
        return np.asarray(x)[()]


def added_up(x):
    return psum(x, np.int64(0), name="i", size=1, engine=Alone())


RECURRENT = drawn(40, 40), drawn(40), drawn(20, 40)
FUNCTIONS = {
    "inline": (lambda x: called(x) * 2.0, drawn(5)),
    "merge_in_loops": (stepping, *RECURRENT),
    "propagate_into_loops": (
        lambda h, xs: lax.scan(lambda c, x: (c[[2, 0, 1]] + x, None), h, xs)[0],
        drawn(3),
        drawn(5, 3),
    ),
    "index_by_constants": (lambda x: x[:, [2, 0, 0, 1]] * 2.0, drawn(5, 3)),
    "prune_in_loops": (lambda *args: stepping(*args)[0][0], *RECURRENT),
    "optimise_inner": (
        lambda h, xs: lax.scan(lambda c, x: (c * 1.0 + x * np.sin(x) * np.sin(x), None), h, xs)[0],
        drawn(3),
        drawn(5, 3),
    ),
    "eliminate_dead_code": (grad(lambda x: np.sum(np.sin(x) * x)), drawn(7)),
    "fold_constants": (grad(lambda x: np.sum(np.sin(x) * x) / 2), drawn(5)),
    "simplify": (lambda x: x * 1.0 + x, drawn(5)),
    "merge_equal": (lambda x: np.exp(x) + np.exp(x) * x, drawn(5)),
    "merge_twins": (twice, *RECURRENT),
    "bucket_sums": (lambda x, y: added_up(x) * added_up(2.0 * y), drawn(5), drawn(5)),
    "compare_for_diagonals": (grad(lambda x: np.sum(np.diag(x) ** 2)), drawn(20, 20)),
    "add_scatters_last": (
        grad(lambda x, i, k: np.sum((x - np.log(np.sum(np.exp(x), axis=1)[:, None]))[i, k])),
        drawn(30, 4),
        np.arange(9),
        np.arange(9) % 4,
    ),
    "leave_out_zero_blocks": (
        jacfwd(
            lambda p, t: sum(
                p[i] * np.exp(-p[i + 2] * (t - p[i + 1]) ** 2) for i in range(0, 18, 3)
            )
        ),
        drawn(18),
        drawn(100),
    ),
    "select_ranks": (np.median, drawn(300)),
    "leave_out_shifts": (grad(logsumexp), drawn(30, 4)),
    "broadcast_last": (
        lambda x, y: np.sin(np.broadcast_to(x, (30, 40))) * np.cos(np.broadcast_to(y, (30, 40))),
        drawn(40),
        drawn(40),
    ),
    "forward_slices": (replaced, drawn(5, 9)),
    "gather_last": (lambda x, i: np.exp(-x[i]), drawn(5), np.arange(30) % 5),
    "distribute_sums": (
        lambda x, y: np.sum((x[:, :, None] * y[:, None, :]) ** 2, axis=(1, 2)),
        drawn(8, 60),
        drawn(8, 70),
    ),
    "halve_transforms": (lambda x: np.fft.fft2(x).real, drawn(16, 16)),
    "swap_products": (lambda x, y: (x @ y).T, drawn(40, 30), drawn(30, 50)),
    "transpose_last": (
        lambda w, x: np.tanh(np.einsum("kij,nkj->nki", w, x)),
        drawn(5, 32, 32),
        drawn(40, 5, 32),
    ),
    "store_intermediates": (
        grad(lambda x: lax.fori_loop(0, 9, lambda _, c: np.exp(np.sin(c) - c * c), x)),
        0.5,
    ),
    "move_out_of_scans": (
        lambda w, h, xs: lax.scan(lambda h, x: (np.tanh(h + w @ x), None), h, xs)[0],
        *RECURRENT,
    ),
    "pack_before_loops": (
        lambda w, h: lax.scan(lambda h, _: (np.tanh(h @ w), None), h, None, 9)[0],
        drawn(96, 96),
        drawn(8, 96),
    ),
    "columns_first": (
        lambda w, h: lax.scan(lambda h, _: (np.tanh(w @ h), None), h, None, 9)[0],
        *RECURRENT[:2],
    ),
    "lay_out_contractions": (
        lambda x, y: np.tensordot(x, y, ((0, 2), (2, 0))),
        drawn(20, 30, 8),
        drawn(8, 9, 20),
    ),
    "gather_rows": (lambda x, i: x[:, i].T, drawn(5, 20), np.arange(40) % 20),
    "write_out_triangles": (
        lambda a, b: np.linalg.cholesky(a) @ b,
        np.eye(60) * 90 + np.ones((60, 60)),
        drawn(60, 40),
    ),
    "widen_half_products": (
        lambda x, y: x @ y,
        # whole numbers, whose sums are half floats
        np.rint(drawn(40, 30)).astype(np.float16),
        np.rint(drawn(30, 50)).astype(np.float16),
    ),
    "coalesce_writes": (pieces, drawn(40)),
    "solve_through_transposes": (lambda a, b: np.linalg.solve(a.T, b), drawn(9, 9), drawn(9)),
    "outline": (steps, drawn(50)),
}
"""A program that each pass is for."""


@pytest.fixture
def skipping():
    yield lambda *names: setattr(config, "skip_passes", names)
    config.skip_passes = ()


def test_each_pass_has_a_program():
    assert {*FUNCTIONS} == {*NAMES}


def rewritten_by_all(graph):
    return rewritten(legalised(optimise(graph), CPU), CPU, outlined=True)


@pytest.mark.parametrize("name", NAMES)
def test_results_stay_right(name, skipping):
    function, *args = FUNCTIONS[name]
    wanted = function(*args)
    graph = jit(function).lower(*args).graph(optimised=False)
    all_passes = rewritten_by_all(graph)
    skipping(name)
    assert rewritten_by_all(graph) != all_passes
    functrans.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12),
        jit(function)(*args),
        wanted,
    )


def graphs_of(case):
    """The graph of a sample, and those of its derivatives, with operands."""
    rng = np.random.default_rng(0)
    yield case.graph(), case.operands
    if case.differentiable and not any(is_complex(np.asarray(x).dtype) for x in case.operands):
        tangent = tangent_graph(case.graph(), case.moving)
        moving = [x for x, flag in zip(case.operands, case.moving, strict=True) if flag]
        directions = [like(rng, x) for x in moving]
        yield tangent, (*case.operands, *directions)
        cotangents = [like(rng, x) for x in run(tangent, (*case.operands, *directions))]
        pullback = pullback_graph(tangent, len(case.operands), len(directions))
        yield pullback, (*case.operands, *cotangents)


def check_all(graph, operands, skipping, about):
    """Compile a graph without each of the passes that change it, and compare with NumPy."""
    skipping()
    if not all(compiled(eqn, CPU) for eqn in legalised(optimise(graph), CPU).eqns):
        return
    seen = {rewritten_by_all(graph)}
    for name in NAMES:
        skipping(name)
        if (other := rewritten_by_all(graph)) in seen:
            continue
        seen.add(other)
        found = compile_graph(optimise(graph))(*operands)
        for x, wanted in zip(found, run(graph, operands), strict=True):
            np.testing.assert_allclose(
                x, wanted, rtol=1e-9, atol=1e-9, err_msg=f"{about} without {name}"
            )


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_registry_stays_right(dtype, skipping):
    for key, group in {**COMPILED, **COMPLEX}.items():
        if key.endswith(dtype):
            for graph, operands in chain.from_iterable(map(graphs_of, group)):
                check_all(graph, operands, skipping, key)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_drawn_programs_stay_right(seed, skipping):
    rng = np.random.default_rng([1911, seed])
    program = programs.draw(rng)
    with np.errstate(all="ignore"):
        graph, captured, *_ = jit(program).program_for(tuple(program.inputs), {})
    if all(aval.dtype == np.float64 for aval in graph.out_avals):
        check_all(graph, (*program.inputs, *captured), skipping, seed)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["fold"], "'fold' is no pass; those that may be left out are add_scatters_last, broad"),
        (["without_complex"], "'without_complex' is required; those that may be"),
    ],
)
def test_what_cannot_be_left_out(names, message, skipping):
    skipping(*names)
    with pytest.raises(ValueError, match=re.escape(f"functrans.config.skip_passes: {message}")):
        jit(np.sin)(np.ones(3))


def test_a_change_is_seen_by_what_is_compiled_already(skipping):
    function = jit(FUNCTIONS["halve_transforms"][0])
    x = FUNCTIONS["halve_transforms"][1]
    before, schedule = function(x), function.lower(x).schedule()
    skipping("halve_transforms")
    np.testing.assert_allclose(function(x), before, atol=1e-12)
    assert function.lower(x).schedule() != schedule
