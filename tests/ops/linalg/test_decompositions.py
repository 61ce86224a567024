"""Compiled decompositions by LAPACK: NumPy's results up to signs, NumPy's errors, threads."""

import math

import numpy as np
import pytest

import functrans
from functrans import config, grad, jit, lax, vmap
from functrans.loop.target import CPU
from functrans.ops.linalg.matrices import Matrices

DECOMPOSITIONS = {
    "eigh": np.linalg.eigh,
    "eigh of the upper triangle": lambda a: np.linalg.eigh(a, "U"),
    "eigvalsh": np.linalg.eigvalsh,
    "svd": lambda a: np.linalg.svd(a, full_matrices=False),
    "svd, full": np.linalg.svd,
    "svdvals": lambda a: np.linalg.svd(a, compute_uv=False),
    "qr": np.linalg.qr,
    "qr, complete": lambda a: np.linalg.qr(a, "complete"),
    "r": lambda a: np.linalg.qr(a, "r"),
}


def matrices(*shape, dtype=np.float64):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def several(result):
    return list(result) if isinstance(result, tuple) else [result]


def shapes(name):
    square = [(1, 1), (2, 2), (3, 3), (17, 17), (3, 4, 4), (2, 3, 6, 6)]
    others = [(5, 3), (3, 5), (2, 9, 4), (1, 3), (3, 1)]
    return square if "eig" in name else square + others


@pytest.mark.parametrize("name", DECOMPOSITIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_shape_gives_what_numpy_gives(name, dtype):
    f = DECOMPOSITIONS[name]
    stacks = [matrices(*shape, dtype=dtype) for shape in shapes(name)]
    compiled = jit(lambda *stacks: [several(f(a)) for a in stacks])
    assert "call NumPy" not in compiled.lower(*stacks).schedule()
    tolerance = 1e-11 if dtype == np.float64 else 1e-4
    for found, a in zip(compiled(*stacks), stacks, strict=True):
        for x, y in zip(found, several(f(a)), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_nothing_and_much_are_numpys(name):
    """QR factors alone are ours, however large the matrix is."""
    f, large = DECOMPOSITIONS[name], math.isqrt(CPU[Matrices].largest_alone) + 1
    empty = (0, 0) if "eig" in name else (2, 0)
    for a in (matrices(*empty), matrices(0, 3, 3), matrices(large, large)):
        is_ours = a.size > 0 and name in ("qr", "qr, complete", "r")
        assert ("call NumPy" in jit(f).lower(a).schedule()) != is_ours
        for x, y in zip(several(jit(f)(a)), several(f(a)), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, atol=1e-9)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["svd", "svdvals"])
@pytest.mark.parametrize("shape", [(60, 30), (30, 60), (40, 60, 5), (40, 5, 60), (20_000, 2)])
def test_thin_matrices_are_decomposed_by_their_triangular_factor(name, shape):
    """As by LAPACK, with its signs, but the QR factors are ours."""
    f, a = DECOMPOSITIONS[name], matrices(*shape)
    assert "vectors" in jit(f).lower(a).schedule()
    for found, expected in zip(several(jit(f)(a)), several(f(a)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    square = a[..., : min(shape[-2:]), : min(shape[-2:])]
    assert "vectors" not in jit(f).lower(square).schedule()


@pytest.mark.parametrize("name", ["svd", "svdvals"])
def test_thin_matrices_that_are_not_finite(name):
    """Infinities make NaN of their own matrix (before NumPy 2.5 in NumPy, too); NaN is an error."""
    f, a = DECOMPOSITIONS[name], matrices(40, 60, 5)
    usual = several(jit(f)(a))
    a[7, 3, 2] = np.inf
    for found, expected in zip(several(jit(f)(a)), usual, strict=True):
        assert np.isnan(found[7]).all()
        np.testing.assert_array_equal(np.delete(found, 7, 0), np.delete(expected, 7, 0))
    a[7, 4, 2] = np.nan
    for each in (f, jit(f)):
        with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
            each(a)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_threads_give_equal_bits(name, monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 0)
    f, a = DECOMPOSITIONS[name], matrices(40, 6, 6)
    compiled, results = jit(f), []
    for count in (1, 2, 3):
        monkeypatch.setattr(config, "threads", count)
        results.append(several(compiled(a)))
    for others in results[1:]:
        for found, first in zip(others, results[0], strict=True):
            np.testing.assert_array_equal(found, first)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "svd", "svdvals"])
def test_errors_are_numpys(name):
    f, a = DECOMPOSITIONS[name], np.stack([np.eye(3)] * 20)
    a[7] = np.nan
    with pytest.raises(np.linalg.LinAlgError) as expected:
        f(a)
    with pytest.raises(np.linalg.LinAlgError) as found:
        jit(f)(a)
    assert str(found.value).partition("\n")[0] == str(expected.value)
    for x in several(jit(f)(a[:7])):
        assert np.isfinite(x).all()


def test_in_loops_and_from_c():
    def f(stack):
        def step(total, a):
            w, v = np.linalg.eigh(a)
            return total + (v * np.exp(w)) @ v.T, np.linalg.svd(a, compute_uv=False)

        return lax.scan(step, np.zeros((4, 4)), stack)

    stack = matrices(5, 4, 4)
    for x, y in zip(jit(f)(stack), f(stack), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)
    compiled = functrans.compile(np.linalg.eigvalsh, np.eye(4))
    out = np.empty(4)
    assert compiled.ctypes(stack[0].ctypes.data, out.ctypes.data) == 0
    np.testing.assert_allclose(out, np.linalg.eigvalsh(stack[0]))
    assert compiled.ctypes(np.full((4, 4), np.nan).ctypes.data, out.ctypes.data) == 6


@pytest.mark.full
def test_gradients_of_programs():
    def loss(a):
        w = np.linalg.eigvalsh(a @ a.T)
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        q, r = np.linalg.qr(a)
        return np.sum(np.log(w)) + np.sum((u * s**2) @ vh) + np.sum(np.abs(q @ np.tanh(r)))

    a = matrices(6, 4, 4) + 3 * np.eye(4)
    derivative = vmap(grad(loss))
    assert "call NumPy" not in jit(derivative).lower(a).schedule()
    np.testing.assert_allclose(jit(derivative)(a), derivative(a), rtol=1e-9, atol=1e-9)
