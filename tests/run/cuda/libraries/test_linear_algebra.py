"""Linear algebra adapters against BLAS and LAPACK with the same arguments."""

import itertools

import numpy as np
import pytest

from functrans.run.cuda.libraries import moves
from tests.run.cuda.libraries.calls import LETTERS, TOLERANCE, At, agree, by_library, column_major

letters = pytest.mark.parametrize("letter", "sd")
SIDES = (0, 1, 2, 17)


def matrix(letter, rows, columns, pad=0, first=0, seed=0):
    rng = np.random.default_rng([rows, columns, seed])
    made = rng.normal(size=(rows, columns)).astype(LETTERS[letter])
    leading = max(1, rows) + pad
    return column_major(made, leading, first), leading


def diagonally_dominant(letter, n, pad=0, first=0):
    rng = np.random.default_rng(n)
    made = rng.normal(size=(n, n)) + 4 * n * np.eye(n)
    leading = max(1, n) + pad
    return column_major(made.astype(LETTERS[letter]), leading, first), leading


def definite(letter, n, pad=0, first=0):
    rng = np.random.default_rng(n)
    made = rng.normal(size=(n, n))
    made = (made @ made.T + n * np.eye(n)).astype(LETTERS[letter])
    leading = max(1, n) + pad
    return column_major(made, leading, first), leading


def integers(count):
    return At(np.full(count, -7, np.int32))


def room(letter, count=4096):
    return At(np.zeros(count, LETTERS[letter])), count


def content(at, memory, rows, columns, leading):
    """A matrix in memory that came back."""
    return memory[at.first : at.first + leading * columns].reshape(columns, leading).T[:rows]


# ---- BLAS ----------------------------------------------------------------------------------------


@letters
@pytest.mark.parametrize("side", [b"L", b"R"])
def test_trsm(letter, side):
    for (m, n), uplo, trans, diag in itertools.product(
        [(1, 1), (3, 5), (17, 2), (0, 3), (3, 0)], (b"U", b"L"), (b"N", b"T"), (b"N", b"U")
    ):
        for pad, alpha in ((0, 1.0), (2, -0.5)):
            order = m if side == b"L" else n
            a, lda = diagonally_dominant(letter, order, pad, pad)
            if diag == b"U":
                a.array /= 4 * order or 1
            b, ldb = matrix(letter, m, n, pad, 2 * pad)
            agree(f"{letter}trsm", (side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb))


@letters
def test_trsv(letter):
    for n, uplo, trans, diag, step in itertools.product(
        (0, 1, 17), (b"U", b"L"), (b"N", b"T"), (b"N", b"U"), (1, 3)
    ):
        a, lda = diagonally_dominant(letter, n, 1, 1)
        if diag == b"U":
            a.array /= 4 * n or 1
        x, _ = matrix(letter, 1, max(1, n * step))
        agree(f"{letter}trsv", (uplo, trans, diag, n, a, lda, x, step))


# ---- moves ---------------------------------------------------------------------------------------

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (5, 5), (3, 7), (7, 3)]


@letters
@pytest.mark.parametrize("uplo", [b"A", b"U", b"L"])
def test_lacpy(letter, uplo):
    for (m, n), pads, first in itertools.product(SHAPES, [(0, 0), (2, 0), (1, 3)], (0, 3)):
        a, lda = matrix(letter, m, n, pads[0], first)
        b, ldb = matrix(letter, m, n, pads[1], 2 * first, seed=1)
        agree(f"{letter}lacpy", (uplo, m, n, a, lda, b, ldb))


@letters
@pytest.mark.parametrize("uplo", [b"A", b"U", b"L"])
def test_laset(letter, uplo):
    for (m, n), pad, numbers in itertools.product(
        SHAPES, (0, 2), [(0.0, 0.0), (0.0, 1.0), (0.1, -2.5), (0.1, 0.1)]
    ):
        a, lda = matrix(letter, m, n, pad, pad)
        agree(f"{letter}laset", (uplo, m, n, *numbers, a, lda))


@pytest.mark.full
def test_columns_that_are_too_far_apart_for_one_command(monkeypatch):
    monkeypatch.setattr(moves, "LARGEST_PITCH", 16)
    for uplo in (b"A", b"U", b"L"):
        test_lacpy("d", uplo)
        test_laset("d", uplo)


# ---- factors -------------------------------------------------------------------------------------


@letters
@pytest.mark.parametrize("uplo", [b"U", b"L"])
def test_potrf(letter, uplo):
    for n, pad in itertools.product(SIDES, (0, 3)):
        a, lda = definite(letter, n, pad, pad)
        *_, info = agree(f"{letter}potrf", (uplo, n, a, lda, integers(1)))
        assert info[0] == 0


@letters
def test_a_matrix_that_is_not_positive_definite_is_said_to_be(letter):
    a, lda = definite(letter, 5)
    a.array[2 + 2 * lda] = -1.0
    found = by_library(f"{letter}potrf", (b"U", 5, a, lda, integers(1)))
    assert found[1][0] == 3


@pytest.mark.full
@letters
def test_getrf_and_what_solves_by_it(letter):
    for n, pad in itertools.product(SIDES, (0, 2)):
        a, lda = matrix(letter, n, n, pad, pad)
        lu, pivots, info = agree(f"{letter}getrf", (n, n, a, lda, integers(n), integers(1)))
        assert info[0] == 0
        factors, places = At(lu, a.first), At(pivots)
        for trans, columns in itertools.product((b"N", b"T"), (0, 1, 5)):
            b, ldb = matrix(letter, n, columns, pad)
            agree(
                f"{letter}getrs",
                (trans, n, columns, factors, lda, places, b, ldb, integers(1)),
            )
        agree(f"{letter}getri", (n, factors, lda, places, *room(letter), integers(1)), but=(2,))


@letters
def test_factors_of_matrices_that_are_not_square(letter):
    for m, n in [(3, 7), (7, 3), (0, 3), (3, 0)]:
        a, lda = matrix(letter, m, n, 1)
        agree(f"{letter}getrf", (m, n, a, lda, integers(min(m, n)), integers(1)))


@letters
def test_a_singular_matrix_is_said_to_be(letter):
    a = column_major(np.ones((4, 4), LETTERS[letter]), 4)
    found = agree(f"{letter}getrf", (4, 4, a, 4, integers(4), integers(1)))
    assert found[2][0] == 2


@letters
def test_orthogonal_factors(letter):
    for (m, n), pad in itertools.product(SHAPES, (0, 2)):
        a, lda = matrix(letter, m, n, pad, pad)
        k, work = min(m, n), room(letter)
        scales = At(np.zeros(max(k, 1), LETTERS[letter]))
        factors, tau, _, info = agree(
            f"{letter}geqrf", (m, n, a, lda, scales, *work, integers(1)), but=(2,)
        )
        assert info[0] == 0
        if k == 0:
            continue
        # as many columns as there are reflections, and fewer reflections than these
        for count in {k, max(1, k - 1)}:
            agree(
                f"{letter}orgqr",
                (m, k, count, At(factors, a.first), lda, At(tau), *work, integers(1)),
                but=(2,),
            )


# ---- spectra -------------------------------------------------------------------------------------


@letters
@pytest.mark.parametrize("uplo", [b"U", b"L"])
@pytest.mark.parametrize("job", [b"N", b"V"])
def test_syevd(letter, uplo, job):
    for n, pad in itertools.product(SIDES, (0, 2)):
        a, lda = matrix(letter, n, n, pad, pad)
        w = At(np.zeros(max(n, 1), LETTERS[letter]))
        work, numbers = room(letter), integers(512)
        found = agree(
            f"{letter}syevd", (job, uplo, n, a, lda, w, *work, numbers, 512, integers(1)),
            but=(0, 2, 3),
        )  # fmt: skip
        if job == b"V" and n:
            whole = content(a, a.array, n, n, lda)
            whole = np.tril(whole) if uplo == b"L" else np.triu(whole).T
            whole = whole + np.tril(whole, -1).T
            vectors = content(a, found[0], n, n, lda)
            tolerance = 100 * TOLERANCE[whole.dtype]
            np.testing.assert_allclose(
                vectors * found[1][:n] @ vectors.T, whole, rtol=tolerance, atol=tolerance
            )


@letters
@pytest.mark.parametrize("job", [b"N", b"S", b"A"])
def test_gesdd(letter, job):
    for (m, n), pad in itertools.product([(1, 1), (1, 4), (4, 1), (5, 5), (3, 7), (7, 3)], (0, 2)):
        a, lda = matrix(letter, m, n, pad, pad)
        k = min(m, n)
        wide, high = (m, n) if job == b"A" else (k, k)
        s = At(np.zeros(k, LETTERS[letter]))
        u, ldu = matrix(letter, m, wide, pad)
        vt, ldvt = matrix(letter, high, n, pad)
        work = room(letter)
        found = agree(
            f"{letter}gesdd",
            (job, m, n, a, lda, s, u, ldu, vt, ldvt, *work, integers(8 * k), integers(1)),
            but=(0, 2, 3, 4, 5),
        )
        if job == b"N":
            continue
        tolerance = 100 * TOLERANCE[s.array.dtype]
        left = content(u, found[2], m, wide, ldu)
        right = content(vt, found[3], high, n, ldvt)
        whole = content(a, a.array, m, n, lda)
        close = {"rtol": tolerance, "atol": tolerance}
        np.testing.assert_allclose(left[:, :k] * found[1] @ right[:k], whole, **close)
        np.testing.assert_allclose(left.T @ left, np.eye(wide), **close)
        np.testing.assert_allclose(right @ right.T, np.eye(high), **close)
        for at, memory, rows, columns, leading in (
            (u, found[2], m, wide, ldu), (vt, found[3], high, n, ldvt),
        ):  # fmt: skip
            before, after = (one.copy() for one in (at.array, memory))
            for one in (before, after):
                content(at, one, rows, columns, leading)[...] = 0
            np.testing.assert_array_equal(before, after)
