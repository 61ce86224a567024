"""Gradient flow: the magnitudes of cotangents along a backward pass, and of the primal values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import check_callable
from functrans.api.compile import jit
from functrans.ir.graph import Eqn
from functrans.ir.observe import Observer, observed
from functrans.ir.types import is_inexact
from functrans.records import NamedTuple
from functrans.run.call.failures import by_numpy
from functrans.trace.source import Source
from functrans.tracebacks import boundary
from functrans.tree import core as tree

MOST_ROWS = 40
"""The number of visits that are printed; of more, those in the middle are left out."""


class Magnitude(NamedTuple):
    """Statistics of the magnitudes of an array's elements."""

    mean_square: float
    """The root mean square of the elements."""
    largest: float
    """The largest absolute value; NaN if an element is NaN."""

    def __str__(self) -> str:
        return f"{self.mean_square:>9.3g} {self.largest:>9.3g}"


class Visit(NamedTuple):
    """One evaluation of a location in the user's code, in the forward or backward pass.

    Parameters
    ----------
    source : Source
        The location; ``source.line`` and ``source.text`` are its line.
    cotangents : Magnitude
        Of the values that the backward pass computed for it.
    values : Magnitude or None
        Of the values that the forward pass computed there, if any.
    """

    source: Source
    cotangents: Magnitude
    values: Magnitude | None


class BackwardTrace:
    """The magnitudes along a backward pass; prints as a table, from the loss to the parameters.

    Attributes
    ----------
    visits : list of Visit
        In the order of the backward pass.
    results : dict of str to Magnitude
        Of the function's results, including gradients, by their key paths.
    """

    def __init__(self, visits: Sequence[Visit], results: dict[str, Magnitude]) -> None:
        self.visits = list(visits)
        self.results = results

    def __repr__(self) -> str:
        rows = list(self._rows())
        if len(rows) > MOST_ROWS:
            half = MOST_ROWS // 2
            rows[half:-half] = [f"{'...':>9}  {len(rows) - 2 * half} more"]
        results = [f"{size}{'':>22}the result{place}" for place, size in self.results.items()]
        columns = f"{'rms':>9} {'largest':>9}"
        head = f"{'cotangents':>19}   {'values':>19}\n{columns}   {columns}   line"
        return "\n".join([head, *rows, *results])

    def _rows(self) -> Iterator[str]:
        for source, cotangents, values in self.visits:
            beside = values or f"{'':>19}"
            yield f"{cotangents}   {beside}   {source}  {source.text}".rstrip()

    def plot(self, axes: Any = None) -> Any:
        """The root mean squares of the cotangents, from the loss to the parameters.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            New ones if none are given; this needs matplotlib.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.figure(layout="constrained").add_subplot()
        sizes = [visit.cotangents.mean_square for visit in self.visits]
        axes.plot(sizes, "o-")
        axes.set_yscale("log")
        axes.set_ylabel("root mean square of the cotangents")
        if len(sizes) <= MOST_ROWS:
            names = [f"{v.source.line}: {v.source.text}"[:40] for v in self.visits]
            axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
        return axes


@boundary
def trace_back(function: Callable[..., Any]) -> Callable[..., BackwardTrace]:
    """The magnitudes of cotangents along the backward pass, from the loss to each parameter.

    This shows where gradients begin to vanish or explode: each operation of the backward pass is a
    row, in order, with the magnitude of its result beside that of the value that the forward pass
    computed at the same place.

    Parameters
    ----------
    function : callable
        A gradient, such as ``grad(f)`` or ``value_and_grad(f)``, compiled or not, or a function
        that computes one. It is evaluated by NumPy, operation by operation.

    Returns
    -------
    callable
        Takes the arguments of ``function``, and returns a `BackwardTrace`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, grad
    >>> def loss(w, x):
    ...     for _ in range(3):
    ...         x = np.tanh(w @ x)
    ...     return np.sum(x)
    >>> traced = debug.trace_back(grad(loss))(0.1 * np.eye(2), np.ones(2))
    >>> [f"{visit.cotangents.largest:.2g}" for visit in traced.visits]
    ['1', '1', '0.1', '0.1', '0.02', '0.0099', '0.03']
    """
    check_callable(function, "debug.trace_back")

    @boundary
    def traced(*args: Any, **kwargs: Any) -> BackwardTrace:
        seen = _Magnitudes()
        path, inputs = jit(function).path_of(args, kwargs)
        with np.errstate(all="ignore"), observed(seen):
            outputs = by_numpy(path.graph, inputs)
        result = path.structure.unflatten(outputs[len(path.outcomes) :])
        return BackwardTrace([*_visits(seen.values(), seen.backward)], _results(result))

    return traced


def _results(result: Any) -> dict[str, Magnitude]:
    found = {}
    for place, x in tree.flatten_with_path(result)[0]:
        row = _Row()
        row.add(x)
        if row.size:
            found[str(place)] = row.magnitude
    return found


class _Row:
    """Accumulates the statistics of one visit."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source
        self.largest = 0.0
        self.squares = 0.0
        self.size = 0

    def add(self, x: Any) -> None:
        array = np.asarray(x)
        if is_inexact(array.dtype) and array.size:
            sizes = np.abs(array).astype(np.float64)
            self.largest = np.maximum(self.largest, sizes.max())  # propagates NaN
            self.squares += np.sum(sizes * sizes)
            self.size += array.size

    @property
    def magnitude(self) -> Magnitude:
        return Magnitude(float(np.sqrt(self.squares / self.size)), float(self.largest))


class _Magnitudes(Observer):
    """Accumulates the statistics of the values at each visit of a location."""

    def __init__(self) -> None:
        self.forward: list[_Row] = []
        self.backward: list[_Row] = []
        self.again: list[_Row] = []
        self._rows = {"": self.forward, "cotangent": self.backward, "again": self.again}

    def values(self) -> list[_Row]:
        """The values that the forward pass computes, or that the backward pass recomputes."""
        known = {row.source for row in self.forward}
        return [*self.forward, *(row for row in self.again if row.source not in known)]

    def after(self, eqn: Eqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
        source = eqn.source
        if source is None or eqn.primitive.higher_order:
            return
        if source.derivative == "tangent":  # local derivatives
            return
        rows = self._rows[source.derivative]
        if source.derivative == "again":
            source = source.of("")
        if not rows or rows[-1].source != source:
            rows.append(_Row(source))
        for result in results:
            rows[-1].add(result)


def _visits(forward: Sequence[_Row], backward: Sequence[_Row]) -> Iterator[Visit]:
    """The visits of the backward pass, each with the corresponding visit of the forward pass."""
    values: dict[Any, list[_Row]] = defaultdict(list)
    visits: dict[Any, int] = defaultdict(int)
    for row in forward:
        if row.size and row.source is not None:
            values[row.source.of("cotangent")].append(row)
    rows = [row for row in backward if row.size and row.source is not None]
    for row in rows:
        visits[row.source] += 1
    for row in rows:
        assert row.source is not None
        beside = values[row.source]
        # the last of several forward visits is the first one backward
        match = beside.pop() if beside and visits[row.source] >= len(beside) else None
        yield Visit(row.source, row.magnitude, None if match is None else match.magnitude)
