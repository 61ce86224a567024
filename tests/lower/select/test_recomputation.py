"""The bound on recomputation in plans, by counts of operations."""

import numpy as np
import pytest

from functrans import grad, hessian, jit, lax, vmap
from functrans.loop.nodes import INDEX, fold, guard, index
from functrans.loop.operations import operations, operations_of
from functrans.loop.scalar import const
from functrans.loop.statements import For, Store, buffer, load
from functrans.loop.target import CPU
from functrans.lower import pipeline as schedule
from functrans.lower.select.materialise import materialised
from functrans.lower.select.partition import compiled
from functrans.lower.select.recomputation import excessive, expected_demand, graph_work
from functrans.lower.select.selection import select
from functrans.ops.compiled.emission import emitted
from functrans.optimise import rewritten
from tests.lower.work import asked_and_done, check, check_graph
from tests.primitives.harness import cases, tangent_graph
from tests.targets import take_host_for

rng = np.random.default_rng(0)


def convolved(x, k):
    height, width = (x.shape[axis] - k.shape[axis - 1] + 1 for axis in (1, 2))
    return sum(
        np.einsum("bhwc,cd->bhwd", x[:, i : i + height, j : j + width], k[i, j])
        for i in range(k.shape[0])
        for j in range(k.shape[1])
    )


def pooled(x, how):
    b, h, w, c = x.shape
    return getattr(x.reshape(b, h // 2, 2, w // 2, 2, c), how)(axis=(2, 4))


def network(how):
    def loss(k1, b1, k2, b2, x):
        hidden = pooled(convolved(x, k1) + b1, how)
        return np.sum(pooled(convolved(hidden, k2) + b2, how) ** 2)

    return loss


IMAGES = (
    rng.normal(size=(3, 3, 1, 4)),
    np.zeros(4),
    rng.normal(size=(3, 3, 4, 9)),
    np.zeros(9),
    rng.normal(size=(2, 18, 18, 1)),
)


def stencils(depth):
    def f(x):
        for _ in range(depth):
            x = x[1:-1] * 2 + x[2:] * x[:-2]
        return x

    return f


def stencils_of_planes(depth):
    def f(x):
        for _ in range(depth):
            x = x[1:-1, 1:-1] * -4 + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
        return x

    return f


def grown(x):
    y = x
    for _ in range(2):
        y = (y * 1.5 + 1)[..., None] * (x * 0.5 - 2)
    return y


def products_so_far(x):
    columns = [x[:, 0]]
    for i in range(1, x.shape[1]):
        columns.append(columns[-1] * x[:, i])
    return np.stack(columns, 1)


def normalised(x, axis):
    centred = x - np.mean(x, axis, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis, keepdims=True) + 1e-5)


def normalised_again(x):
    for _ in range(3):
        x = normalised(x, 0) * x
    return x


def batch_norm(x, w):
    y = np.einsum("bhwc,cd->bhwd", x, w)
    return np.maximum(normalised(y, (0, 1, 2)), 0)


def forward_algorithm(start, moves, seen):
    now, likelihood = start * seen[0], 0.0
    for t in range(1, len(seen)):
        now = (now @ moves) * seen[t]
        total = np.sum(now)
        likelihood, now = likelihood + np.log(total), now / total
    return likelihood


def kalman(z, f, h):
    m, s, total = np.zeros(2), np.eye(2), 0.0
    for t in range(len(z)):
        m, s = f @ m, f @ s @ f.T + 0.1 * np.eye(2)
        e, c = z[t] - h @ m, h @ s @ h + 0.5
        k = s @ h / c
        m, s, total = m + k * e, s - np.outer(k, h @ s), total - e * e / c - np.log(c)
    return total


def repulsion(q):
    d = np.sqrt(np.sum((q[:, None] - q[None]) ** 2, -1) + 0.1)
    return np.sum(np.exp(-d)) + np.sum(1 / d) + np.sum(np.max(np.tanh(d), 0))


def attention(q, k, v):
    s = np.einsum("bqd,bkd->bqk", q, k)
    s = np.exp(s - np.max(s, -1, keepdims=True))
    return np.sum(np.einsum("bqk,bkd->bqd", s / np.sum(s, -1, keepdims=True), v) ** 2)


def choices(x):
    for i in range(8):
        x = np.where(x > 0.1 * i, np.sin(x) * 2, np.exp(-x) * x)
    return x


def horner(x):
    y = 0.0 * x
    for i in range(20):
        y = y * x + i
    return y


def waves(x):
    def step(x, _):
        y = np.pad(x, 1)
        return np.tanh(y[2:] - y[:-2]) * x, None

    return lax.scan(step, x, None, length=20)[0]


def squares(f):
    return grad(lambda *args: np.sum(f(*args) ** 2))


PROGRAMS = {
    "conv net, mean": (grad(network("mean"), (0, 1, 2, 3)), *IMAGES),
    "conv net, max": (grad(network("max"), (0, 1, 2, 3)), *IMAGES),
    "conv net by samples": (
        vmap(grad(network("mean"), (0, 1, 2, 3)), (None,) * 4 + (0,)),
        *IMAGES[:4],
        IMAGES[4][:, None],
    ),
    **{f"stencils of integers, {n}": (stencils(n), np.arange(500)) for n in (1, 2, 3, 4, 8)},
    **{f"stencils, {n}": (squares(stencils(n)), rng.normal(size=500)) for n in (1, 2, 4)},
    **{f"of planes, {n}": (stencils_of_planes(n), rng.normal(size=(50, 60))) for n in (2, 4)},
    "gradient of planes": (squares(stencils_of_planes(3)), rng.normal(size=(50, 60))),
    "growing": (grown, rng.normal(size=30)),
    "gradient of growing": (squares(grown), rng.normal(size=30)),
    "products so far": (products_so_far, rng.normal(size=(200, 20))),
    "gradient of products so far": (squares(products_so_far), rng.normal(size=(200, 20))),
    "normalised": (normalised_again, rng.normal(size=(300, 7))),
    "gradient of normalised": (squares(normalised_again), rng.normal(size=(300, 7))),
    "batch norm": (batch_norm, rng.normal(size=(8, 10, 10, 4)), rng.normal(size=(4, 6))),
    "outer": (
        squares(lambda x: horner(x)[:, None] * horner(x)[None, :]),
        rng.normal(size=100),
    ),
    "cheap outer": (lambda x: np.sum((x * 2 + 1)[:, None] * ((x + 2) * x), 1), np.ones(100)),
    "hidden Markov": (
        vmap(grad(forward_algorithm, (0, 1, 2)), (None, None, 0)),
        np.ones(5) / 5,
        np.ones((5, 5)) / 5,
        rng.random((50, 8, 5)),
    ),
    "Kalman": (
        vmap(grad(kalman), (0, None, None)),
        rng.normal(size=(50, 6)),
        np.array([[1.0, 1.0], [0.0, 1.0]]),
        np.array([1.0, 0.0]),
    ),
    "repulsion": (grad(repulsion), rng.normal(size=(60, 3))),
    "attention": (grad(attention, (0, 1, 2)), *(rng.normal(size=(3, 2, 40, 5)))),
    "choices": (squares(choices), rng.normal(size=300)),
    "waves": (squares(waves), rng.normal(size=300)),
    "Hessian": (hessian(lambda x: np.log(np.sum(np.exp(x)))), rng.normal(size=40)),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("name", PROGRAMS)
def test_little_is_computed_again(name):
    check(*PROGRAMS[name])


@pytest.mark.full
@pytest.mark.parametrize("derivative", [False, True])
def test_every_primitive_keeps_to_the_bound(derivative):
    graphs = []
    for case in cases(np.float64).values():
        graph = case.graph()
        if derivative and case.differentiable:
            graph = tangent_graph(graph, case.moving)
        # an equation with a loop of its own does more than is known of it
        if all(compiled(eqn, CPU) and emitted(eqn, CPU) is None for eqn in graph.eqns):
            graphs.append(graph)
    assert len(graphs) > 100
    for graph in graphs:
        check_graph(graph)


@pytest.mark.dear
@pytest.mark.parametrize("name", ["conv net, max", "products so far", "stencils of integers, 8"])
def test_what_is_kept_changes_no_result(name):
    function, *args = PROGRAMS[name]
    for found, wanted in zip(jit(function)(*args), function(*args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.full
def test_windows_are_found_before_expressions_are_made(monkeypatch):
    planned = []

    def noted(graph, *args):
        planned.append(graph)
        return select(graph, *args)

    def loss(k1, k2, x):
        hidden = pooled(np.tanh(convolved(x, k1)), "mean")
        return np.sum(pooled(np.tanh(convolved(hidden, k2)), "mean") ** 2)

    monkeypatch.setattr(schedule, "select", noted)
    k1, k2, x = (np.ones(shape) for shape in ((5, 5, 1, 6), (5, 5, 6, 16), (2, 28, 28, 1)))
    jit(grad(loss, (0, 1))).lower(k1, k2, x).llvm()
    assert planned
    assert len(set(planned)) == len(planned)


def expectation(function, *args):
    """What is expected to be computed more than once, by the times for each element."""
    graph = rewritten(jit(function).lower(*args).graph(), CPU)
    found = expected_demand(graph, materialised(graph, CPU), CPU)
    often = {var: n / var.aval.size for var, n in found.times.items() if n > var.aval.size}
    kept = excessive(graph, graph_work(graph, CPU), found, CPU)
    return sorted(often.values()), kept


def windows_of_sums(x):
    y = np.sum(x.reshape(-1, 3), 1) * 0.5
    return y[3:] * y[2:-1] + y[1:-2] * y[:-3]


def test_what_is_expected_of_windows():
    often, kept = expectation(windows_of_sums, np.arange(90.0))
    # the product, the sum and the rows: for four windows of 27 elements of 30
    assert often == [4 * 27 / 30] * 3
    assert {var.aval.shape for var in kept} == {(30,)}


def test_elementwise_uses_are_expected_to_share():
    def f(x):
        y = x * 2 + 1
        return y * y, (y + 1) * y - y

    assert expectation(f, np.arange(100.0)) == ([], set())


def test_elementwise_chains_keep_nothing():
    cost = jit(squares(horner)).lower(np.ones(3000)).cost()
    assert len(cost.nests) == 1
    assert cost.temporary_bytes == 0


def test_a_large_array_is_rather_computed_again_than_kept_if_it_is_cheap():
    n = 400
    assert 8 * n * n > CPU.cache
    assert jit(stencils_of_planes(2)).lower(np.ones((n, n))).cost().temporary_bytes == 0


def test_twice_the_levels_of_large_arrays_are_twice_the_work():
    def work(depth):
        return asked_and_done(jit(stencils(depth)).lower(np.arange(CPU.cache)).graph())[1]

    assert work(24) < 2.2 * work(12)


# -- the counts themselves -------------------------------------------------------------------------

ROWS, COLUMNS = index("i", 10), index("j", 20)
X, Y = buffer("x", np.float64, (10, 20)), buffer("y", np.float64, (10, 20))
ELEMENT = load(X, (ROWS, COLUMNS))


def loops(value):
    body = Store(Y, (ROWS, COLUMNS), value)
    inner = For(COLUMNS, const(0, INDEX), const(20, INDEX), (body,))
    return (For(ROWS, const(0, INDEX), const(10, INDEX), (inner,)),)


def test_operations_are_counted_once_for_each_iteration():
    square = ELEMENT * ELEMENT
    assert operations_of(loops(square + square)) == 2 * 200


def test_indices_are_not_counted_and_integers_are():
    numbers = buffer("n", np.int64, (10, 20))
    assert operations([load(X, (ROWS + 1, COLUMNS * 2))]) == 0
    assert operations([load(numbers, (ROWS, COLUMNS)) * 2 + 1]) == 2


def test_each_arm_of_a_guard_is_counted_on_its_own():
    dear = ELEMENT * 2 + 1
    one, other = (guard(ROWS < n, dear, 0.0) for n in (3, 5))
    assert operations([one + other]) == 2 * (2 + 1) + 1


def test_a_fold_is_counted_for_each_step():
    assert operations([fold("add", (30,), lambda k: load(X, (ROWS, k)) * 2)]) == 30 * 2


def test_a_sum_over_nothing_asks_for_nothing(monkeypatch):
    """All rounds of planning are gone through, though there is nothing to compute."""
    take_host_for(monkeypatch, recomputation={"bound": -1}, unrolling={"sums": 1})
    x, y = np.float64(2.0), np.ones(0)
    slope = jit(grad(lambda x, y: np.sum(x * y * 3.0) + np.sum(np.sin(x) * y), argnums=(0, 1)))
    assert slope(x, y)[0] == 0.0 and slope(x, y)[1].shape == (0,)
