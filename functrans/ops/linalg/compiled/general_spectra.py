"""LAPACK calls: eigenvalues, eigenvectors and Schur form of general square matrices.

LAPACK returns conjugate eigenvectors of a real matrix as pairs of columns: the real parts in one,
the imaginary parts in the next.
"""

from __future__ import annotations

from collections.abc import Callable

from functrans.loop.failures import (
    EIGENVALUES_NOT_CONVERGED,
    NOT_ALL_FINITE,
    SCHUR_NOT_FINITE,
    SCHUR_NOT_FOUND,
)
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import BOOL, Scalar, const, convert, eq, maximum, minimum, where
from functrans.loop.statements import Buffer, Reduce, load, local
from functrans.ops.compiled.statements import ensure
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.by_columns import Element, InDouble, Number, Parts
from functrans.ops.linalg.compiled.lapack import BLOCK, INT, Statements
from functrans.ops.linalg.compiled.scaling import Scale


class _Spectra(InDouble):
    """Common statements of eigenvectors and Schur form."""

    def _finite(self, a: Buffer, status: int, factor: Scalar | int = 1) -> Statements:
        """Copy the matrix, multiplied by a factor, and fail if it has a non-finite element.

        Zeros are copied in that case, since LAPACK might not terminate.
        """
        n = self.n
        i, j = index("i", n), index("j", n)
        finite = local(BOOL, "finite")
        good = [eq(part - part, 0) for part in self.element(i, j)]
        all_good = good[0] & good[-1]
        loops = tuple((each, ZERO, as_index(n)) for each in (i, j))

        def element(i: Scalar, j: Scalar) -> Number:
            parts = self.element(i, j)
            return tuple(where(finite, convert(part, a.dtype) * factor, 0) for part in parts)

        return (
            Reduce((finite,), ("and",), (all_good,), loops),
            ensure(finite, status),
            self.filled(a, n, n, element),
        )

    def _values(self) -> Parts:
        """Memory for eigenvalues: interleaved, or separate real and imaginary parts."""
        if self.pair:
            return (self.matrix("w", self.n, 1),)
        return tuple(self.numbers(name, self.dtype, self.n) for name in ("real", "imaginary"))

    def _reals(self, size: int) -> Parts:
        return (self.numbers("reals", self.dtype, size),) if self.pair else ()

    def _value(self, w: Parts) -> Callable[[Scalar], Number]:
        if self.pair:
            return lambda i: self.of(w[0])(i, ZERO)
        return lambda i: tuple(self.of_vector(part)(i)[0] for part in w)


class Eigenvectors(_Spectra):
    """The statements for the matrix at an index of the leading axes, in double precision."""

    def _scale(self) -> tuple[Scalar, Scalar, Statements]:
        """The factors of the matrix and of its eigenvalues, and the loops that measure it.

        LAPACK's `geev` scales small and large matrices itself, but the OpenBLAS of SciPy 1.17 does
        not scale their eigenvalues back.
        """
        i, j = index("i", self.n), index("j", self.n)
        largest = local(DOUBLE, "largest")
        sizes = [abs(convert(part, DOUBLE)) for part in self.element(i, j)]
        loops = tuple((each, ZERO, as_index(self.n)) for each in (i, j))
        measured = Reduce((largest,), ("max",), (maximum(sizes[0], sizes[-1]),), loops)
        scale, outside = Scale.of(largest), (largest < 1e-100) | (largest > 1e100)
        return where(outside, scale.reciprocal, 1), where(outside, scale.power, 1), (measured,)

    def eig(self) -> Statements:
        """Eigenvalues, and eigenvectors if requested."""
        factor, back, measured = self._scale()
        n, vectors = self.n, self.results[2:]
        w = self._values()
        right = self.matrix("right", n, n) if vectors else self.matrix("right", 1, 1)
        other = self.matrix("other", 1, 1)
        job, rows, size = b"V" if vectors else b"N", n if vectors else 1, (BLOCK + 4) * n
        room, found = self.room(size), (right,) if vectors else ()
        a, reals = self.matrix("a", n, n), self._reals(2 * n)
        geev = self._call(
            "geev", b"N", job, n, a, n, *w, other, 1, right, rows, room, size, *reals, self.info,
            reads=(a,), writes=(a, *w, *found, room, *reals, self.info),
        )  # fmt: skip
        value = self._value(w)
        of_vectors = self.of(right) if self.pair else self._paired(w[-1], self.of(right))
        return (
            *measured,
            *self._finite(a, NOT_ALL_FINITE, factor),
            geev,
            self.succeeded(EIGENVALUES_NOT_CONVERGED),
            self.handed_numbers(
                self.results[:2], n, lambda i: tuple(part * back for part in value(i))
            ),
            *((self.handed(vectors, n, n, of_vectors),) if vectors else ()),
        )

    def _paired(self, imaginary: Buffer, element: Element) -> Element:
        """Eigenvectors whose parts are in adjacent columns."""

        def number(i: Scalar, j: Scalar) -> Number:
            before, after = maximum(j - 1, ZERO), minimum(j + 1, const(self.n - 1, INDEX))
            (own,), (left,), (right,) = (element(i, at) for at in (j, before, after))
            turn = load(imaginary, (*self._place(imaginary), j))
            re = where(turn < 0, left, own)
            return re, where(turn < 0, -own, where(turn > 0, right, 0))

        return number


class SchurForm(_Spectra):
    """The statements for the matrix at an index of the leading axes, in its own precision."""

    def __init__(self, given: Parts, results: Parts, on_stack: bool) -> None:
        super().__init__(given, results, on_stack)
        self.dtype = self.a.dtype

    def schur(self) -> Statements:
        n, a, vectors = self.n, self.matrix("a", self.n, self.n), self.matrix("q", self.n, self.n)
        w, size = self._values(), (BLOCK + 3) * n
        room, reals = self.room(size), self._reals(n)
        count, chosen = self.numbers("count", INT, 1), self.numbers("chosen", INT, n)
        # eigenvalues are not sorted, so the selection function is never called
        gees = self._call(
            "gees", b"V", b"N", chosen, n, a, n, count, *w, vectors, n, room, size, *reals, chosen,
            self.info, reads=(a,), writes=(a, count, *w, vectors, room, *reals, self.info),
        )  # fmt: skip
        half = len(self.results) // 2
        return (
            *self._finite(a, SCHUR_NOT_FINITE),
            gees,
            self.succeeded(SCHUR_NOT_FOUND),
            self.handed(self.results[:half], n, n, self.of(a)),
            self.handed(self.results[half:], n, n, self.of(vectors)),
        )
