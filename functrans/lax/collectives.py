"""Collectives, under the names of `jax.lax`: communication between the lanes of a named axis.

A function under ``vmap(f, axis_name="i")`` is written for one example, a *lane* of the axis
``"i"``. The functions here combine the values of all lanes. A value *varies* along the axis if it
may differ between lanes, and is *invariant* if all lanes have the same value: an argument that is
not mapped, or a `psum`. Derivatives depend on this: where a weight that all lanes share is combined
with their examples, its gradient is the sum over the lanes, taken once and not n times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import AxesError, ShapeError
from functrans.ops.arrays.shape import asarray, merged
from functrans.ops.arrays.structural import astype, move_axis, reshape
from functrans.ops.collectives import collectives
from functrans.trace.axes import Axis, along
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree

AxisName = str | tuple[str, ...]


def _each(x: Any, axis_name: Any, what: str, apply: Callable[[Any, Axis], Any]) -> Any:
    """A pytree with ``apply`` applied to every leaf, along one named axis after the other."""
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    for name in names:
        axis = along(name, what)
        x = tree.map(lambda leaf, axis=axis: apply(asarray(leaf), axis), x)
    return x


def _only(axis_name: Any, what: str) -> Axis:
    if isinstance(axis_name, tuple):
        raise AxesError(f"{what} goes along one axis, not along {axis_name!r}")
    return along(axis_name, what)


def _place(x: Any, axis: int, what: str, more: int = 0) -> int:
    """The nonnegative index of an axis of an array, which gets ``more`` new axes."""
    ndim = x.ndim + more
    if not -ndim <= operator.index(axis) < ndim:
        raise AxesError(f"{what}: axis {axis} of an array of shape {x.shape}")
    return operator.index(axis) % ndim


@boundary
def psum(x: Any, axis_name: AxisName) -> Any:
    """The sum over the lanes of a named axis, the same in all of them.

    Parameters
    ----------
    x : pytree of arrays
        Truth values count as integers.
    axis_name : str or tuple of str

    Returns
    -------
    pytree
        In the structure and shapes of ``x``; invariant along the axis.

    Raises
    ------
    AxesError
        If the function does not run along an axis of that name.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax, vmap
    >>> def share(x):
    ...     return x / lax.psum(x, "i")
    >>> vmap(share, axis_name="i")(np.array([1.0, 3.0, 4.0]))
    array([0.125, 0.375, 0.5  ])
    >>> def gradient(w, x):             # of the sum of all losses, by the one w
    ...     return grad(lambda w: lax.psum((w * x) ** 2, "i"))(w)
    >>> vmap(gradient, in_axes=(None, 0), out_axes=None, axis_name="i")(1.0, np.array([1.0, 2.0]))
    np.float64(10.0)
    """

    def add(leaf: Any, axis: Axis) -> Any:
        if leaf.dtype == np.bool_:
            leaf = astype(leaf, np.int64)
        return collectives.psum(leaf, axis.lane, **axis.params)

    if isinstance(x, (int, float)) and not isinstance(x, bool):  # the number of lanes: psum(1, "i")
        return x * axis_size(axis_name)
    return _each(x, axis_name, "psum", add)


@boundary
def pmean(x: Any, axis_name: AxisName) -> Any:
    """The mean over the lanes of a named axis, the same in all of them.

    Parameters and errors as for `psum`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 2.0, 6.0]))
    array([-2., -1.,  3.])
    """
    count = axis_size(axis_name)
    return tree.map(lambda total: total / count, psum(x, axis_name))


@boundary
def pmax(x: Any, axis_name: AxisName) -> Any:
    """The maximum over the lanes, element by element; lanes that tie share its derivative.

    Parameters and errors as for `psum`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(np.array([[1, 5], [4, 2]]))
    array([[4, 5],
           [4, 5]])
    """
    return _each(x, axis_name, "pmax", lambda x, i: collectives.pmax(x, i.lane, **i.params))


@boundary
def pmin(x: Any, axis_name: AxisName) -> Any:
    """The minimum over the lanes, element by element; lanes that tie share its derivative.

    Parameters and errors as for `psum`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> vmap(lambda x: x == lax.pmin(x, "i"), axis_name="i")(np.array([3.0, 1.0]))
    array([False,  True])
    """
    return _each(x, axis_name, "pmin", lambda x, i: collectives.pmin(x, i.lane, **i.params))


@boundary
def all_gather(x: Any, axis_name: str, *, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all lanes in one array, the same in all of them.

    Parameters
    ----------
    x : pytree of arrays
    axis_name : str
    axis : int, optional
        The position of the new axis of lanes in the result.
    tiled : bool, optional
        Whether to concatenate the values along an existing ``axis`` instead.

    Raises
    ------
    AxesError
        If there is no such axis.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> def rank(x):
    ...     return (lax.all_gather(x, "i") < x).sum()
    >>> vmap(rank, axis_name="i")(np.array([0.5, 0.1, 0.9]))
    array([1, 0, 2])
    """

    def gather(x: Any, i: Axis) -> Any:
        place = _place(x, axis, "all_gather", more=0 if tiled else 1)
        found = collectives.all_gather(x, i.lane, axis=place, **i.params)
        return merged(found, place) if tiled else found

    _only(axis_name, "all_gather")
    return _each(x, axis_name, "all_gather", gather)


@boundary
def psum_scatter(x: Any, axis_name: str, *, scatter_dimension: int = 0, tiled: bool = False) -> Any:
    """Each lane's own part of the sum over the lanes.

    Parameters
    ----------
    x : pytree of arrays
        ``scatter_dimension`` has one part for each lane.
    axis_name : str
    scatter_dimension : int, optional
        The axis of the parts. Its extent is the number of lanes, and the result lacks it.
    tiled : bool, optional
        Whether to keep the axis, which is then divided into equal parts, one for each lane.

    Raises
    ------
    AxesError
        If there is no such axis.
    ShapeError
        If it does not fall into one part for each lane.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> x = np.array([[1.0, 2.0], [10.0, 20.0]])
    >>> vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(x)
    array([11., 22.])
    """

    def scatter(x: Any, i: Axis) -> Any:
        place = _place(x, scatter_dimension, "psum_scatter")
        parts = _parted(x, place, i, "psum_scatter", tiled)
        return collectives.psum_scatter(parts, i.lane, axis=place, **i.params)

    _only(axis_name, "psum_scatter")
    return _each(x, axis_name, "psum_scatter", scatter)


@boundary
def all_to_all(
    x: Any, axis_name: str, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> Any:
    """Exchange parts between all lanes: the lanes and an axis change places.

    Parameters
    ----------
    x : pytree of arrays
        ``split_axis`` has one part for each lane.
    axis_name : str
    split_axis, concat_axis : int
        The axis that is split into parts, and the axis of the result along which the received parts
        are joined.
    tiled : bool, optional
        Whether to keep both axes: ``split_axis`` is divided into equal parts, which are
        concatenated along ``concat_axis``. Otherwise the extent of ``split_axis`` is the number of
        lanes, and ``concat_axis`` is a new axis in its place.

    Raises
    ------
    AxesError
        If there is no such axis.
    ShapeError
        If it does not fall into one part for each lane.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """

    def exchange(x: Any, i: Axis) -> Any:
        split = _place(x, split_axis, "all_to_all")
        concat = _place(x, concat_axis, "all_to_all")
        parts = _parted(x, split, i, "all_to_all", tiled)
        moved = collectives.all_to_all(parts, i.lane, axis=split, **i.params)
        if not tiled:
            return move_axis(moved, split, concat)
        return merged(move_axis(moved, split, concat), concat)

    _only(axis_name, "all_to_all")
    return _each(x, axis_name, "all_to_all", exchange)


def _parted(x: Any, axis: int, lanes: Axis, what: str, tiled: bool) -> Any:
    """An array with an axis of lanes; if tiled, the elements of a part are the next axis."""
    extent, size = x.shape[axis], lanes.size
    if not tiled and extent != size:
        raise ShapeError(
            f"{what}: axis {axis} of shape {x.shape} must have one place for each of the {size} "
            f"lanes of {lanes.name!r} (tiled=True: a number of them for each)"
        )
    if not tiled:
        return x
    if extent % size:
        raise ShapeError(
            f"{what}: axis {axis} of shape {x.shape} does not fall into equal parts for the "
            f"{size} lanes of {lanes.name!r}"
        )
    return reshape(x, shape=(*x.shape[:axis], size, extent // size, *x.shape[axis + 1 :]))


@boundary
def ppermute(x: Any, axis_name: str, perm: Sequence[tuple[int, int]]) -> Any:
    """Permute values between lanes: each sends to at most one lane, and receives from at most one.

    Parameters
    ----------
    x : pytree of arrays
    axis_name : str
    perm : sequence of (int, int)
        Pairs of a sender and its receiver. Lanes that receive nothing have zeros.

    Raises
    ------
    AxesError
        If a lane does not exist, or is the sender or the receiver of two pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> def left(x):
    ...     return lax.ppermute(x, "i", [(i, (i + 1) % 4) for i in range(4)])
    >>> vmap(left, axis_name="i")(np.arange(4.0))
    array([3., 0., 1., 2.])
    """
    lanes = _only(axis_name, "ppermute")
    moves = tuple((operator.index(sender), operator.index(to)) for sender, to in perm)
    for role, numbers in zip(("sender", "receiver"), zip(*moves, strict=True), strict=False):
        for number in numbers:
            if not 0 <= number < lanes.size or numbers.count(number) > 1:
                wrong = "twice" if 0 <= number < lanes.size else f"none of 0 to {lanes.size - 1}"
                raise AxesError(
                    f"perm of ppermute along {axis_name!r} has lane {number} as a {role}: {wrong}"
                )
    return _each(
        x,
        axis_name,
        "ppermute",
        lambda x, i: collectives.ppermute(x, i.lane, moves=moves, **i.params),
    )


@boundary
def pvary(x: Any, axis_name: AxisName) -> Any:
    """Give each lane its own copy of a value that all lanes share.

    The value does not change. Its derivative is each lane's own, instead of the sum over the lanes.

    Parameters and errors as for `psum`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax, vmap
    >>> def own_gradient(w, x):
    ...     return grad(lambda w: (w * x) ** 2)(lax.pvary(w, "i"))
    >>> vmap(own_gradient, in_axes=(None, 0), axis_name="i")(1.0, np.array([1.0, 2.0]))
    array([2., 8.])
    """
    return _each(x, axis_name, "pvary", lambda x, i: collectives.pvary(x, i.lane, **i.params))


@boundary
def axis_index(axis_name: str) -> Tracer:
    """The index of the lane along a named axis, an int64.

    Raises
    ------
    AxesError
        If the function does not run along an axis of that name.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> vmap(lambda x: x * lax.axis_index("i"), axis_name="i")(np.full(3, 10.0))
    array([ 0., 10., 20.])
    """
    return _only(axis_name, "axis_index").lane


@boundary
def axis_size(axis_name: AxisName) -> int:
    """The number of lanes of a named axis; for several axes, the product of their sizes.

    Raises
    ------
    AxesError
        If the function does not run along an axis of that name.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax, vmap
    >>> vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(np.ones(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    return prod(along(name, "axis_size").size for name in names)
