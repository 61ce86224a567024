"""Convolutions by BLAS: blocks of windows are copied side by side (im2col), and multiplied.

A block has the size of the cache. A layer has many rows, which are divided among threads. The
derivative with respect to a kernel has few rows and long sums, which are computed in parts, one
for each thread. The number of parts does not depend on the number of threads, so neither do the
bits of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, combine_pairwise, index
from functrans.loop.scalar import Scalar, const, convert, idiv, irem, minimum
from functrans.loop.statements import Address, Buffer, Call, For, Store, load
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.convolution.compiled.plan import Axis, Convolutions, Cut, Plan
from functrans.ops.convolution.compiled.shares import At, for_each, loop_lanes, numbers, share
from functrans.ops.convolution.convolution import Labels
from functrans.ops.convolution.windows import element_seen, where_all
from functrans.ops.linalg.compiled.blas import ROUTINES, spacing


def emit(at: Emission, plan: Plan) -> None:
    """A convolution as matrix products of blocks."""
    _Convolution(at, plan).emit()


class _Block(NamedTuple):
    """A block of rows or of terms.

    Parameters
    ----------
    outer : dict
        Its position along the outer axes.
    start, size : Scalar
        Its piece of the first inner axis.
    """

    outer: At
    start: Scalar
    size: Scalar


class _Memory(NamedTuple):
    """An array in memory, and the labels of its axes.

    ``before`` are indices of axes in front of these.
    """

    buffer: Buffer
    labels: Labels
    before: tuple[Scalar, ...] = ()

    def address(self, position: Mapping[int, Scalar]) -> Address:
        inner = (position.get(label, ZERO) for label in self.labels)
        return Address(self.buffer, (*self.before, *inner))

    def spacing(self, axes: Sequence[Axis]) -> int:
        shape, skipped = self.buffer.extents, len(self.before)
        places = [skipped + self.labels.index(axis.label) for axis in axes]
        found = spacing(shape, [place for place in places if shape[place] != 1])
        assert found is not None
        return found


class _Convolution:
    def __init__(self, at: Emission, of: Plan) -> None:
        self.at = at
        self.plan = of
        params = at.eqn.params
        self.windows = dict(params["windows"])
        self.x = _Memory(at.operand(0), params["x_labels"])
        self.y = _Memory(at.operand(1), params["y_labels"])
        self.out = _Memory(at.result(), params["out"])
        self.dtype = self.out.buffer.dtype
        rows, summed = of.rows.shape, of.summed.shape
        self.rows_last = self._rows_are_neighbours()
        self.block = (*summed, *rows) if self.rows_last else (*rows, *summed)

    def emit(self) -> None:
        if self.plan.repacked:
            self._repack()
        if self.plan.sums > 1:
            self._in_sums()
        else:
            self._in_shares()

    def _rows_are_neighbours(self) -> bool:
        """Whether a block is column-major.

        It is copied along its last axis, which should be the last axis of ``x``, too.
        """
        return self._run(self.plan.rows, False) >= self._run(self.plan.summed, True)

    def _run(self, cut: Cut, taps: bool) -> int:
        """The contiguous elements that are copied at once along the last axis of a block."""
        last = cut.inner[-1]
        axis = self.x.labels.index(last.label) if last.label in self.x.labels else -1
        step = prod(self.x.buffer.extents[axis + 1 :]) if axis >= 0 else 0
        window = self.windows.get(last.label)
        if window is not None:
            step *= window.dilation if taps else window.stride
        lanes = self.at.target.lanes(self.dtype.itemsize)
        return min(cut.shape[-1], lanes) if step == 1 else 1

    # -- the parts ----------------------------------------------------------------------------

    def _in_shares(self) -> None:
        """The blocks of the result, divided among threads."""
        number = self.plan.products
        parts = min(number, self.at.target[Convolutions].most_parts)
        part = index("part", parts)
        scratch = self._scratch(parts, part)

        def product(b: Scalar) -> Body:
            apart = numbers(idiv(b, self.plan.rows.number), self.plan.apart)
            rows = self._block(self.plan.rows, irem(b, self.plan.rows.number))
            terms = self.plan.summed.number
            if terms == 1:
                return self._product(scratch, self.out, apart, rows, ZERO, 0)
            return (
                *self._zeros(apart, rows),
                *for_each(terms, lambda s: self._product(scratch, self.out, apart, rows, s, 1)),
            )

        body = share(part, number, product)
        self.at.call(self._parallel(part, body), work=self._work())

    def _in_sums(self) -> None:
        """The sum in parts, one for each thread, which are added in the end."""
        parts = self.plan.sums
        part = index("part", parts)
        sums = self.at.scratch("sums", self.dtype, (parts, *self.out.buffer.extents))
        target = self.out._replace(buffer=sums, before=(part,))
        scratch = self._scratch(parts, part)

        def products(s: Scalar) -> Body:
            def product(b: Scalar) -> Body:
                apart = numbers(idiv(b, self.plan.rows.number), self.plan.apart)
                rows = self._block(self.plan.rows, irem(b, self.plan.rows.number))
                return self._product(scratch, target, apart, rows, s, 1)

            return for_each(self.plan.products, product)

        loops = [index("i", extent) for extent in self.out.buffer.extents]
        clear = Store(sums, (part, *loops), const(0, self.dtype))
        body = (
            *nest(loops[:-1], vectorised(loops[-1], clear, self.at.target)),
            *share(part, self.plan.summed.number, products),
        )
        self.at.call(self._parallel(part, body), work=self._work(), writes=(sums,))
        terms = [load(sums, (const(n, INDEX), *loops)) for n in range(parts)]
        total = Store(self.out.buffer, tuple(loops), combine_pairwise("add", terms))
        self.at.call(
            nest(loops[:-1], vectorised(loops[-1], total, self.at.target)),
            work=parts * self.out.buffer.count,
        )

    def _scratch(self, parts: int, part: Scalar) -> _Memory:
        """Memory for a block of windows in each of the parts."""
        memory = self.at.scratch("windows", self.dtype, (parts, *self.block))
        return _Memory(memory, (), (part,))

    def _parallel(self, part: Scalar, body: Body) -> Body:
        return (For(part, ZERO, const(part.attribute[2], INDEX), body, parallel=True),)

    def _work(self) -> int:
        rows, summed = self.plan.rows, self.plan.summed
        size = prod((*rows.shape, *summed.shape)) * rows.number * summed.number
        return size * prod(axis.extent for axis in (*self.plan.apart, *self.plan.columns)) // 8

    # -- one product --------------------------------------------------------------------------

    def _block(self, cut: Cut, number: Scalar) -> _Block:
        """The block of a number."""
        piece, rest = irem(number, cut.pieces), idiv(number, cut.pieces)
        start = self.at.simplify(piece * cut.length)
        left = const(cut.inner[0].extent, INDEX) - start
        whole = cut.pieces * cut.length == cut.inner[0].extent
        size = const(cut.length, INDEX) if whole else minimum(left, cut.length)
        outer = {label: self.at.simplify(i) for label, i in numbers(rest, cut.outer).items()}
        return _Block(outer, start, self.at.simplify(size))

    def _product(
        self, scratch: _Memory, out: _Memory, apart: At, rows: _Block, number: Scalar, beta: int
    ) -> Body:
        """Statements that copy a block of windows, and multiply it."""
        apart = {label: self.at.simplify(i) for label, i in apart.items()}
        terms = self._block(self.plan.summed, number)
        copy = self._copied(scratch, apart, rows, terms)
        return (*copy, self._gemm(scratch, out, apart, rows, terms, beta))

    def _copied(self, scratch: _Memory, apart: At, rows: _Block, terms: _Block) -> Body:
        """Loops that copy a block of windows."""
        cuts = [(self.plan.summed, terms), (self.plan.rows, rows)]
        loops: list[tuple[Scalar, Scalar]] = []
        found: list[At] = []
        for cut, block in cuts if self.rows_last else reversed(cuts):
            inner = [index("i", extent) for extent in cut.shape]
            stops = [block.size, *(const(extent, INDEX) for extent in cut.shape[1:])]
            loops += zip(inner, stops, strict=True)
            within = dict(zip((axis.label for axis in cut.inner), inner, strict=True))
            within[cut.inner[0].label] = block.start + inner[0]
            found.append(block.outer | within)
        places, taps = found[::-1] if self.rows_last else found
        own = apart | places | {k: v for k, v in taps.items() if k not in self.windows}
        conditions = []
        for label, window in self.windows.items():
            extent = self.x.buffer.extents[self.x.labels.index(label)]
            holds, own[label] = element_seen(window, extent, places[label], taps[label])
            conditions += holds
        value = where_all(conditions, load(self.x.buffer, [own[i] for i in self.x.labels]))
        position = (*scratch.before, *(loop for loop, _ in loops))
        body: Body = (Store(scratch.buffer, position, self.at.simplify(value)),)
        lanes = loop_lanes(self.at.target.lanes(self.dtype.itemsize), loops[-1][0].attribute[2])
        for loop, stop in reversed(loops):
            body = (For(loop, ZERO, stop, body, lanes=lanes),)
            lanes = 1
        return body

    def _gemm(
        self, scratch: _Memory, out: _Memory, apart: At, rows: _Block, terms: _Block, beta: int
    ) -> Call:
        """The product of a block of windows with the corresponding part of ``y``."""
        row_count = rows.size * prod(self.plan.rows.shape[1:])
        term_count = terms.size * prod(self.plan.summed.shape[1:])
        column_count = const(prod(axis.extent for axis in self.plan.columns), INDEX)
        here = apart | rows.outer | {self.plan.rows.inner[0].label: rows.start}
        there = apart | terms.outer | {self.plan.summed.inner[0].label: terms.start}
        within = prod(self.plan.rows.shape), prod(self.plan.summed.shape)
        row_step, term_step = (1, within[0]) if self.rows_last else (within[1], 1)
        start = Address(scratch.buffer, (*scratch.before, *(ZERO,) * len(self.block)))
        columns = self.plan.columns
        width = prod(axis.extent for axis in columns)
        windows = _Matrix(start, row_step, term_step, row_count, term_count, within)
        others = _Matrix(
            self.y.address(there), self.y.spacing(self.plan.summed.inner), self.y.spacing(columns),
            term_count, column_count, (within[1], width),
        )  # fmt: skip
        result = _Matrix(
            out.address(here), out.spacing(self.plan.rows.inner), out.spacing(columns),
            row_count, column_count, (within[0], width),
        )  # fmt: skip
        # BLAS needs a result with contiguous columns
        if result.row_step == 1:
            left, right = windows, others
        else:
            left, right, result = others.turned(), windows.turned(), result.turned()
        arguments = (
            left.flag(),
            right.flag(),
            self._int(result.rows),
            self._int(result.columns),
            self._int(left.columns),
            const(1, self.dtype),
            left.address,
            self._int(left.leading()),
            right.address,
            self._int(right.leading()),
            const(beta, self.dtype),
            result.address,
            self._int(result.leading()),
        )
        reads = (scratch.buffer, self.y.buffer, *((out.buffer,) if beta else ()))
        return Call(ROUTINES[self.dtype], arguments, reads, (out.buffer,))

    def _int(self, value: Scalar | int) -> Scalar:
        number = value if isinstance(value, Scalar) else const(value, INDEX)
        return convert(self.at.simplify(number), np.int32)

    def _zeros(self, apart: At, rows: _Block) -> Body:
        """Loops that clear a block of the result."""
        axes = (*self.plan.rows.inner, *self.plan.columns)
        loops = {axis.label: index("i", axis.extent) for axis in axes}
        first = self.plan.rows.inner[0].label
        here = apart | rows.outer | loops | {first: rows.start + loops[first]}
        position = [self.at.simplify(i) for i in self.out.address(here).indices]
        body: Body = (Store(self.out.buffer, tuple(position), const(0, self.dtype)),)
        for label, loop in reversed(loops.items()):
            stop = rows.size if label == first else const(loop.attribute[2], INDEX)
            body = (For(loop, ZERO, stop, body),)
        return body

    # -- the other operand --------------------------------------------------------------------

    def _repack(self) -> None:
        """Copy ``y`` into an order in which it consists of matrices."""
        terms = (*self.plan.summed.outer, *self.plan.summed.inner)
        ours = {axis.label for axis in self.plan.apart} & {*self.y.labels}
        axes = (
            *(axis for axis in self.plan.apart if axis.label in ours), *terms, *self.plan.columns
        )  # fmt: skip
        packed = self.at.scratch("packed", self.dtype, [axis.extent for axis in axes])
        loops = {axis.label: index("i", axis.extent) for axis in axes}
        value = load(self.y.buffer, [loops[label] for label in self.y.labels])
        *outer, last = loops.values()
        store = Store(packed, tuple(loops.values()), value)
        body = nest(outer, vectorised(last, store, self.at.target))
        self.at.call(body, work=packed.count, writes=(packed,))
        self.y = _Memory(packed, tuple(loops))


class _Matrix(NamedTuple):
    """A matrix in memory, with stride 1 along rows or columns."""

    address: Address
    row_step: int
    column_step: int
    rows: Scalar
    columns: Scalar
    most: tuple[int, int]
    """The most rows and columns that a block has."""

    def turned(self) -> _Matrix:
        return _Matrix(
            self.address, self.column_step, self.row_step, self.columns, self.rows, self.most[::-1]
        )

    def flag(self) -> bytes:
        """Its BLAS flag, relative to column-major order."""
        return b"N" if self.row_step == 1 else b"T"

    def leading(self) -> int:
        """The stride of its columns or rows, also if there is only one."""
        if self.row_step == 1:
            return max(self.column_step, self.most[0])
        return max(self.row_step, self.most[1])
