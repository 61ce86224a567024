"""LAPACK calls on column-major copies: complex matrices; spectra, singular values, QR and LU.

The signs of vectors are LAPACK's choice, and agree with NumPy's for such copies.

A complex matrix is given as two arrays, of its real and imaginary parts, which are interleaved in
the copy. As in NumPy, complex matrices are always computed in double precision, and so are
eigenvalues of real matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.loop.failures import (
    EIGENVALUES_NOT_CONVERGED,
    NOT_CONVERGED,
    NOT_POSITIVE_DEFINITE,
    SINGULAR,
)
from functrans.loop.footprints import reals_of_gesdd
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, convert, eq, where
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    Let,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.ops.compiled.emission import Position
from functrans.ops.compiled.statements import ensure
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.lapack import (
    BLOCK,
    INT,
    PREFIXES,
    Factors,
    LibraryCalls,
    Statements,
    undone,
)

OF_COMPLEX = {DOUBLE: "z", np.dtype(np.float32): "c"}

Parts = tuple[Buffer, ...]
"""A real array, or the arrays of real and imaginary parts of a complex one."""

Number = tuple[Scalar, ...]
"""A real number, or the real and imaginary part of a complex one."""

Element = Callable[[Scalar, Scalar], Number]
"""A number by its row and its column."""


def block(n: int) -> int:
    """The block size for which workspace is provided; smaller matrices are not blocked."""
    return BLOCK if n > BLOCK // 2 else 1


class Copies(LibraryCalls):
    """The statements for the matrix at an index of the leading axes, with its number of columns.

    The names of the routines and of their arguments are those of LAPACK's documentation.
    """

    def __init__(self, given: Parts, results: Parts, on_stack: bool) -> None:
        super().__init__(given[0])
        self.columns = self.a.extents[-1]
        self.on_stack = on_stack
        self.stack: list[Buffer] = []
        self.given, self.results = given, results
        self.pair = (2,) if len(given) == 2 else ()
        if self.pair:
            self.dtype = DOUBLE
        self.info = self.numbers("info", INT, 1)

    # -- the functions ------------------------------------------------------------------------

    def cholesky(self) -> Statements:
        n, a = self.n, self.matrix("a", self.n, self.n)
        potrf = self._call("potrf", b"L", n, a, n, self.info, reads=(a,), writes=(a, self.info))
        factor = self.triangle(self.of(a), lower=True)
        return (
            self.filled(a, n, n, self.element),
            potrf,
            self.succeeded(NOT_POSITIVE_DEFINITE),
            self.handed(self.results, n, n, factor),
        )

    def factorised(self, factors: Factors) -> Statements:
        filled = self.filled(factors.lower_upper, self.n, self.n, self.element)
        return filled, self._getrf(factors)

    def solve(self, factors: Factors, b: Parts | None, *, transpose_a: bool = False) -> Statements:
        """Solutions; without right-hand sides, the inverse."""
        n, columns = self.n, self.results[0].extents[-1]
        x = self.matrix("x", n, columns)
        trans, pivots = b"T" if transpose_a else b"N", factors.pivots
        getrs = self._call(
            "getrs", trans, n, columns, factors.lower_upper, n, pivots, x, n, self.info,
            reads=(factors.lower_upper, pivots, x), writes=(x, self.info),
        )  # fmt: skip
        right = self.unit if b is None else self.at_given(b)
        return (
            ensure(self._regular(factors), SINGULAR),
            self.filled(x, n, columns, right),
            getrs,
            self.handed(self.results, n, columns, self.of(x)),
        )

    def solve_triangular(
        self, b: Parts, *, lower: bool, transpose_a: bool, unit_diagonal: bool
    ) -> Statements:
        n, columns = self.n, self.results[0].extents[-1]
        a, x = self.matrix("a", n, n), self.matrix("x", n, columns)
        flags = b"L" if lower else b"U", b"T" if transpose_a else b"N"
        trtrs = self._call(
            "trtrs", *flags, b"U" if unit_diagonal else b"N", n, columns, a, n, x, n, self.info,
            reads=(a, x), writes=(x, self.info),
        )  # fmt: skip
        return (
            self.filled(a, n, n, self.element),
            self.filled(x, n, columns, self.at_given(b)),
            trtrs,
            self.succeeded(SINGULAR),
            self.handed(self.results, n, columns, self.of(x)),
        )

    def sign_and_logarithm(self, factors: Factors) -> tuple[Statements, Number, Scalar]:
        """Sign and logarithm of the determinant, whose product of pivots might overflow."""
        i, minus, one = index("i", self.n), const(-1, DOUBLE), const(1, DOUBLE)
        re, im = (load(factors.lower_upper, (*self.at, i, i, const(p, INDEX))) for p in (0, 1))
        length = local(DOUBLE, "length")
        sign = local(DOUBLE, "re"), local(DOUBLE, "im")
        total = local(DOUBLE, "logarithm")
        turn = where(self._stayed(factors, i), one, minus) / length
        x, y = re * turn, im * turn
        turned = sign[0] * x - sign[1] * y, sign[0] * y + sign[1] * x
        step = (
            Let((length,), (vecmath.hypot(re, im),)),
            Assign((*sign, total), (*turned, total + vecmath.log(length))),
        )
        start = Let((*sign, total), (one, const(0, DOUBLE), const(0, DOUBLE)))
        loop = For(i, ZERO, const(self.n, INDEX), step)
        regular = self._regular(factors)
        found = tuple(where(regular, part, 0) for part in sign)
        return (start, loop), found, where(regular, total, -np.inf)

    def slogdet(self, factors: Factors) -> Statements:
        before, sign, total = self.sign_and_logarithm(factors)
        return (*before, *self.handed_number(self.results, (*sign, total)))

    def det(self, factors: Factors) -> Statements:
        before, sign, total = self.sign_and_logarithm(factors)
        size = vecmath.exp(total)
        return (*before, *self.handed_number(self.results, tuple(part * size for part in sign)))

    def eigh(self, *, lower: bool) -> Statements:
        (values, *vectors), n = self.results, self.n
        a, w = self.matrix("a", n, n), self.numbers("w", DOUBLE, n)
        integers, job = self.numbers("int", INT, 5 * n + 3), b"V" if vectors else b"N"
        if self.pair:
            routine, size = "heevd", ((n + 1) * n if vectors else 1) + (block(n) + 1) * n
            count = (2 * n + 5) * n + 1 if vectors else n
            reals: tuple[Buffer, ...] = (self.numbers("reals", DOUBLE, count),)
            more: tuple[Buffer | int, ...] = (*reals, count)
        else:
            routine, size = "syevd", ((2 * n + 6) * n if vectors else 6 * n) + block(n) * n + 1
            reals = more = ()
        room = self.room(size)
        call = self._call(
            routine, job, b"L" if lower else b"U", n, a, n, w, room, size, *more, integers,
            5 * n + 3, self.info, reads=(a,), writes=(a, w, room, *reals, integers, self.info),
        )  # fmt: skip
        return (
            self.filled(a, n, n, self.element),
            call,
            self.succeeded(EIGENVALUES_NOT_CONVERGED),
            self.handed_numbers((values,), n, self.of_vector(w)),
            *((self.handed(tuple(vectors), n, n, self.of(a)),) if vectors else ()),
        )

    def svd(self, *, full: bool = False) -> Statements:
        """All factors, or only the singular values."""
        m, n = self.n, self.columns
        k, has_vectors = min(m, n), len(self.results) > 1
        a, s = self.matrix("a", m, n), self.numbers("s", DOUBLE, k)
        wide, high = (m, n) if full else (k, k)
        left, right = a, a
        if has_vectors:
            left, right = self.matrix("left", m, wide), self.matrix("right", high, n)
        size = (k + 4) * k + (block(k) + 1) * (m + n)
        reals: tuple[Buffer, ...] = ()
        if self.pair:
            reals = (self.numbers("reals", DOUBLE, int(reals_of_gesdd(k, max(m, n)))),)
        else:
            size = (4 * k + 7) * k + block(k) * (m + n)
        room = self.room(size)
        integers = self.numbers("integers", INT, 8 * k)
        vectors = (left, right) if has_vectors else ()
        job = (b"A" if full else b"S") if has_vectors else b"N"
        gesdd = self._call(
            "gesdd", job, m, n, a, m, s, left, m, right, high, room, size,
            *reals, integers, self.info,
            reads=(a,), writes=(a, s, *vectors, room, *reals, integers, self.info),
        )  # fmt: skip
        before = self.filled(a, m, n, self.element), gesdd, self.succeeded(NOT_CONVERGED)
        if not has_vectors:
            return (*before, self.handed_numbers(self.results, k, self.of_vector(s)))
        half = len(self.results) // 2
        u, values, vh = self.results[:half], self.results[half : half + 1], self.results[half + 1 :]
        return (
            *before,
            self.handed_numbers(values, k, self.of_vector(s)),
            self.handed(u, m, wide, self.of(left)),
            self.handed(vh, high, n, self.of(right)),
        )

    def qr(self, *, complete: bool = False) -> Statements:
        """Both factors, or only R."""
        m, n = self.n, self.columns
        k, high = min(m, n), self.results[-1].extents[-2]
        own = len(self.given)
        wide = high if len(self.results) > own else 0
        a, tau = self.matrix("a", m, max(n, wide)), self.matrix("tau", k, 1)
        size = block(k) * max(n, wide)
        room = self.room(size)
        geqrf = self._call(
            "geqrf", m, n, a, m, tau, room, size, self.info,
            reads=(a,), writes=(a, tau, room, self.info),
        )  # fmt: skip
        triangle = self.triangle(self.of(a), lower=False)
        before = (
            self.filled(a, m, n, self.element),
            geqrf,
            self.handed(self.results[-own:], high, n, triangle),
        )
        if not wide:
            return before
        multiply = self._call(
            "ungqr" if self.pair else "orgqr", m, wide, k, a, m, tau, room, size, self.info,
            reads=(a, tau), writes=(a, room, self.info),
        )  # fmt: skip
        return (*before, multiply, self.handed(self.results[:own], m, wide, self.of(a)))

    def lu(self) -> Statements:
        """Both factors in one matrix, the row exchanges, and the resulting permutation."""
        m, n, (*factors, pivots, order) = self.n, self.columns, self.results
        k, a = min(m, n), self.matrix("a", m, n)
        exchanges = self.numbers("pivots", INT, k)
        getrf = self._call(
            "getrf", m, n, a, m, exchanges, self.info, reads=(a,), writes=(a, exchanges, self.info)
        )
        i, row = index("i", m), index("i", k)

        def exchanged(step: Scalar) -> Scalar:
            return convert(load(exchanges, (*self._place(exchanges), step)), INDEX) - 1

        place, undo = undone(i, k, exchanged)
        pivot = convert(load(exchanges, (*self._place(exchanges), row)), INT) - 1
        return (
            self.filled(a, m, n, self.element),
            getrf,
            self.handed(tuple(factors), m, n, self.of(a)),
            For(row, ZERO, as_index(k), (Store(pivots, (*self.at, row), pivot),)),
            For(i, ZERO, as_index(m), (*undo, Store(order, (*self.at, i), convert(place, INT)))),
        )

    # -- memory, and copies to it and from it -------------------------------------------------

    @property
    def prefix(self) -> str:
        return OF_COMPLEX[self.dtype] if self.pair else PREFIXES[self.dtype]

    def _work(self, result: Buffer, name: str, dtype: np.dtype[np.generic], *shape: int) -> Buffer:
        if not self.on_stack:
            return super()._work(result, name, dtype, *shape)
        memory = buffer(f"{result.name}_{name}", dtype, shape)
        self.stack.append(memory)
        return memory

    def _place(self, memory: Buffer) -> Position:
        return () if memory in self.stack else self.at

    def matrix(self, name: str, rows: int, columns: int) -> Buffer:
        """Memory for a column-major matrix."""
        return self._work(self.results[0], name, self.dtype, columns, rows, *self.pair)

    def numbers(self, name: str, dtype: np.dtype[Any], size: int) -> Buffer:
        """Memory for a vector of real numbers."""
        return self._work(self.results[0], name, dtype, size)

    def room(self, size: int) -> Buffer:
        """Workspace in the dtype of the matrices."""
        return self._work(self.results[0], "room", self.dtype, size, *self.pair)

    def element(self, row: Scalar, column: Scalar) -> Number:
        """An element of the given matrix."""
        return self.at_given(self.given)(row, column)

    def at_given(self, parts: Parts) -> Element:
        """The elements of an operand."""
        return lambda i, j: tuple(load(part, (*self.at, i, j)) for part in parts)

    def of(self, memory: Buffer) -> Element:
        """The elements of a copy."""

        def element(i: Scalar, j: Scalar) -> Number:
            place = (*self._place(memory), j, i)
            parts = ((const(p, INDEX),) for p in (0, 1)) if self.pair else ((),)
            return tuple(load(memory, (*place, *part)) for part in parts)

        return element

    def of_vector(self, memory: Buffer) -> Callable[[Scalar], Number]:
        """The elements of a real vector."""
        return lambda i: (load(memory, (*self._place(memory), i)),)

    def unit(self, row: Scalar, column: Scalar) -> Number:
        """An element of the identity matrix."""
        one, zero = const(1, self.dtype), const(0, self.dtype)
        return (where(eq(row, column), one, zero), zero)[: 1 + len(self.pair)]

    def triangle(self, element: Element, *, lower: bool) -> Element:
        """The elements of a matrix, with zeros outside of a triangle."""

        def inside(i: Scalar, j: Scalar) -> Number:
            keeps = i >= j if lower else i <= j
            return tuple(where(keeps, part, 0) for part in element(i, j))

        return inside

    def filled(self, memory: Buffer, rows: int, columns: int, element: Element) -> Statement:
        """Loops that copy a matrix, column by column."""
        i, j = index("i", rows), index("j", columns)
        place = (*self._place(memory), j, i)
        parts = [(*place, const(p, INDEX)) for p in (0, 1)] if self.pair else [place]
        values = (convert(part, memory.dtype) for part in element(i, j))
        body = tuple(Store(memory, at, x) for at, x in zip(parts, values, strict=True))
        return For(j, ZERO, as_index(columns), (For(i, ZERO, as_index(rows), body),))

    def handed(self, results: Parts, rows: int, columns: int, element: Element) -> Statement:
        """Loops that write results, row by row."""
        i, j = index("i", rows), index("j", columns)
        body = self._stores(results, (i, j), element(i, j))
        return For(i, ZERO, as_index(rows), (For(j, ZERO, as_index(columns), body),))

    def handed_numbers(
        self, results: Parts, size: int, number: Callable[[Scalar], Number]
    ) -> Statement:
        """A loop that writes vectors."""
        i = index("i", size)
        return For(i, ZERO, as_index(size), self._stores(results, (i,), number(i)))

    def handed_number(self, results: Parts, number: Number) -> Statements:
        """The stores of results with one number for each matrix."""
        return self._stores(results, (), number)

    def _stores(self, results: Parts, at: Number, number: Number) -> Statements:
        return tuple(
            Store(result, (*self.at, *at), convert(part, result.dtype))
            for result, part in zip(results, number, strict=True)
        )

    def succeeded(self, status: int) -> Statement:
        """Fail unless a routine reports success."""
        return ensure(eq(load(self.info, (*self._place(self.info), ZERO)), 0), status)


class InDouble(Copies):
    """Spectra and singular values, always in double precision, as in NumPy."""

    def __init__(self, given: Parts, results: Parts, on_stack: bool) -> None:
        super().__init__(given, results, on_stack)
        self.dtype = DOUBLE
