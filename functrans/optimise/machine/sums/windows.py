"""Sums over windows become convolutions, so that windows are not materialised.

A product that sums over the taps of windows, or over their positions, is a convolution of the array
from which the windows are taken. A product whose elements are added where windows overlap is the
transpose of such a convolution, which is a convolution, too. If all taps of a window have the same
number, as in the derivative of a moving average, the overlap-add is a sum over windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from functrans.ir.graph import Atom, Eqn, Graph, Var
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
from functrans.trace.stage import Environment

Producers = Mapping[Atom, Eqn]


class _Axis(NamedTuple):
    """An axis of windows: an axis of the array from which they are taken, or the taps along it."""

    label: int
    are_taps: bool = False


class _Convolution(NamedTuple):
    """A convolution that replaces other equations."""

    x: Atom
    y: Atom
    labels: tuple[Labels, Labels, Labels]
    windows: Windows


def of_windows(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that replace products of windows, and overlap-add of products, by convolutions."""
    producers: dict[Atom, Eqn] = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    uses = Counter(x for eqn in graph.eqns for x in eqn.inputs) + Counter(graph.outputs)
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive is overlap_add_p and _repeats(eqn, producers):
            rules[eqn] = partial(_sum_of_windows, producers[eqn.inputs[0]].inputs[0], eqn)
            continue
        found: _Convolution | None = None
        if eqn.primitive is dot_general:
            found = _of_product(eqn, 0, producers) or _of_product(eqn, 1, producers)
        elif eqn.primitive is overlap_add_p:
            found = _of_overlap(eqn, producers, uses)
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
    """The sums over all positions that see an element: each number is then stored only once."""
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


def _slid(axes: Sequence[_Axis], along: Sequence[int]) -> list[_Axis] | None:
    """The axes of windows of an array with such axes; None for windows along taps."""
    if any(axes[axis].are_taps for axis in along):
        return None
    return [*axes, *(_Axis(axes[axis].label, True) for axis in along)]


def _of_product(eqn: Eqn, side: int, producers: Producers) -> _Convolution | None:
    """A product of windows that sums over taps or positions; None if it is not one."""
    source, chain = eqn.inputs[side], []
    while (maker := producers.get(source)) is not None and maker.primitive in (
        windows_p,
        transpose_p,
    ):
        chain.append(maker)
        source = maker.inputs[0]
    axes: list[_Axis] | None = [_Axis(axis) for axis in range(source.aval.ndim)]
    sliding: dict[int, Window] = {}
    for maker in reversed(chain):
        assert axes is not None
        if maker.primitive is transpose_p:
            axes = [axes[axis] for axis in maker.params["permutation"]]
            continue
        along = [axes[axis].label for axis in maker.params["axes"]]
        axes = _slid(axes, maker.params["axes"])
        if axes is None or not sliding.keys().isdisjoint(along):
            return None
        sliding |= zip(along, maker.params["windows"], strict=True)
    assert axes is not None
    if not sliding:
        return None
    contract, batch = (eqn.params[key] for key in ("contract", "batch"))
    summed = {axes[axis] for axis in contract[side]}
    if any(axes[axis].label in sliding for axis in batch[side]):
        return None
    windows = []
    for label, window in sliding.items():
        taps = _Axis(label, True) in summed
        # a window's padding may be multiplied by infinity, which gives NaN; that of a convolution
        # is not
        if not window.inside(source.aval.shape[label]) or taps == (_Axis(label) in summed):
            return None
        windows.append((label, window if taps else from_taps(window)))
    own = [axis.label for axis in axes]
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
    return _Convolution(source, eqn.inputs[1 - side], (ours, theirs, tuple(out)), tuple(windows))


def _of_overlap(eqn: Eqn, producers: Producers, uses: Counter[Atom]) -> _Convolution | None:
    """An overlap-add of a product of taps and positions; None if it is not one."""
    (result,) = eqn.outputs
    axes: list[_Axis] | None = [_Axis(axis) for axis in range(result.aval.ndim)]
    sliding: dict[int, Window] = {}
    maker: Eqn | None = eqn
    while maker is not None and maker.primitive in (overlap_add_p, transpose_p):
        assert axes is not None
        if maker.primitive is overlap_add_p:
            along = [axes[axis].label for axis in maker.params["axes"]]
            axes = _slid(axes, maker.params["axes"])
            if axes is None or not sliding.keys().isdisjoint(along):
                return None
            sliding |= zip(along, maker.params["windows"], strict=True)
        else:
            permutation = maker.params["permutation"]
            axes = [axes[permutation.index(axis)] for axis in range(len(axes))]
        (source,) = maker.inputs
        maker = producers.get(source) if uses[source] == 1 else None
    if maker is None or maker.primitive is not dot_general or axes is None:
        return None
    contract, batch = (maker.params[key] for key in ("contract", "batch"))
    free = [free_axes(x.aval.ndim, contract[n], batch[n]) for n, x in enumerate(maker.inputs)]
    of_batch, of_free = axes[: len(batch[0])], axes[len(batch[0]) :]
    sides = of_free[: len(free[0])], of_free[len(free[0]) :]
    labels: list[dict[int, int]] = [{}, {}]
    for number in (0, 1):
        labels[number] |= zip(free[number], (axis.label for axis in sides[number]), strict=True)
        labels[number] |= zip(batch[number], (axis.label for axis in of_batch), strict=True)
        fresh = range(result.aval.ndim, result.aval.ndim + len(contract[number]))
        labels[number] |= zip(contract[number], fresh, strict=True)
    # the taps belong to one operand, the positions to the other
    right = {_Axis(label, True) for label in sliding} <= {*sides[1]}
    x, y = (0, 1) if right else (1, 0)
    if not {_Axis(label, True) for label in sliding} <= {*sides[y]}:
        return None
    if not {_Axis(label) for label in sliding} <= {*sides[x]}:
        return None
    windows = tuple(
        (label, from_elements(window, result.aval.shape[label]))
        for label, window in sliding.items()
    )
    own, other = (tuple(labels[n][axis] for axis in range(len(labels[n]))) for n in (x, y))
    ours = tuple(range(result.aval.ndim))
    return _Convolution(maker.inputs[x], maker.inputs[y], (own, other, ours), windows)
