"""Cost model: the number of operations of expressions and statements.

Index arithmetic, which depends on nothing but loop indices, is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.loop import fragments
from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import BOOL, Scalar, evaluate, postorder
from functrans.loop.statements import For, If, MatrixMultiply, Reduce, Statement, Store, While
from functrans.loop.walk import bounds, expressions, loops_of, walk
from functrans.records import NamedTuple

DATA = frozenset({"load", "local", "parameter", "probe"})
"""The leaves that are data."""

NO_WORK = frozenset({"load", "probe", "checked", "required"})

Points = np.ndarray[Any, Any]

Count = int | Points
"""Numbers of operations at several points of the enclosing loops, or one number for all of them."""

AT_ONCE = 1 << 14
"""The number of points of the enclosing loops that are evaluated together."""

FEW = 1 << 12
"""The number of steps that are all evaluated, rather than samples of them."""

_LOOKS = np.array([0, 7, 197, 331, 499, 613, 797, 941, 983, 1000])
"""The sampled steps of a range, in thousandths: irregular, so that they do not resonate with
data."""


class At(NamedTuple):
    """Points of the enclosing loops: the values of the indices, and the number of points."""

    indices: Mapping[Scalar, Count]
    places: int

    def along(self, index: Scalar, value: Count) -> At:
        return At({**self.indices, index: value}, self.places)

    def summed(
        self, index: Scalar, start: Count, stop: Count, inside: Callable[[At], Count]
    ) -> Count:
        """The operations of a loop at each point; ``inside`` gives those of each of its steps.

        Few steps are all evaluated. Of many, samples are: if they lie on a line, the arithmetic
        series is summed; otherwise, the range is halved.
        """
        first = np.broadcast_to(np.asarray(start, np.int64), self.places)
        count = np.maximum(np.broadcast_to(np.asarray(stop, np.int64), self.places) - first, 0)
        total = np.zeros(self.places, np.int64)

        def found(place: Points, step: Points) -> Points:
            indices = {
                other: np.broadcast_to(value, self.places)[place]
                for other, value in self.indices.items()
            }
            return np.broadcast_to(inside(At(indices | {index: step}, len(place))), len(place))

        left = [(np.flatnonzero(count), first[count > 0], count[count > 0])]
        while left:
            place, first, count = left.pop()
            if len(place) > AT_ONCE:
                left.append((place[AT_ONCE:], first[AT_ONCE:], count[AT_ONCE:]))
                place, first, count = place[:AT_ONCE], first[:AT_ONCE], count[:AT_ONCE]
            if not len(place):
                continue
            most = max(FEW, len(place) * len(_LOOKS))
            if count.max() <= most and (ends := count.cumsum())[-1] <= most:
                every = place.repeat(count)
                step = np.arange(ends[-1]) + (first - ends + count).repeat(count)
                np.add.at(total, every, found(every, step))
                continue
            last = (count - 1)[:, None]
            spread = last // _LOOKS[-1] * _LOOKS + last % _LOOKS[-1] * _LOOKS // _LOOKS[-1]
            numbers = np.arange(len(_LOOKS))
            steps = np.where(last < len(_LOOKS), np.minimum(numbers, last), spread)
            seen = found(place.repeat(len(_LOOKS)), (first[:, None] + steps).reshape(-1))
            seen = seen.reshape(steps.shape)
            slope = (seen[:, -1] - seen[:, 0]) // np.maximum(count - 1, 1)
            done = (seen == seen[:, :1] + slope[:, None] * steps).all(axis=1)
            series = count * seen[:, 0] + slope * (count * (count - 1) // 2)
            total[place[done]] += series[done]
            place, first, count = place[~done], first[~done], count[~done]
            half = count // 2
            left += [(place, first, half), (place, first + half, count - half)]
        return total if self.places > 1 else int(total[0])


def operations(roots: Iterable[Scalar]) -> int:
    """The number of operations in some expressions, each counted once."""
    return _Operations()(list(roots))


def operations_of(body: Sequence[Statement], sizes: Sequence[int] = ()) -> int:
    """The number of operations of statements, for given sizes.

    Of branches, the most expensive counts; a loop of unknown length counts as one step. The work of
    library routines is not counted.
    """
    return _counted(tuple(body), tuple(sizes))


@cached(64)  # stages that leave statements as they are ask again
def _counted(body: tuple[Statement, ...], sizes: tuple[int, ...]) -> int:
    return int(_Tally(body, sizes).body(body, At({}, 1)))


_Inner = tuple[Sequence[Scalar], int]
"""The expressions of an arm or a fold's step, and how often they are computed."""


class _Operations:
    """Counts the operations of expressions, each once in a scope."""

    def __init__(self) -> None:
        self.of_data: dict[Scalar, bool] = {}
        self.own: dict[Scalar, int] = {}
        """The operations of each node, if there are any in it or below."""
        self.known: set[Scalar] = set()
        """Values that have been computed in the enclosing scopes."""
        self.order: list[Scalar] = []
        """The same, in order."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A branch or a step: what is computed in it is not available outside."""
        before = len(self.order)
        yield
        self._forget(before)

    def _forget(self, before: int) -> None:
        """Forget what was computed later than the first ``before`` values."""
        self.known.difference_update(self.order[before:])
        del self.order[before:]

    def __call__(self, roots: Sequence[Scalar]) -> int:
        """The operations that are not known yet."""
        self._weigh(roots)
        scopes: list[_Inner | int] = []
        total = self._outside(roots, 1, scopes)
        while scopes:  # iterative, since branches nest as deep as an array has parts
            scope = scopes.pop()
            if isinstance(scope, int):
                self._forget(scope)
                continue
            scopes.append(len(self.order))
            total += self._outside(*scope, scopes)
        return total

    def _outside(self, roots: Sequence[Scalar], times: int, scopes: list[_Inner | int]) -> int:
        """The operations outside of branches and folds, ``times`` each; what is in these waits."""
        own, known = self.own, self.known
        total = 0
        inner: list[Scalar] = []
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node not in own or node in known:
                continue
            known.add(node)
            self.order.append(node)
            total += own[node]
            if node.op == "guard":
                stack.append(node.args[0])
                inner.append(node)
            elif node.op == "fold":
                inner.append(node)
            else:
                stack += node.args
        for node in inner:
            if node.op == "guard":
                scopes += [((arm,), times) for arm in node.args[1:]]
            else:
                steps = prod(i.attribute[2] or 1 for i in node.attribute[1])
                total += steps
                scopes.append((node.args[:1], times * steps))
        return total * times

    def _weigh(self, roots: Sequence[Scalar]) -> None:
        for node in postorder(roots, known=self.of_data):
            args = node.args
            of_data = node.op in DATA or any(map(self.of_data.__getitem__, args))
            self.of_data[node] = of_data
            if node.op in ("guard", "fold"):
                self.own[node] = node.op == "guard"
            elif args and node.op not in NO_WORK and (of_data or node.dtype not in (INDEX, BOOL)):
                self.own[node] = node_count([node])
            elif not self.own.keys().isdisjoint(args):
                self.own[node] = 0


class _Tally:
    """Counts the operations of statements."""

    def __init__(self, body: Sequence[Statement], sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.operations = _Operations()
        self.bounding = {
            node
            for statement in walk(body)
            for node in postorder(bounds(statement))
            if node.op == "index"
        }
        """The loop indices on which the extents of other loops depend."""

    def body(self, body: Iterable[Statement], at: At) -> Count:
        return sum((self.statement(each, at) for each in body), 0)

    def inside(self, body: Iterable[Statement], at: At) -> Count:
        with self.operations.scope():
            return self.body(body, at)

    def statement(self, one: Statement, at: At) -> Count:
        match one:
            case For():
                return self.loops(loops_of(one), at, partial(self.inside, one.body))
            case Reduce():

                def step(at: At) -> Count:
                    with self.operations.scope():
                        own = self.body(one.body, at) + self.operations(one.values)
                        return own + len(one.values)

                return self.loops(one.loops, at, step)
            case If():
                first, second = (self.inside(arm, at) for arm in (one.body, one.otherwise))
                return self.operations([one.condition]) + _larger(first, second)
            case While():
                with self.operations.scope():
                    prepared = self.body(one.prepare, at) + self.operations([one.condition])
                    return prepared + self.body(one.body, at)
            case MatrixMultiply():
                return 2 * one.count * fragments.terms(one.dtype)
        combined = isinstance(one, Store) and one.op is not None
        return self.operations(expressions(one)) + combined

    def loops(
        self, loops: Sequence[tuple[Scalar, Scalar, Scalar]], at: At, inside: Callable[[At], Count]
    ) -> Count:
        """The operations of nested loops, where ``inside`` gives those of the innermost body."""
        if not loops:
            return inside(at)
        (index, *ends), *rest = loops
        start, stop = (self.number(end, at) for end in ends)
        if start is None or stop is None:
            return self.loops(rest, at.along(index, 0), inside)
        if index in self.bounding:
            return at.summed(index, start, stop, lambda at: self.loops(rest, at, inside))
        return _larger(stop - start, 0) * self.loops(rest, at.along(index, start), inside)

    def number(self, bound: Scalar, at: At) -> Count | None:
        """The value of an extent, unless it depends on data or on outer loops' indices."""
        if bound.op == "const":
            return int(bound.attribute)
        values: dict[Scalar, Any] = {node: np.int64(x) for node, x in at.indices.items()}
        for node in postorder([bound]):
            if node.op in ("load", "local") or (node.op == "index" and node not in values):
                return None
            if node.op == "size":
                values[node] = np.int64(self.sizes[node.attribute])
        result = evaluate(bound, values)
        return result if np.ndim(result) else int(result)


def _larger(first: Count, second: Count) -> Count:
    if isinstance(first, int) and isinstance(second, int):  # an unknown size
        return max(first, second)
    return np.maximum(first, second)
