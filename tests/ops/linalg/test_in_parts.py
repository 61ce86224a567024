"""Compiled linear algebra of complex matrices, and of real ones with complex spectra, by LAPACK."""

import warnings

import numpy as np
import pytest
import scipy.linalg

import functrans
from functrans import config, jit, vmap
from functrans.errors import ShapeError
from functrans.ir.types import aval_of
from functrans.loop import footprints
from functrans.loop.target import CPU
from functrans.ops.linalg import factorisations as linalg
from functrans.ops.linalg.eigen import eig_p, eigvals_p
from functrans.ops.linalg.in_parts import in_parts_p
from functrans.ops.linalg.least_squares import lstsq_p, pinv_p
from functrans.ops.linalg.lu import lu_p
from functrans.ops.linalg.matrices import Matrices
from functrans.ops.linalg.qr import r_p
from functrans.ops.linalg.schur import schur_p
from functrans.ops.linalg.svd import svdvals_p
from functrans.run import blas
from functrans.scipy import linalg as scipy_linalg
from functrans.trace.stage import rewrite

SIZES = (1, 2, 17, 40)
LEADING = ((), (3,), (2, 3))


def matrices(*shape, dtype=np.complex128, seed=0):
    rng = np.random.default_rng([seed, *shape])
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def hermitian(a):
    return a @ np.swapaxes(a.conj(), -1, -2) + np.eye(a.shape[-1], dtype=a.dtype)


def compiled(f, *args):
    """The compiled function's results; it may not call NumPy."""
    made = jit(f)
    assert "call NumPy" not in made.lower(*args).schedule()
    results = made(*args)
    return results if isinstance(results, tuple) else (results,)


def phases(vectors):
    """Of the largest component of each column."""
    largest = np.abs(vectors).argmax(-2, keepdims=True)
    return np.sign(np.take_along_axis(vectors, largest, -2))


def of_eig(results):
    values, vectors = results
    order = np.argsort(values.real + values.imag / 100)[..., None, :]
    ordered = np.take_along_axis(vectors, order, -1)
    return np.take_along_axis(values, order[..., 0, :], -1), ordered / phases(ordered)


def of_svd(results):
    u, s, vh = results
    return u / phases(u), s, vh * phases(u).mT


NORMAL = {"eig": of_eig, "svd": of_svd}
"""Order and phases of what square matrices leave free: NumPy's LAPACK and SciPy's may differ."""


def check(f, *args, tolerance=1e-12, normal=None):
    """Compare with what is computed without compiling."""
    expected = f(*args)
    results = [compiled(f, *args), expected if isinstance(expected, tuple) else (expected,)]
    for found, value in zip(*(map(normal, results) if normal else results), strict=True):
        assert (found.shape, found.dtype) == (value.shape, value.dtype)
        size = np.abs(value).max(initial=1e-30)
        np.testing.assert_allclose(found, value, rtol=0, atol=tolerance * size)


SQUARE = {
    "cholesky": lambda a: np.linalg.cholesky(hermitian(a)),
    "upper": lambda a: np.linalg.cholesky(hermitian(a), upper=True),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "solve": lambda a: np.linalg.solve(a, a[..., :1] + 1),
    "transposed": lambda a: linalg.solve_p(a, a + 1, transpose_a=True),
    "lower": lambda a: linalg.solve_triangular(a, a + 1, lower=True),
    "upper, transposed": lambda a: linalg.solve_triangular(a, a + 1, trans=1),
    "unit, adjoint": lambda a: linalg.solve_triangular(a / 40, a, trans="C", unit_diagonal=True),
    "eigh": lambda a: tuple(np.linalg.eigh(hermitian(a))),
    "eigvalsh": lambda a: np.linalg.eigvalsh(hermitian(a), "U"),
    "eig": lambda a: tuple(eig_p(a)),
    "eigvals": lambda a: eigvals_p(a),
    "schur": lambda a: tuple(schur_p(a)),
}  # fmt: skip

ANY = {
    "svd": lambda a: tuple(np.linalg.svd(a)),
    "svd, thin": lambda a: tuple(np.linalg.svd(a, full_matrices=False)),
    "svdvals": lambda a: svdvals_p(a),
    "qr": lambda a: tuple(np.linalg.qr(a)),
    "complete qr": lambda a: tuple(np.linalg.qr(a, "complete")),
    "r": lambda a: r_p(a),
    "lu": lambda a: tuple(lu_p(a)),
    "pinv": np.linalg.pinv,
    "pinv, cut": lambda a: pinv_p(a, np.full(a.shape[:-2], 0.5)),
    "lstsq": lambda a: lstsq_p(a, a[..., :2] + 1, np.full(a.shape[:-2], 1e-10)),
}


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("n", SIZES)
def test_square_matrices(name, leading, n):
    a = matrices(*leading, n, n)
    a = a + n * np.eye(n) if "lower" in name or "upper," in name else a
    check(SQUARE[name], a)


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("shape", [(1, 1), (17, 17), (20, 3), (3, 20), (40, 31)])
@pytest.mark.parametrize("dtype", [np.complex128, np.float64])
def test_matrices_of_any_shape(name, leading, shape, dtype):
    check(ANY[name], matrices(*leading, *shape, dtype=dtype))


@pytest.mark.parametrize("name", [*SQUARE, *ANY])
def test_in_single_precision(name):
    a = matrices(2, 9, 9, dtype=np.complex64) + 9 * np.eye(9, dtype=np.complex64)
    check({**SQUARE, **ANY}[name], a, tolerance=1e-5)


@pytest.mark.parametrize("name", ["eig", "eigvals", "schur"])
@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("n", SIZES)
def test_real_matrices_with_complex_eigenvalues(name, leading, n):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        a = matrices(*leading, n, n, dtype=dtype)
        check(SQUARE[name], a, tolerance=tolerance, normal=NORMAL.get(name))


@pytest.mark.full
@pytest.mark.parametrize("name", ["cholesky", "solve", "eig", "lu", "eigh", "svd", "qr"])
def test_large_ones(name):
    """Whatever their size, unless LAPACK's own threads are worth more."""
    a = matrices(260, 260)
    if name in ("eigh", "svd", "qr"):
        a = a[:250, :250]
    check({**SQUARE, **ANY}[name], a, tolerance=1e-9, normal=NORMAL.get(name))


@pytest.mark.parametrize("shape", [(4, 17, 17), (260, 260)])
def test_what_the_factors_are_of(shape):
    """Against their definitions, not only NumPy's results: the phases of large ones may differ."""
    a, n = matrices(*shape), shape[-1]
    values, vectors = compiled(lambda a: tuple(eig_p(a)), a)
    np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], atol=1e-11)
    t, q = compiled(lambda a: tuple(schur_p(a)), a)
    np.testing.assert_allclose(q @ t @ np.swapaxes(q.conj(), -1, -2), a, atol=1e-11)
    factors, _, order = compiled(lambda a: tuple(lu_p(a)), a)
    product = (np.tril(factors, -1) + np.eye(n)) @ np.triu(factors)
    np.testing.assert_allclose(product, np.take_along_axis(a, order[..., None], -2), atol=1e-11)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4)])
def test_nothing_in_gives_nothing_out(shape):
    a = matrices(*shape)
    for name in ("cholesky", "inv", "det", "slogdet", "eigvals", "schur", "transposed"):
        f = SQUARE[name]
        expected, found = f(a), jit(f)(a)
        for value, own in zip(np.atleast_1d(expected), np.atleast_1d(found), strict=True):
            np.testing.assert_array_equal(own, value)


# -- errors ----------------------------------------------------------------------------------------


def spoilt(n, value):
    a = np.eye(n, dtype=np.complex128)
    a[1, 1] = value
    return a


def stacked(a):
    return np.stack([np.eye(len(a)), a, np.eye(len(a))])


FAILING = {
    "cholesky": (np.linalg.cholesky, -1),
    "inv": (np.linalg.inv, 0),
    "solve": (lambda a: np.linalg.solve(a, np.ones((*a.shape[:-1], 2))), 0),
    "triangular": (lambda a: linalg.solve_triangular(a, np.ones((*a.shape[:-1], 2))), 0),
    "eig": (lambda a: tuple(eig_p(a)), np.nan),
    "eigvals": (np.linalg.eigvals, 1j * np.inf),
    "schur": (lambda a: tuple(schur_p(a)), np.inf),
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("n", [3, 12])
@pytest.mark.parametrize("of_many", [False, True])
def test_errors_are_those_without_compiling(name, n, of_many):
    f, value = FAILING[name]
    a = stacked(spoilt(n, value)) if of_many else spoilt(n, value)
    with pytest.raises((np.linalg.LinAlgError, ValueError)) as expected, np.errstate(all="ignore"):
        f(a)
    made = jit(f)
    assert "call NumPy" not in made.lower(a).schedule()
    with pytest.raises(expected.type) as found:
        made(a)
    assert str(found.value) == str(expected.value)
    made(np.broadcast_to(np.eye(n) + 0j, a.shape).copy())  # and afterwards all is well again


@pytest.mark.parametrize("f", [np.linalg.eigvals, lambda a: tuple(schur_p(a))])
def test_real_matrices_have_to_be_finite(f):
    a = np.array([[1.0, np.nan], [0.0, 1.0]])
    with pytest.raises((np.linalg.LinAlgError, ValueError), match="must not contain infs or NaNs"):
        jit(f)(a)


def test_singular_matrices_have_the_determinant_zero():
    a = spoilt(12, 0)
    assert compiled(np.linalg.det, a) == (0,)
    assert compiled(lambda a: tuple(np.linalg.slogdet(a)), a) == (0, -np.inf)


def test_an_exactly_singular_lu_is_no_error():
    a = spoilt(4, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda a: tuple(lu_p(a)), a)


# -- what is around them ---------------------------------------------------------------------------


def energy(a, b):
    x = np.linalg.solve(a, b)
    return np.abs(np.linalg.eigvals(a)).sum() + (np.abs(x) ** 2).sum()


@pytest.mark.dear
def test_derivatives():
    a, b = matrices(5, 5) + 3 * np.eye(5), matrices(5, 2, seed=1)
    gradient = functrans.grad(energy)
    check(gradient, a, b, tolerance=1e-10)
    direction, h = matrices(5, 5, seed=2), 1e-6
    slope = (energy(a + h * direction, b) - energy(a - h * direction, b)) / (2 * h)
    np.testing.assert_allclose(np.real((gradient(a, b) * direction).sum()), slope, rtol=1e-6)


@pytest.mark.dear
def test_one_elimination_serves_a_solution_and_its_derivative():
    a, b = matrices(12, 12) + 3 * np.eye(12), matrices(12, 2, seed=1)

    def norm(a, b):
        return (np.abs(np.linalg.solve(a, b)) ** 2).sum()

    text = jit(functrans.value_and_grad(norm)).lower(a, b).schedule()
    assert text.count("zgetrf") == 1 and text.count("zgetrs") == 2


@pytest.mark.dear
def test_scipys_functions():
    a, real = matrices(12, 12), matrices(12, 12, dtype=np.float64)
    for x in (a, real):
        check(lambda x: tuple(scipy_linalg.lu(x)), x)
        check(lambda x: scipy_linalg.lu_solve(scipy_linalg.lu_factor(x), x[:, :2]), x)
        check(lambda x: tuple(scipy_linalg.schur(x)), x)
    found = compiled(lambda x: tuple(scipy_linalg.schur(x)), real)
    for part, value in zip(found, scipy.linalg.schur(real), strict=True):
        np.testing.assert_allclose(part, value, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_bits_do_not_depend_on_the_number_of_threads(threads, monkeypatch):
    a = matrices(40, 12, 12)

    def f(a):
        return (*eig_p(a), *np.linalg.svd(a), *lu_p(a), np.linalg.inv(a))

    alone = compiled(f, a)
    monkeypatch.setattr(config, "threads", threads)
    again = compiled(f, a)
    for x, y in zip(alone, again, strict=True):
        np.testing.assert_array_equal(x, y)


def test_under_vmap_a_stack_is_one_loop():
    a = matrices(50, 3, 3)
    check(vmap(lambda a: tuple(eig_p(a))), a)
    assert jit(vmap(np.linalg.eigvals)).lower(a).schedule().count("zgeev") == 1


@pytest.mark.dear
def test_matrices_that_do_not_fit_on_the_stack():
    a = matrices(3, 100, 100)
    for name in ("eigh", "svd", "qr", "eig", "schur", "cholesky", "inv"):
        check({**SQUARE, **ANY}[name], a, tolerance=1e-10, normal=NORMAL.get(name))


def test_a_large_one_is_left_to_the_library_that_has_threads():
    large = int(CPU[Matrices].largest_alone ** 0.5) + 1
    text = jit(np.linalg.svdvals).lower(matrices(large, large)).schedule()
    assert "call NumPy" in text


def test_only_known_operations_are_applied_to_parts():
    a = np.eye(3)
    for operands, of in (((a, a), "expm"), ((a,), "cholesky"), ((a, a, a), "inv")):
        with pytest.raises(ShapeError, match="there is no operation"):
            rewrite(lambda *x, of=of: in_parts_p(*x, of=of), list(map(aval_of, operands)))


def test_each_routine_is_there():
    assert all(blas.address(symbol) for symbol in footprints.OF_CORES)
