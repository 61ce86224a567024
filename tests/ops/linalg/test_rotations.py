"""Jacobi eigenvalue and singular value decompositions by a team of threads, against NumPy.

For small matrices, the statements are interpreted with threads in any order, and their printed text
is emulated. The accuracy for larger matrices is tested with one thread that does the work of a
team, as machine code for this CPU.
"""

import importlib.util

import numpy as np
import pytest

from functrans import grad, lax, vmap
from functrans.ir.types import joined
from functrans.loop.failures import EIGENVALUES_NOT_CONVERGED, NOT_CONVERGED
from functrans.loop.statements import Call
from functrans.lower.grid.target import CUDA
from tests.emit.cuda.programs import emulate_plan, machine_code
from tests.ops.linalg.hermitian import (
    CALLING,
    REGISTERS,
    SERIAL,
    TEAMS,
    by_one_thread,
    check_singular,
    check_spectra,
    evaluated,
    plan,
    planned,
    stack,
)

HAS_COMPILER = importlib.util.find_spec("numba_cuda") is not None


def eigh(a):
    return tuple(np.linalg.eigh(a))


def upper(a):
    return tuple(np.linalg.eigh(a, "U"))


def full(a):
    return tuple(np.linalg.svd(a))


def reduced(a):
    return tuple(np.linalg.svd(a, full_matrices=False))


def singular_values(a):
    return np.linalg.svd(a, compute_uv=False)


def some(usual, others):
    """Parameters, of which the others take longer than what they find is worth, as a rule."""
    return [*usual, *(pytest.param(*each, marks=pytest.mark.slow) for each in sorted(others))]


SIZES = (1, 2, 3, 4, 5, 9, 17, 33, 64)
USUAL = [(1, "d"), (2, "D"), (3, "f"), (9, "d"), (9, "F"), (33, "f"), (64, "d")]


@pytest.mark.parametrize(
    ("n", "dtype"), some(USUAL, {(n, x) for n in SIZES for x in "fdFD"} - {*USUAL})
)
def test_spectra_are_exact(n, dtype):
    check_all(stack(n, dtype), dtype, SERIAL)


SMALL_ONES = [(1, "f"), (2, "d"), (3, "D"), (4, "f")]


@pytest.mark.parametrize(
    ("n", "dtype"), some(SMALL_ONES, {(n, x) for n in (1, 2, 3, 4) for x in "fdFD"} - {*SMALL_ONES})
)
def test_so_are_those_in_registers(n, dtype):
    a = stack(n, dtype)
    check_all(a, dtype, REGISTERS)
    steps = plan(eigh, a, on=REGISTERS).steps
    in_registers = not any(step.kernel.scratch for step in steps)
    assert in_registers == (n < 4 or dtype != "D")


def check_all(a, dtype, on):
    (values, vectors), status = by_one_thread(eigh, a, on=on)
    vectors = joined(vectors, a.dtype) if dtype in "FD" else vectors
    assert status == 0
    check_spectra(a, values, vectors)
    (alone,), status = by_one_thread(np.linalg.eigvalsh, a, on=on)
    assert status == 0
    norm = np.abs(values).max(axis=-1, keepdims=True)
    assert (np.abs(alone - values) <= 8 * np.finfo(dtype).eps * norm).all()


SHAPES = ((1, 1), (2, 2), (3, 3), (9, 9), (64, 64), (2, 4), (17, 9), (32, 33), (70, 8))
USUAL_SHAPES = [((3, 3), "d"), ((2, 4), "f"), ((17, 9), "d"), ((64, 64), "f")]


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    some(USUAL_SHAPES, {(each, x) for each in SHAPES for x in "fd"} - {*USUAL_SHAPES}),
)
def test_singular_values_are_exact(shape, dtype):
    n = max(shape)
    a = stack(n, dtype)[:, : shape[0], : shape[1]]
    (u, s, vh), status = by_one_thread(full, a)
    assert status == 0 and u.shape[1:] == (shape[0],) * 2 and vh.shape[1:] == (shape[1],) * 2
    check_singular(a, u, s, vh)
    (alone,), status = by_one_thread(singular_values, a)
    assert status == 0
    np.testing.assert_array_equal(alone, s)


def test_small_values_of_their_own_block_keep_their_digits():
    a = np.zeros((9, 9))
    a[0, 0], a[4:6, 4:6] = 1e20, [[2, 1], [1, 2]]
    (values,), _ = by_one_thread(np.linalg.eigvalsh, a[None])
    np.testing.assert_allclose(values[0], [0] * 6 + [1, 3, 1e20], rtol=1e-15)
    (values,), _ = by_one_thread(singular_values, a[None])
    np.testing.assert_allclose(values[0], [1e20, 3, 1] + [0] * 6, rtol=1e-15)


def test_reflections_of_numbers_with_few_digits():
    """What is left of dependent columns vanishes, step by step, and is subnormal before."""
    (q, r), status = by_one_thread(lambda a: tuple(np.linalg.qr(a)), np.ones((1, 64, 64), "f"))
    assert status == 0
    np.testing.assert_allclose(q[0].T @ q[0], np.eye(64), atol=1e-5)
    np.testing.assert_allclose(q[0] @ r[0], 1, atol=1e-5)


def test_a_diagonal_comes_out_as_it_is():
    a = np.diag(np.random.default_rng(0).normal(size=9) / 3)
    (values, vectors), _ = by_one_thread(eigh, a[None])
    np.testing.assert_array_equal(values[0], np.sort(np.diagonal(a)))
    np.testing.assert_array_equal(np.sort(vectors[0], axis=0)[-1], 1)


# -- by a team -------------------------------------------------------------------------------------


def drawn(*shape, dtype="d", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype in "FD" else x).astype(dtype)


def hermitian(x, lower=True):
    x = np.tril(x) if lower else np.triu(x)
    diagonal = np.einsum("...ii->...i", x).real
    return (x + x.conj().mT - diagonal[..., None] * np.eye(x.shape[-1])).astype(x.dtype)


@pytest.mark.few(1)
@pytest.mark.parametrize("on", TEAMS)
@pytest.mark.parametrize(
    "shape", some([(1, 1), (2, 3, 3), (1, 1, 4, 4)], [((2, 2),), ((7, 7),), ((2, 9, 9),)])
)
def test_threads_may_come_in_any_order(shape, on):
    a, on = drawn(*shape), TEAMS[on]
    found, status = evaluated(upper, a, on=on)
    assert status == 0
    check_spectra(hermitian(a, lower=False), *found)
    found, status = evaluated(reduced, a, on=on)
    assert status == 0
    check_singular(a, *found)


@pytest.mark.full
@pytest.mark.parametrize("function", [eigh, upper])
def test_complex_matrices(function):
    a = drawn(3, 3, dtype="D")
    (values, vectors), status = evaluated(function, a, on=TEAMS["large"])
    assert status == 0
    check_spectra(hermitian(a, function is eigh), values, joined(vectors, a.dtype))


@pytest.mark.full
def test_only_one_triangle_is_read():
    a = drawn(5, 5)
    for function, other in ((eigh, np.triu), (upper, np.tril)):
        hidden = np.where(other(np.ones((5, 5)), 1 if other is np.triu else -1) == 1, np.nan, a)
        found, status = evaluated(function, hidden)
        assert status == 0
        check_spectra(hermitian(a, function is eigh), *found)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (2, 5, 4)])
@pytest.mark.parametrize("function", [full, reduced])
def test_rectangles(function, shape):
    a = drawn(*shape)
    a[..., -1] = 0  # (of less than full rank: vectors are made up)
    found, status = evaluated(function, a)
    assert status == 0
    for mine, value in zip(found, function(a), strict=True):
        assert mine.shape == value.shape
    check_singular(a, *found)


@pytest.mark.full
@pytest.mark.parametrize("n", some([7], [(33,)]))
def test_kernels_as_they_are_printed(n):
    a = drawn(2, n, n, dtype="f")
    (values, vectors), status = emulate_plan(*planned(eigh, a))
    assert status == 0
    check_spectra(hermitian(a), values, vectors)
    found, status = emulate_plan(*planned(reduced, a[:, :, :5]))
    assert status == 0
    check_singular(a[:, :, :5], *found)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (3, 0), (0, 3)])
def test_of_nothing_there_is_nothing(shape):
    for function in (eigh, np.linalg.eigvalsh, reduced, singular_values, np.linalg.pinv):
        if function in (eigh, np.linalg.eigvalsh) and shape[-1] != shape[-2]:
            continue
        found, status = evaluated(function, np.zeros(shape))
        wanted = function(np.zeros(shape))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        assert status == 0
        assert [x.shape for x in found] == [x.shape for x in wanted]


@pytest.mark.parametrize("n", [9, 32, 64])
def test_one_kernel_for_a_stack(n):
    a = np.broadcast_to(np.zeros((), "f"), (5000, n, n))
    for function in (eigh, np.linalg.eigvalsh, singular_values):
        (step,) = plan(function, a).steps
        assert step.kernel.team >= 32 and len(step.kernel.band) == 1
        # from 64 rows on the vectors have no room beside the matrix
        assert n == 64 or sum(row.nbytes for row in step.kernel.scratch) <= CUDA.grid.shared
    (step,) = plan(reduced, a).steps
    assert step.kernel.team >= 32


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("n", [3, 5])
def test_nan_does_not_converge(n):
    a = np.full((n, n), np.nan)
    a[1, 0] = 0
    for function, failure in (
        (eigh, EIGENVALUES_NOT_CONVERGED),
        (np.linalg.eigvalsh, EIGENVALUES_NOT_CONVERGED),
        (reduced, NOT_CONVERGED),
        (singular_values, NOT_CONVERGED),
    ):
        assert evaluated(function, a)[1] == failure
        with pytest.raises(np.linalg.LinAlgError):
            function(a)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("function", [np.linalg.eigvalsh, singular_values])
def test_infinities_make_nan(function, n):
    a = np.ones((n, n))
    a[0, 0] = np.inf
    (found,), status = evaluated(function, a)
    assert status == 0 and np.isnan(found).all() and np.isnan(function(a)).all()


# -- what is made of them --------------------------------------------------------------------------


def root(a):
    """The square root of a definite matrix."""
    values, vectors = np.linalg.eigh(a)
    return (vectors * np.sqrt(values)[..., None, :]) @ vectors.mT


def nearest_rotation(a):
    u, _, vh = np.linalg.svd(a)
    return u @ vh


def whitened(a):
    return lax.scan(lambda x, _: (root(x) + np.eye(4), np.linalg.eigvalsh(x)), a, None, length=2)


def shrunk(a):
    def step(state):
        x, count = state
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        return (u * (s * 0.5)) @ vh, count + 1

    return lax.while_loop(lambda state: np.sum(state[0] ** 2) > 0.1, step, (a, 0))


def exponential(a):
    values, vectors = np.linalg.eigh(a)
    return (vectors * np.exp(1j * values)[..., None, :]) @ vectors.conj().mT


DEFINITE = drawn(2, 4, 4) @ drawn(2, 4, 4).mT + np.eye(4)
PROGRAMS = {
    "function of a matrix": (root, DEFINITE),
    "gradient": (vmap(grad(lambda a: np.sum(root(a) ** 3))), DEFINITE),
    "gradient by vectors": (grad(lambda a: np.sum(nearest_rotation(a) * a)), drawn(3, 3)),
    "scan": (whitened, DEFINITE[0]),
    "scans of a batch": (vmap(whitened), DEFINITE),
    "while loop": (shrunk, drawn(4, 3)),
    "while loops of a batch": (vmap(shrunk), drawn(2, 4, 3)),
    "map": (lambda a: lax.map(root, a), DEFINITE),
    "pseudo-inverse": (np.linalg.pinv, drawn(2, 4, 3)),
    "least squares": (lambda a, b: np.linalg.lstsq(a, b)[0], drawn(5, 3), drawn(5)),
    "norms": (lambda a: (np.linalg.norm(a, 2), np.linalg.norm(a, "nuc")), drawn(4, 3)),
    "slope of a determinant": (grad(np.linalg.det), drawn(5, 5)),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    function, *operands = PROGRAMS[name]
    found, status = evaluated(function, *operands)
    wanted = function(*operands)
    assert status == 0
    leaves = wanted if isinstance(wanted, tuple) else (wanted,)
    for mine, value in zip(found, leaves, strict=True):
        np.testing.assert_allclose(mine, value, rtol=1e-9, atol=1e-9)


@pytest.mark.full
def test_programs_of_complex_matrices():
    a = hermitian(drawn(2, 3, 3, dtype="D"))
    (found,), status = evaluated(exponential, a)
    assert status == 0
    np.testing.assert_allclose(joined(found, a.dtype), exponential(a), rtol=1e-9, atol=1e-9)
    (found,), _ = evaluated(lambda a: lax.map(np.linalg.eigvalsh, a), a)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(a), rtol=1e-12)


# -- beside a library ------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [eigh, reduced])
@pytest.mark.parametrize(
    ("shape", "by_library"), [((64, 64), False), ((65, 65), True), ((33, 65, 65), False)]
)
def test_large_matrices_are_the_library_s_if_there_are_few(function, shape, by_library):
    made = plan(function, np.broadcast_to(np.eye(shape[-1]), shape), on=CALLING)
    calls = [x for step in made.steps for x in step.kernel.body if isinstance(x, Call)]
    assert bool(calls) == by_library


# -- machine code ----------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.skipif(not HAS_COMPILER, reason="numba-cuda is not installed")
@pytest.mark.parametrize(
    ("function", "shape", "dtype", "spills"),
    [
        (eigh, (50, 4, 4), "d", 0),
        (eigh, (500, 16, 16), "F", 8),  # one number, stored and loaded
        (eigh, (5000, 60, 60), "d", 0),
        (reduced, (5000, 40, 32), "f", 0),
    ],
)
def test_kernels_become_machine_code_with_few_spills(function, shape, dtype, spills):
    for kernel in plan(function, np.broadcast_to(np.zeros((), dtype), shape)).kernels:
        assert dtype in "dD" or ".f64" not in machine_code(kernel, spills=spills).ptx
