"""Twiddle factors: tables of cosines and sines, which a program computes once in each call."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert
from functrans.loop.statements import Buffer, For, Store, load
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.pairs import Pair
from functrans.ops.compiled.statements import shared
from functrans.ops.fft.compiled.lines import Parts, Stored, stored, vector_loop
from functrans.vecmath.turns import turn


class Tables:
    """Generates tables for transforms of a dtype."""

    def __init__(self, at: Emission, dtype: np.dtype[Any]) -> None:
        self.at = at
        self.dtype = dtype
        self.lanes = at.target.lanes(dtype.itemsize)

    def multiples(self, points: int) -> Parts:
        """The table ``[k]`` of multiples k of a turn divided by ``points``."""

        def make() -> Parts:
            table = self._memory("turns", (points,))
            body = vector_loop(
                "k", points, self.lanes, lambda k: self._point(table, (k,), k, points)
            )
            self.at.call(shared(body), writes=table)
            return table

        return self.at.shared((Tables, self.dtype, points), make)

    def products(self, rows: int, columns: int) -> Parts:
        """The table ``[j, k]`` of multiples j k of a turn divided by ``rows * columns``."""

        def make() -> Parts:
            table = self._memory("products", (rows, columns))
            j, points = index("j", rows), rows * columns
            body = vector_loop(
                "k", columns, self.lanes, lambda k: self._point(table, (j, k), j * k, points)
            )
            if self.at.target.lanes_are_threads:
                body = shared(body)
            loop = For(j, ZERO, const(rows, INDEX), body, parallel=True)
            self.at.call((loop,), writes=table)
            return table

        return self.at.shared((Tables, self.dtype, rows, columns), make)

    def number(self, value: float) -> Scalar:
        """A number read from memory, so that transforms that differ in it share a kernel."""
        if self.at.target.lanes_are_threads:  # if that would need a launch
            return const(value, self.dtype)

        def make() -> Buffer:
            memory = self.at.scratch("scale", self.dtype, ())
            put = Store(memory, (), const(value, self.dtype))
            self.at.call((put,), writes=(memory,))
            return memory

        return load(self.at.shared((Tables, self.dtype, value), make), ())

    def _memory(self, name: str, shape: tuple[int, ...]) -> Parts:
        return Parts(
            *(self.at.scratch(f"{name}_{part}", self.dtype, shape) for part in ("cos", "sin"))
        )

    def _point(
        self, table: Parts, position: tuple[Scalar, ...], numerator: Scalar, steps: int
    ) -> Body:
        point = Pair(*(convert(part, self.dtype) for part in turn(numerator, steps)))
        return stored([Stored(table, position, point)])
