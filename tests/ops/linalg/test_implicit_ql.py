"""Spectra of small symmetric matrices across vector lanes: as exact as LAPACK's, with its signs."""

import numpy as np
import pytest

from functrans import config, grad, jit, vmap
from functrans.loop.target import CPU
from functrans.ops.linalg.compiled.interleaved import Interleaving
from functrans.testing import check_grads
from tests.ops.linalg.hermitian import check_spectra, kinds
from tests.targets import take_host_for

MACHINES = {
    "AVX-512": {},
    "AVX2": {"vector_bytes": 32, "registers": 16},
    "NEON": {"vector_bytes": 16, "registers": 32},
    "one vector": {"interleaving": {"most_bytes_of_two": 0}},
}
LIMITS = CPU[Interleaving]


def eigh(a, uplo="L"):
    return jit(lambda a: tuple(np.linalg.eigh(a, uplo)))(a)


def eigvalsh(a):
    return jit(np.linalg.eigvalsh)(a)


def drawn(*shape, seed=0):
    a = np.random.default_rng(seed).normal(size=shape)
    return (a + a.mT) / 2


def difficult(n):
    """Matrices of many kinds, of any size that numbers have, with blocks, ties and zeros."""
    rng, found = np.random.default_rng(n), kinds(n, "d")
    usual, signs = found["drawn"], rng.integers(0, 2, (n, n)) * 1.0
    sizes = 10.0 ** rng.uniform(-70, 70, n)
    blocks = np.diag(rng.normal(size=n))
    for i in range(0, n - 1, 3):
        blocks[i, i + 1] = blocks[i + 1, i] = rng.normal()
    found |= {
        "largest": usual / np.abs(usual).max() * 1e307,
        "smallest": usual * 1e-300,
        "far apart": sizes[:, None] * usual * sizes,
        "graded from below": found["scaled"][::-1, ::-1],
        "pairs": blocks,
        "barely coupled": np.diag(rng.normal(size=n)) + 1e-160,
        "zeros and ones": np.tril(signs) + np.tril(signs, -1).T,
        "second difference": 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1),
        "path": np.eye(n, k=1) + np.eye(n, k=-1),
        "Wilkinson's": np.diag(np.abs(np.arange(n) - n // 2) * 1.0)
        + np.eye(n, k=1)
        + np.eye(n, k=-1),
    }
    a = np.stack(list(found.values()))
    return np.tril(a) + np.tril(a, -1).mT


@pytest.mark.dear
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 25])
def test_matrices_of_every_kind(n):
    a = difficult(n)
    for uplo in "LU":
        values, vectors = eigh(a, uplo)
        check_spectra(a, values, vectors)
    np.testing.assert_array_equal(eigvalsh(a), eigh(a)[0])


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("name", MACHINES)
def test_vectors_of_any_length(name, monkeypatch):
    take_host_for(monkeypatch, **MACHINES[name])
    for n in (2, 5, 9):
        a = difficult(n)
        check_spectra(a, *eigh(a))


def test_eigenvalues_alone_of_larger_matrices():
    n = LIMITS.most_rows
    a = drawn(9, n, n)
    expected = np.linalg.eigvalsh(a)
    norm = np.abs(expected).max()
    np.testing.assert_allclose(eigvalsh(a), expected, rtol=0, atol=n * 2.2e-16 * norm)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("n", [2, 3, 6, 11, 25])
def test_signs_are_lapacks(n, uplo):
    a = drawn(50, n, n)
    for found, expected in zip(eigh(a, uplo), np.linalg.eigh(a, uplo), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.dear
def test_blocks_have_lapacks_signs_too():
    """Each block finds its eigenvalues from the end with the smaller element."""
    rng, n = np.random.default_rng(1), 9
    a = np.zeros((40, n, n))
    for each in a:
        start = 0
        while start < n:
            stop = min(n, start + int(rng.integers(1, 5)))
            each[start:stop, start:stop] = drawn(stop - start, stop - start, seed=rng)
            start = stop
    for uplo in "LU":
        for found, expected in zip(eigh(a, uplo), np.linalg.eigh(a, uplo), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.dear
def test_only_a_triangle_is_read():
    a = drawn(5, 4, 4)
    hidden = np.where(np.tri(4, dtype=bool), a, np.nan)
    for uplo, given in (("L", hidden), ("U", hidden.mT)):
        for found, expected in zip(eigh(given, uplo), eigh(a, uplo), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.dear
@pytest.mark.parametrize("n", [2, 7])
def test_bits_depend_neither_on_the_stack_nor_on_the_place_in_it(n):
    a = drawn(41, n, n)
    whole = eigh(a)
    for found, expected in zip(eigh(a[::-1]), whole, strict=True):
        np.testing.assert_array_equal(found[::-1], expected)
    for start, stop in ((0, 2), (3, 6), (6, 11), (11, 20), (20, 41)):
        for found, expected in zip(eigh(a[start:stop]), whole, strict=True):
            np.testing.assert_array_equal(found, expected[start:stop])


def test_leading_axes_and_float32():
    a = drawn(3, 2, 5, 5, 5).astype(np.float32)
    for found, expected in zip(eigh(a), np.linalg.eigh(a), strict=True):
        assert (found.dtype, found.shape) == (np.float32, expected.shape)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_infinities_stay_in_their_matrix():
    """As in LAPACK, such a matrix has no numbers; NaN, and only that, is an error."""
    a = drawn(20, 4, 4)
    expected = eigh(a)
    a[7, 2, 2] = np.inf
    for found, own in zip(eigh(a), expected, strict=True):
        assert np.isnan(found[7]).all() and np.isnan(np.linalg.eigh(a)[0][7]).all()
        np.testing.assert_array_equal(np.delete(found, 7, 0), np.delete(own, 7, 0))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_nan_does_not_converge(n):
    """LAPACK takes no steps for two rows."""
    a = np.full((20, n, n), np.nan)
    a[:19] = np.eye(n)
    if n < 3:
        assert np.isnan(eigh(a)[0][19]).all() and np.isnan(np.linalg.eigvalsh(a)[19]).all()
        assert (eigvalsh(a)[:19] == 1).all()
        return
    for f in (eigh, eigvalsh, np.linalg.eigvalsh):
        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
            f(a)


def test_what_lapack_computes(monkeypatch):
    """Single matrices, and large ones: with vectors from where LAPACK has other signs."""

    def is_ours(f, *shape):
        return "syevd" not in jit(f).lower(np.zeros(shape)).llvm()

    most, with_vectors = LIMITS.most_rows, LIMITS.most_rows_with_vectors
    assert is_ours(np.linalg.eigvalsh, 2, 2, 2) and not is_ours(np.linalg.eigvalsh, 2, 2)
    assert is_ours(np.linalg.eigvalsh, 3, most, most)
    assert not is_ours(np.linalg.eigvalsh, 3, most + 1, most + 1)
    assert is_ours(np.linalg.eigh, 3, with_vectors, with_vectors)
    assert not is_ours(np.linalg.eigh, 3, with_vectors + 1, with_vectors + 1)


@pytest.mark.dear
@pytest.mark.few(1)
def test_gradients():
    a = drawn(12, 4, 4) + np.diag([0.0, 5.0, 10.0, 15.0])

    def largest(a):
        return np.linalg.eigvalsh((a + a.T) / 2)[-1]

    found = jit(vmap(grad(largest)))(a)
    _, vectors = np.linalg.eigh(a)
    top = vectors[..., -1]
    np.testing.assert_allclose(found, top[..., :, None] * top[..., None, :], atol=1e-13)
    check_grads(jit(lambda a: np.sum(np.linalg.eigh(a)[1] ** 3)), (a,), order=1, max_elements=3)


def test_threads_share_groups(monkeypatch):
    monkeypatch.setattr(config, "parallel_threshold", 0)
    a, results = drawn(67, 6, 6), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        results.append(eigh(a))
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(found, expected)
