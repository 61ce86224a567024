"""The roles of a convolution's labels, with extents and windows: the input of its blocking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from functrans.ir.graph import Eqn
from functrans.loop.target import Target
from functrans.ops.convolution.compiled.limits import Axis, Convolutions, counts
from functrans.ops.convolution.convolution import extents, roles
from functrans.ops.convolution.windows import Window


class Problem:
    """The properties of a convolution on which the choice of vectors, tiles and blocks depends."""

    def __init__(self, eqn: Eqn, target: Target) -> None:
        x, y = (operand.aval for operand in eqn.inputs)
        (result,) = eqn.outputs
        self.own, self.other, self.out = (
            eqn.params[key] for key in ("x_labels", "y_labels", "out")
        )
        self.windows: dict[int, Window] = dict(eqn.params["windows"])
        self.roles = roles(self.own, self.other, self.out, eqn.params["windows"])
        self.sizes = extents(x.shape, y.shape, eqn.params)
        self.seen = dict(zip(self.own, x.shape, strict=True))
        self.target, self.limits = target, target[Convolutions]
        self.itemsize = result.aval.dtype.itemsize
        self.registers = target.lanes(self.itemsize)
        self.weights, self.results = y.size * self.itemsize, result.aval.size
        *_, self.terms = counts(eqn)
        self.places = [label for label in self.out if label in self.windows]
        self.columns = [label for label in self.out if label in self.roles.columns]
        if not self.columns:
            # a single filter is one feature
            self.columns = [1 + max(self.sizes)]
            self.sizes[self.columns[0]] = 1
        self.rows = [label for label in self.out if label in self.roles.rows]
        self.summed = [label for label in self.own if label in self.roles.summed]
        self.channels = prod(self.sizes[label] for label in self.summed)
        self.room = target.cache // self.limits.part_of_cache

    def axes(
        self, labels: Iterable[int], sizes: Mapping[int, int] | None = None
    ) -> tuple[Axis, ...]:
        """Axes of the result or the operands, or with other extents."""
        sizes = self.sizes if sizes is None else sizes
        return tuple(Axis(label, sizes[label]) for label in labels)
