"""Linear algebra by teams of threads: NumPy's results and NumPy's failures, also in loops."""

import importlib.util

import numpy as np
import pytest

from functrans import grad, lax, vmap
from functrans.loop.failures import NOT_POSITIVE_DEFINITE, SINGULAR
from functrans.lower.grid.target import CUDA
from functrans.run.cuda import launches
from functrans.scipy.linalg import lu_factor, solve_triangular
from tests.emit.cuda.programs import emulated, interpreted, plan
from tests.loop.plans import evaluate_plan, shuffled
from tests.ops.on_a_grid import SMALL
from tests.targets import target

HAS_COMPILER = importlib.util.find_spec("numba_cuda") is not None
RNG = np.random.default_rng(0)

IN_MEMORY = target(CUDA, grid={"rows": 256})
"""A GPU for whose shared memory all matrices are too large."""


def check(function, *operands, on=CUDA, by=interpreted, rounding=1e-10):
    """Assert that a plan gives what NumPy gives; returns it."""
    made = plan(function, *operands, machine=on)
    found = by(made, operands)
    wanted = function(*operands)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for mine, value in zip(found, map(np.asarray, wanted), strict=True):
        assert (mine.shape, mine.dtype) == (value.shape, value.dtype)
        scale = max(1.0, np.max(np.abs(value), initial=0.0))
        np.testing.assert_allclose(mine, value, rtol=rounding, atol=rounding * scale)
    return made


def regular(*shape, dtype=np.float64):
    """Matrices of which elimination exchanges the rows."""
    return RNG.normal(size=shape).astype(dtype)


def definite(*shape, dtype=np.float64):
    x = RNG.normal(size=shape)
    return (x @ x.mT + shape[-1] * np.eye(shape[-1])).astype(dtype)


def triangular(*shape, dtype=np.float64):
    """Well-conditioned triangles, with NaN where nothing is to be read: as `lower` ones."""
    x = RNG.normal(size=shape) / shape[-1] + 2 * np.eye(shape[-1])
    return np.where(np.tri(shape[-1], dtype=bool), x, np.nan).astype(dtype)


def lower(a, b):
    return solve_triangular(a, b, lower=True, check_finite=False)


def upper(a, b):
    return solve_triangular(a.mT, b, lower=False, check_finite=False)


def lower_of_transposed(a, b):
    return solve_triangular(a, b, trans=1, lower=True, check_finite=False)


def upper_with_ones(a, b):
    return solve_triangular(a.mT, b, lower=False, unit_diagonal=True, check_finite=False)


def solve_of_transposed(a, b):
    return grad(lambda b: np.sum(np.linalg.solve(a, b) ** 2))(b)


def of_one(a, b):
    return np.linalg.solve(a, b[..., None])[..., 0]


def triangle(a):
    return np.linalg.qr(a, mode="r")


def complete(a):
    return np.linalg.qr(a, mode="complete")


HUGE_AND_TINY = regular(9, 4) * np.array([1e200, 1e-200, 0, 1])

FUNCTIONS = {
    "cholesky": (np.linalg.cholesky, definite(9, 9)),
    "cholesky of a stack": (np.linalg.cholesky, definite(2, 3, 9, 9)),
    "cholesky of more rows than a warp has threads": (np.linalg.cholesky, definite(33, 33)),
    "solve": (of_one, regular(9, 9), regular(9)),
    "solve for a stack": (of_one, regular(3, 11, 11), regular(3, 11)),
    "solve for columns": (np.linalg.solve, regular(2, 9, 9), regular(2, 9, 5)),
    "solve for many columns": (np.linalg.solve, regular(2, 9, 9), regular(2, 9, 40)),
    "one matrix for many": (
        lambda a, b: vmap(np.linalg.solve, (None, 0))(a, b), regular(9, 9), regular(35, 9),
    ),
    "solve for more rows than a warp has threads": (of_one, regular(33, 33), regular(33)),
    "solve, transposed": (solve_of_transposed, regular(9, 9), regular(9)),
    "inverse": (np.linalg.inv, regular(3, 9, 9)),
    "determinant": (np.linalg.det, regular(3, 12, 12)),
    "logarithm of the determinant": (lambda a: tuple(np.linalg.slogdet(a)), regular(3, 9, 9)),
    "determinant of a singular matrix": (np.linalg.det, np.ones((9, 9))),
    **{
        f"{np.shape(a)} {kind}": (function, a)
        for a in (regular(2, 7, 7), regular(9, 4), regular(4, 9))
        for kind, function in (
            ("QR", lambda a: tuple(np.linalg.qr(a))),
            ("complete QR", lambda a: tuple(complete(a))),
            ("R", triangle),
        )
    },
    **{
        f"LU of {np.shape(a)}": (lambda a: tuple(lu_factor(a)), a)
        for a in (regular(2, 9, 9), regular(9, 4), regular(4, 9), regular(33, 33), np.ones((9, 9)))
    },
    "QR of columns with nothing to be taken away": (lambda a: tuple(complete(a)), np.eye(9, 4)),
    "QR of huge and tiny columns": (lambda a: np.linalg.qr(a)[0], HUGE_AND_TINY),
    "elements of any size": (np.linalg.inv, regular(9, 9) * 10.0 ** RNG.integers(-9, 9, (9, 1))),
    **{
        f"{function.__name__}, {columns} columns": (
            function, triangular(2, 9, 9), regular(2, 9, columns),
        )
        for function in (lower, upper, lower_of_transposed, upper_with_ones)
        for columns in ((1, 4, 33) if function is lower else (2,))
    },
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_matrices_are_a_team_s_each(name):
    function, *operands = FUNCTIONS[name]
    check(function, *operands, rounding=1e-8 if "elements" in name else 1e-10)


@pytest.mark.parametrize("on", [SMALL, IN_MEMORY], ids=["small", "in memory"])
@pytest.mark.parametrize("name", ["cholesky", "solve for columns", "lower, 4 columns"])
def test_on_other_grids(name, on):
    function, *operands = FUNCTIONS[name]
    check(function, *operands, on=on)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (np.linalg.cholesky, [definite(2, 33, 33, dtype="f")]),
        (np.linalg.solve, [regular(2, 12, 12, dtype="f"), regular(2, 12, 3, dtype="f")]),
        (np.linalg.solve, [regular(9, 9), regular(9, 33)]),
        (lower, [triangular(2, 12, 12), regular(2, 12, 2)]),
    ],
)
def test_kernels_as_they_are_printed(function, operands):
    check(function, *operands, by=emulated, rounding=1e-10 if operands[0].itemsize > 4 else 1e-3)


def test_one_kernel_for_a_stack():
    made = plan(np.linalg.cholesky, np.broadcast_to(np.eye(64, dtype="f"), (5000, 64, 64)))
    (step,) = made.steps
    assert step.kernel.team == 32 and len(step.kernel.band) == 1
    # rows in shared memory begin in different banks
    assert [row.extents for row in step.kernel.scratch] == [(64, 65), (64,)]


def test_columns_of_one_matrix_are_a_thread_s_each():
    made = plan(np.linalg.solve, np.eye(20), np.zeros((20, 100_000)))
    assert [step.kernel.team for step in made.steps][-1] == 1


# -- in loops --------------------------------------------------------------------------------------


def newton(a, b):
    """Newton's method for a system of equations."""

    def step(x, _):
        slope = a + 0.1 * np.outer(x, x)
        return x - np.linalg.solve(slope, slope @ x - b), np.sum(x)

    return lax.scan(step, b, None, length=3)


def until_close(a, b):
    def step(state):
        x, count = state
        return x - np.linalg.solve(a, a @ x - b), count + 1

    return lax.while_loop(lambda state: np.sum(np.abs(a @ state[0] - b)) > 1e-6, step, (b, 0))


def likelihood(a, y):
    """Of a Gaussian process."""
    factor = np.linalg.cholesky(a)
    half = lower(factor, y)
    return np.sum(half * half) + 2 * np.sum(np.log(np.diagonal(factor)))


def filtered(a, one, ys):
    """The steps of a Kalman filter whose state is observed."""

    def step(p, y):
        gain = np.linalg.solve(p + one, p).T
        return a @ (p - gain @ p) @ a.T + one, gain @ y

    return lax.scan(step, one, ys)[1]


STACKED = definite(2, 9, 9), regular(2, 9)
LOOPS = {
    "factors in a map": (lambda a, y: lax.map(lambda x: tuple(lu_factor(x)), a), *STACKED),
    "scan": (newton, STACKED[0][0], STACKED[1][0]),
    "scans of a batch": (vmap(newton), *STACKED),
    "while loop": (until_close, STACKED[0][0], STACKED[1][0]),
    "while loops of a batch": (vmap(until_close), *STACKED),
    "map": (lambda a, y: lax.map(lambda x: likelihood(*x), (a, y)), *STACKED),
    "gradients of a batch": (vmap(grad(likelihood)), *STACKED),
    "Kalman filters": (
        vmap(filtered, (0, None, None)),
        STACKED[0][:1] / 20,
        np.eye(9),
        regular(2, 9),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", LOOPS)
def test_inside_of_loops(name):
    function, *operands = LOOPS[name]
    check(function, *operands)


def test_scans_of_a_batch_are_a_kernel_of_a_warp_each():
    made = plan(vmap(newton), definite(100, 16, 16), regular(100, 16))
    assert len(made.steps) <= 2 and made.steps[0].kernel.team == 32
    assert not any(step.turns for step in made.steps)


# -- failures --------------------------------------------------------------------------------------


BROKEN = np.stack([np.eye(12), np.ones((12, 12))])
FAILURES = {
    "inverse": (np.linalg.inv, SINGULAR, BROKEN),
    "solve": (of_one, SINGULAR, BROKEN, np.ones((2, 12))),
    "solve for many": (np.linalg.solve, SINGULAR, BROKEN, np.ones((2, 12, 40))),
    "triangle": (lower, SINGULAR, BROKEN * np.tri(12, k=-1), np.ones((2, 12, 1))),
    "cholesky": (np.linalg.cholesky, NOT_POSITIVE_DEFINITE, BROKEN - 0.5 * np.eye(12)),
}


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("name", FAILURES)
def test_what_fails_says_so(name):
    function, status, *operands = FAILURES[name]
    assert evaluate_plan(plan(function, *operands), operands, shuffled(0))[1] == status
    with pytest.raises(np.linalg.LinAlgError):
        function(*operands)


@pytest.mark.parametrize("function", [np.linalg.cholesky, np.linalg.inv, np.linalg.det])
def test_nan_comes_out_and_is_no_failure(function):
    a = np.eye(12)
    a[3, 3] = np.nan
    found, status = evaluate_plan(plan(function, a), [a], shuffled(0))
    assert status == 0 and np.isnan(found[0]).any()


# -- machine code ----------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.skipif(not HAS_COMPILER, reason="numba-cuda is not installed")
@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (np.linalg.cholesky, [definite(20, 64, 64, dtype="f")]),
        (np.linalg.solve, [definite(20, 60, 60), regular(20, 60, 1)]),
        (lambda a: tuple(np.linalg.qr(a)), [definite(20, 40, 40, dtype="f")]),
    ],
)
def test_kernels_become_machine_code_with_few_spills(function, operands):
    for kernel in plan(function, *operands).kernels:
        made = launches.compiled(kernel, CUDA.grid, "sm_90").cubin
        assert made.resources.spills <= launches.FEW_SPILLS
        assert operands[0].itemsize == 8 or ".f64" not in made.ptx
