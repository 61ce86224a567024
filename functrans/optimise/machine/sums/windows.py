"""Sums over windows become convolutions, so that windows are not materialised.

A product that sums over the taps of windows, or over their positions, is a convolution of the array
from which the windows are taken. A product whose elements are added where windows overlap is the
transpose of such a convolution, which is a convolution, too. If all taps of a window have the same
number, as in the derivative of a moving average, the overlap-add is a sum over windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.structural import (
    broadcast_to,
    broadcast_to_p,
    reduce_sum,
    reshape,
    transpose_p,
)
from functrans.ops.convolution.compiled.selection import is_large
from functrans.ops.convolution.convolution import convolution, convolve, params_of
from functrans.ops.convolution.windows import (
    Labels,
    Window,
    Windows,
    from_elements,
    from_taps,
    overlap_add_p,
    windows_of,
    windows_p,
)
from functrans.ops.linalg.contraction import dot_general, free_axes
from functrans.optimise.rewrite import Rule
from functrans.records import NamedTuple
from functrans.trace.stage import Environment

Producers = Mapping[Atom, Eqn]


class _Axis(NamedTuple):
    """An axis of windows: an axis of the array from which they are taken, or the taps along it."""

    label: int
    are_taps: bool = False


class _Sliding:
    """Windows of an array: their axes, and the windows by the labels of the array's axes."""

    def __init__(self, ndim: int) -> None:
        self.axes = [_Axis(label) for label in range(ndim)]
        self.windows: dict[int, Window] = {}

    def take(self, along: Sequence[int], windows: Sequence[Window]) -> bool:
        """Take windows along some axes; False for windows of taps, or two along one axis."""
        slid = [self.axes[axis] for axis in along]
        if any(axis.are_taps or axis.label in self.windows for axis in slid):
            return False
        self.axes += [_Axis(axis.label, True) for axis in slid]
        self.windows |= {axis.label: w for axis, w in zip(slid, windows, strict=True)}
        return True


class _Convolution(NamedTuple):
    """A convolution that replaces other equations."""

    x: Atom
    y: Atom
    labels: tuple[Labels, Labels, Labels]
    windows: Windows


def of_windows(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that replace products of windows, and overlap-add of products, by convolutions."""
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive is overlap_add_p and _repeats(eqn, graph.makers):
            rules[eqn] = partial(_sum_of_windows, graph.makers[eqn.inputs[0]].inputs[0], eqn)
            continue
        found: _Convolution | None = None
        if eqn.primitive is dot_general:
            found = _of_product(eqn, 0, graph.makers) or _of_product(eqn, 1, graph.makers)
        elif eqn.primitive is overlap_add_p:
            found = _of_overlap(eqn, graph.makers, graph.uses)
        if found is not None and _is_worth_it(found, eqn, target):
            rules[eqn] = partial(_convolved, found)
    return rules


def _repeats(eqn: Eqn, producers: Producers) -> bool:
    """Whether an overlap-add adds the same number at all taps of a position."""
    (x,) = eqn.inputs
    maker, taps = producers.get(x), len(eqn.params["axes"])
    if maker is None or maker.primitive is not broadcast_to_p:
        return False
    source = maker.inputs[0].aval.shape
    return len(source) == x.aval.ndim and set(source[x.aval.ndim - taps :]) == {1}


def _sum_of_windows(source: Atom, eqn: Eqn, values: Environment) -> list[Any]:
    """The sums over all windows that contain an element: each number is then stored only once."""
    axes, windows, shape = eqn.params["axes"], eqn.params["windows"], eqn.params["shape"]
    positions = eqn.inputs[0].aval.shape[: len(shape)]
    x = values.read(source)
    x = broadcast_to(reshape(x, shape=x.shape[: len(shape)]), shape=positions)
    seen = tuple(from_elements(w, shape[axis]) for axis, w in zip(axes, windows, strict=True))
    taps = tuple(range(len(shape), len(shape) + len(axes)))
    return [reduce_sum(windows_of(x, axes=axes, windows=seen), axes=taps)]


def _convolved(of: _Convolution, values: Environment) -> list[Any]:
    return [convolve(values.read(of.x), values.read(of.y), of.labels, of.windows)]


def _is_worth_it(of: _Convolution, eqn: Eqn, target: Target) -> bool:
    """Whether the convolution has a compiled form of its own."""
    (out,) = eqn.outputs
    if not out.aval.dtype == of.x.aval.dtype == of.y.aval.dtype:
        return False
    windows = tuple((label, window._replace(base=1)) for label, window in of.windows)
    params = params_of(of.labels, windows)
    return is_large(Eqn(convolution, (of.x, of.y), (Var(out.aval),), params), target)


def _of_product(eqn: Eqn, side: int, producers: Producers) -> _Convolution | None:
    """A product of windows that sums over taps or positions; None if it is not one."""
    found = _source_of_windows(eqn.inputs[side], producers)
    if found is None:
        return None
    source, sliding = found
    contract, batch = (eqn.params[key] for key in ("contract", "batch"))
    windows = _summed_windows(
        sliding,
        {sliding.axes[axis] for axis in contract[side]},
        {sliding.axes[axis] for axis in batch[side]},
        source.aval.shape,
    )
    if not windows:
        return None
    own = [axis.label for axis in sliding.axes]
    other: list[int | None] = [None] * eqn.inputs[1 - side].aval.ndim
    for pairs in (contract, batch):
        for axis, there in zip(pairs[side], pairs[1 - side], strict=True):
            other[there] = own[axis]
    fresh = iter(range(source.aval.ndim, source.aval.ndim + len(other)))
    theirs = tuple(next(fresh) if label is None else label for label in other)
    labels = [own, theirs] if side == 0 else [theirs, own]
    out = [labels[0][axis] for axis in batch[0]]
    for number, each in enumerate(labels):
        out += [each[axis] for axis in free_axes(len(each), contract[number], batch[number])]
    ours = tuple(range(source.aval.ndim))
    return _Convolution(source, eqn.inputs[1 - side], (ours, theirs, tuple(out)), windows)


def _source_of_windows(windows: Atom, producers: Producers) -> tuple[Atom, _Sliding] | None:
    """The array from which transposed windows are taken, and how; None if this is not a window."""
    source, chain = windows, []
    while (maker := producers.get(source)) is not None:
        if maker.primitive not in (windows_p, transpose_p):
            break
        chain.append(maker)
        source = maker.inputs[0]
    sliding = _Sliding(source.aval.ndim)
    for maker in reversed(chain):
        if maker.primitive is transpose_p:
            sliding.axes = [sliding.axes[axis] for axis in maker.params["permutation"]]
        elif not sliding.take(maker.params["axes"], maker.params["windows"]):
            return None
    return source, sliding


def _summed_windows(
    sliding: _Sliding, summed: Set[_Axis], batched: Set[_Axis], shape: Shape
) -> tuple[tuple[int, Window], ...]:
    """The windows of a convolution that sums over the taps or the positions of each; none if not.

    A window's padding may be multiplied by infinity, which gives NaN; that of a convolution is not.
    So windows must not reach outside.
    """
    windows = []
    for label, window in sliding.windows.items():
        positions, taps = _Axis(label), _Axis(label, True)
        is_one = (taps in summed) != (positions in summed)
        if not is_one or not batched.isdisjoint((positions, taps)):
            return ()
        if not window.inside(shape[label]):
            return ()
        windows.append((label, window if taps in summed else from_taps(window)))
    return tuple(windows)


def _of_overlap(eqn: Eqn, producers: Producers, uses: Counter[Atom]) -> _Convolution | None:
    """An overlap-add of a product of taps and positions; None if it is not one."""
    (result,) = eqn.outputs
    found = _added_product(eqn, producers, uses)
    if found is None:
        return None
    maker, sliding = found
    contract, batch = (maker.params[key] for key in ("contract", "batch"))
    free = [free_axes(x.aval.ndim, contract[n], batch[n]) for n, x in enumerate(maker.inputs)]
    of_batch, of_free = sliding.axes[: len(batch[0])], sliding.axes[len(batch[0]) :]
    sides = of_free[: len(free[0])], of_free[len(free[0]) :]
    labels: list[dict[int, int]] = [{}, {}]
    for number in (0, 1):
        labels[number] |= zip(free[number], (axis.label for axis in sides[number]), strict=True)
        labels[number] |= zip(batch[number], (axis.label for axis in of_batch), strict=True)
        fresh = range(result.aval.ndim, result.aval.ndim + len(contract[number]))
        labels[number] |= zip(contract[number], fresh, strict=True)
    # the taps belong to one operand, the positions to the other
    taps = {_Axis(label, True) for label in sliding.windows}
    positions = {_Axis(label) for label in sliding.windows}
    x, y = (0, 1) if taps.issubset(sides[1]) else (1, 0)
    if not taps.issubset(sides[y]) or not positions.issubset(sides[x]):
        return None
    windows = tuple(
        (label, from_elements(window, result.aval.shape[label]))
        for label, window in sliding.windows.items()
    )
    own, other = (tuple(labels[n][axis] for axis in range(len(labels[n]))) for n in (x, y))
    ours = tuple(range(result.aval.ndim))
    return _Convolution(maker.inputs[x], maker.inputs[y], (own, other, ours), windows)


def _added_product(
    eqn: Eqn, producers: Producers, uses: Counter[Atom]
) -> tuple[Eqn, _Sliding] | None:
    """The product whose elements are added where windows overlap, and these windows' axes."""
    sliding = _Sliding(eqn.outputs[0].aval.ndim)
    maker: Eqn | None = eqn
    while maker is not None and maker.primitive in (overlap_add_p, transpose_p):
        if maker.primitive is overlap_add_p:
            if not sliding.take(maker.params["axes"], maker.params["windows"]):
                return None
        else:
            permutation = maker.params["permutation"]
            sliding.axes = [sliding.axes[permutation.index(i)] for i in range(len(permutation))]
        (source,) = maker.inputs
        maker = producers.get(source) if uses[source] == 1 else None
    return (maker, sliding) if maker is not None and maker.primitive is dot_general else None
