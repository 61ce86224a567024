"""Singular values of small matrices across vector lanes: NumPy's, and more exact."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.target import CPU
from functrans.ops.linalg.compiled.interleaved import Interleaving
from tests.ops.linalg.hermitian import kinds, unit
from tests.targets import take_host_for

LIMITS = CPU[Interleaving]
EPS = np.finfo(np.float64).eps


def singular_values(a):
    return jit(lambda a: np.linalg.svd(a, compute_uv=False))(a)


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape)


def difficult(m, n):
    """Matrices of many kinds, some without full rank, of any size that numbers have."""
    found = kinds(max(m, n), "d")
    usual = found["drawn"]
    found |= {"largest": usual / np.abs(usual).max() * 1e307, "smallest": usual * 1e-300}
    return np.stack(list(found.values()))[:, :m, :n]


def check(a):
    found = singular_values(a)
    a, size = unit(a)
    expected = np.linalg.svd(a, compute_uv=False)
    norm = np.where(expected[:, :1] == 0, 1, expected[:, :1])
    assert (np.diff(found, axis=-1) <= 0).all() and (found >= 0).all()
    # (LAPACK's are up to 36 units off, of three values near to each other)
    assert (np.abs(found / size[..., 0] - expected) <= (40 + max(a.shape) / 2) * EPS * norm).all()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (3, 2), (2, 3), (1, 6), (8, 8), (5, 9), (16, 16)]
)
def test_matrices_of_every_kind(shape):
    check(difficult(*shape))


def test_vectors_of_another_length(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    check(difficult(6, 4))


def test_small_values_keep_their_digits():
    """LAPACK loses those that are small beside the largest."""
    lengths = 10.0 ** -np.arange(0, 48, 8)
    a = np.linalg.qr(drawn(20, 8, 6))[0] * lengths[::-1]
    expected = np.broadcast_to(lengths, (20, 6))
    np.testing.assert_allclose(singular_values(a), expected, rtol=20 * EPS)
    assert (np.abs(np.linalg.svd(a)[1] / expected - 1).max(axis=1) > 1e-3).all()


@pytest.mark.dear
def test_many_matrices_converge():
    """Also those whose columns depend on each other, or have few digits."""
    rng = np.random.default_rng(2)
    for shape in ((5000, 2, 2), (5000, 3, 3), (3000, 6, 4)):
        a = rng.normal(size=shape)
        for each in (a, np.round(a), np.round(a, 2), a.astype(np.float32) / 3):
            found, expected = singular_values(each), np.linalg.svd(each, compute_uv=False)
            tolerance = 20 * np.finfo(each.dtype).eps * expected.max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.dear
def test_bits_depend_neither_on_the_stack_nor_on_the_place_in_it():
    a = drawn(41, 5, 7)
    whole = singular_values(a)
    np.testing.assert_array_equal(singular_values(a[::-1])[::-1], whole)
    for start, stop in ((0, 2), (3, 6), (6, 11), (11, 20)):
        np.testing.assert_array_equal(singular_values(a[start:stop]), whole[start:stop])
    np.testing.assert_array_equal(singular_values(a.mT), whole)


def test_leading_axes_and_float32():
    a = drawn(3, 2, 4, 6).astype(np.float32)
    found, expected = singular_values(a), np.linalg.svd(a, compute_uv=False)
    assert (found.dtype, found.shape) == (np.float32, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2)])
def test_infinities_and_nan(shape):
    a = drawn(20, *shape)
    expected = singular_values(a)
    a[7, 0, 0] = np.inf
    found = singular_values(a)
    assert np.isnan(found[7]).all()
    np.testing.assert_array_equal(np.delete(found, 7, 0), np.delete(expected, 7, 0))
    a[7, 0, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        singular_values(a)


def test_what_lapack_computes():
    """Single matrices and large ones, and those of a few matrices in fewer lanes."""

    def is_ours(*shape):
        f = jit(lambda a: np.linalg.svd(a, compute_uv=False))
        return "gesdd" not in f.lower(np.zeros(shape)).llvm()

    few, many = LIMITS.most_rotated, LIMITS.most_rotated_of_many
    assert is_ours(2, few, few) and not is_ours(few, few) and not is_ours(2, few, few + 1)
    assert is_ours(LIMITS.many, many, many) and not is_ours(LIMITS.many, many + 1, 1)
