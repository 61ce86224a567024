"""vmap: a function of one example, applied to many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import (
    argument_name,
    as_array,
    aval_of_leaf,
    check_callable,
    leaf_of_call,
    name_of,
    value_of_leaf,
)
from functrans.api.flat import called
from functrans.api.linearization import run
from functrans.api.progress import Bar, titled
from functrans.api.randomness import watched
from functrans.api.transformed import alike
from functrans.errors import AxesError, AxisSizeError, TreeMismatchError
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import current
from functrans.ir.types import Aval, describe, is_supported
from functrans.lazily import lazy
from functrans.records import NamedTuple
from functrans.run.call.ownership import own
from functrans.trace.absent import UNKNOWN
from functrans.trace.axes import Axis, check_name, declaring, entered, scope
from functrans.trace.stage import stage
from functrans.transform.batch import batch_graph
from functrans.tree import core as tree

variance = lazy("functrans.transform.variance:variance")

FEW_OBJECTS = 40
"""The most objects reachable from a function that are searched for generators at each call."""


def _is_none(node: Any) -> bool:
    return node is None


@alike
def vmap(
    function: Callable[..., Any],
    /,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    chunk_size: int | None = None,
    progress: str | None = None,
    axis_name: str | None = None,
) -> Callable[..., Any]:
    """Vectorise a function of one example over an axis of its arguments.

    The function is traced once, for one example; its operations are then batched.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them.
    in_axes : int, None, or a tuple (or list) with an entry for each positional argument
        The axis of each argument that is mapped; negative ones count from the end; None: the
        argument is the same for every example. An entry may be a pytree that is a prefix of the
        argument. Keyword arguments are mapped over their first axis.
    out_axes : int, None or a pytree that is a prefix of the result
        The position of the mapped axis in the results. None: the result does not depend on the
        example, and is returned without the axis.
    axis_size : int, optional
        The number of examples; needed only if no argument is mapped.
    chunk_size : int, optional
        How many examples are computed at once; all, if left out. Fewer take less memory.
    progress : str, optional
        The title of a tqdm progress bar, which advances after each chunk of examples.
    axis_name : str, optional
        A name for the mapped axis, for collectives (`functrans.lax.psum` and others).

    Returns
    -------
    callable
        With the arguments of ``function``, each with the mapped axis.

    Raises
    ------
    AxesError
        If ``in_axes`` or ``out_axes`` does not fit the arguments or results, if an enclosing axis
        has the same name, or if the function differentiates a loss that varies along the named
        axis with respect to a value that does not.
    AxisSizeError
        If the mapped axes have different sizes.
    ValueError
        If ``chunk_size`` is less than 1, if there is a progress bar without chunks, or if there is
        an axis name with chunks, since collectives need the examples of all chunks at once.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, vmap
    >>> vmap(np.dot)(np.ones((4, 3)), np.ones((4, 3)))
    array([3., 3., 3., 3.])
    >>> def loss(w, x):
    ...     return (w @ x) ** 2
    >>> vmap(grad(loss), in_axes=(None, 0))(np.ones(2), np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[ 6., 12.],
           [ 0.,  2.]])
    """
    check_callable(function, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    _check_axes(in_axes, "in_axes")
    _check_axes(out_axes, "out_axes")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
    if progress is not None:
        titled(progress, "vmap")
        if chunk_size is None:
            raise ValueError("progress moves from chunk to chunk: vmap needs a chunk_size for it")
    if axis_name is not None and chunk_size is not None:
        raise ValueError(
            "collectives go along all examples, and with a chunk_size they are not computed "
            "together: leave axis_name or chunk_size out"
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if axis_name is not None:
            check_name(axis_name, "vmap")
        call = _Call(function, args, kwargs, in_axes, axis_size, axis_name)
        return call.mapped(out_axes, chunk_size, progress)

    return mapped


def _check_axes(axes: Any, what: str) -> None:
    for axis in tree.leaves(axes):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            given = isinstance(axis, np.ndarray) and axis.ndim
            hint = ": write vmap(f)(x), not vmap(f, x)" if given else ""
            raise AxesError(f"{what} must hold integers and None, found {describe(axis)}{hint}")


class _Operand(NamedTuple):
    """An argument of the traced function: an array, and its mapped axis."""

    array: Any
    axis: int | None

    def aval_of_example(self) -> Aval:
        """The aval of one example."""
        aval, axis = aval_of_leaf(self.array), self.axis
        if axis is None:
            return aval
        return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])

    def same_for_all(self, of: Callable[[Any], Any] = lambda x: x) -> Any:
        """A property of the array, if it is the same for all examples; else `UNKNOWN`."""
        return of(self.array) if self.axis is None else UNKNOWN

    def part(self, start: int, count: int) -> Any:
        """A chunk of the examples."""
        if self.axis is None:
            return self.array
        return self.array[(slice(None),) * self.axis + (slice(start, start + count),)]


class _Call:
    """One call of a mapped function: its leaves, and the mapped axis of each."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        in_axes: Any,
        axis_size: int | None,
        axis_name: str | None,
    ) -> None:
        self.function = function
        self.name = axis_name
        self.leaves, self.structure = tree.flatten((args, kwargs))
        axes = _spread_axes(function, args, in_axes)
        self.by_position = len(axes)  # the leaves of the positional arguments
        axes += [0] * (len(self.leaves) - len(axes))
        self.axes: list[int | None] = []
        self.traced: list[int] = []
        for i, axis in enumerate(axes):
            leaf = self.leaves[i]
            # arrays that are not mapped are traced too, so that traced integers can index them
            if axis is not None or (
                isinstance(leaf, (np.ndarray, OnDevice)) and is_supported(leaf.dtype)
            ):
                self.leaves[i] = as_array(leaf, self._name, i)
                self.traced.append(i)
            if axis is not None:
                axis = self._normalized(i, axis)
            self.axes.append(axis)
        self.size = self._size(axis_size)

    def _name(self, i: int) -> str:
        return leaf_of_call(self.function, self.structure, i)

    def _normalized(self, i: int, axis: int) -> int:
        shape = aval_of_leaf(self.leaves[i]).shape
        if not -len(shape) <= axis < len(shape):
            raise AxesError(
                f"in_axes maps axis {axis} of {self._name(i)}, which has shape {shape}"
                + ("" if shape else "; None leaves it unmapped")
                + ("" if i < self.by_position else _BY_KEYWORD)
            )
        return axis % len(shape)

    def _size(self, axis_size: int | None) -> int:
        sizes = [
            (aval_of_leaf(x).shape[axis], i)
            for i, (x, axis) in enumerate(zip(self.leaves, self.axes, strict=True))
            if axis is not None
        ]
        if axis_size is not None:
            for size, i in sizes:
                if size != axis_size:
                    raise AxisSizeError(
                        f"axis_size={axis_size}, but {self._name(i)} has size {size} along the "
                        f"mapped axis {self.axes[i]}"
                    )
            return axis_size
        if not sizes:
            raise AxesError(
                f"vmap of {name_of(self.function)} maps no argument: give in_axes an axis, or pass "
                "axis_size"
            )
        first, a = sizes[0]
        for size, b in sizes[1:]:
            if size != first:
                raise AxisSizeError(
                    f"vmap maps axes of different sizes: {self._name(a)} has size {first} along "
                    f"axis {self.axes[a]}, {self._name(b)} has size {size} along axis "
                    f"{self.axes[b]}; in_axes says which axes are mapped, None for an argument "
                    "that is the same for all" + ("" if b < self.by_position else _BY_KEYWORD)
                )
        return first

    def mapped(self, out_axes: Any, chunk_size: int | None, progress: str | None) -> Any:
        """The function applied to all examples."""
        operands = [_Operand(self.leaves[i], self.axes[i]) for i in self.traced]
        example = self._example(operands)
        if self.name is not None:
            # the number of the lane, an operand of collectives
            operands.append(_Operand(np.arange(self.size), 0))
        staged = stage(
            example,
            [x.aval_of_example() for x in operands],
            kind="vmap",
            values=[x.same_for_all(value_of_leaf) for x in operands],
            operands=[x.same_for_all() for x in operands],
            name=lambda i: self._name(self.traced[i]) if i < len(self.traced) else "the lane",
        )
        wanted = self._out_axes(out_axes, staged.graph.out_avals)
        axes = (*(x.axis for x in operands), *(None for _ in staged.captures))

        def apply(arrays: Sequence[Any], size: int) -> Sequence[Any]:
            batched, places = batch_graph(staged.graph, axes, size, wanted, self.name)
            for axis, place in zip(wanted, places, strict=True):
                if axis is None and place is not None:
                    raise AxesError(
                        "out_axes=None says that a result is the same for every example, but that "
                        f"of {name_of(self.function)} depends on a mapped argument"
                    )
            return run(batched, [*arrays, *staged.captures])

        arrays = [x.array for x in operands]
        if chunk_size is None or chunk_size >= self.size:
            results = apply(arrays, self.size)
        else:
            shown = None if progress is None else Bar(progress, self.size)
            chunks = []
            for start in range(0, self.size, chunk_size):
                count = min(chunk_size, self.size - start)
                chunks.append(apply([x.part(start, count) for x in operands], count))
                if shown is not None:
                    shown.moved(np.int64(start + count), chunks[-1])
            results = [
                parts[0] if axis is None else np.concatenate(parts, axis=axis)
                for parts, axis in zip(zip(*chunks, strict=True), wanted, strict=True)
            ]
        return self.out_structure.unflatten(own(results, [*arrays, *staged.captures]))

    def _example(self, operands: Sequence[_Operand]) -> Callable[..., list[Any]]:
        """The function of the flat operands of one example, in the scope of a named axis."""
        function = self.function
        if current.get() is None:  # in a trace, the enclosing jit handles this
            function = watched(function, "vmap", FEW_OBJECTS)
        flat = called(function, self.structure)

        def example(*tracers: Any) -> list[Any]:
            leaves = list(self.leaves)
            for i, tracer in zip(self.traced, tracers, strict=False):
                leaves[i] = tracer
            results = flat(*leaves)
            self.out_structure = flat.result
            return results

        if self.name is None and scope() is None:
            return example
        return _in_scope(example, self.name, self.size, operands)

    def _out_axes(self, out_axes: Any, avals: Sequence[Aval]) -> tuple[int | None, ...]:
        example = self.out_structure.unflatten(range(len(avals)))
        try:
            axes = tree.broadcast_prefix(out_axes, example, _is_none, what="out_axes")
        except TreeMismatchError as error:
            raise AxesError(str(error)) from None
        for axis, aval in zip(axes, avals, strict=True):
            if axis is not None and not -aval.ndim - 1 <= axis <= aval.ndim:
                raise AxesError(
                    f"out_axes puts the mapped axis at {axis}, but the result of "
                    f"{name_of(self.function)} has shape {aval.shape} for one example"
                )
        return tuple(
            axis if axis is None else int(axis) % (aval.ndim + 1)
            for axis, aval in zip(axes, avals, strict=True)
        )


def _in_scope(
    example: Callable[..., list[Any]],
    name: str | None,
    size: int,
    operands: Sequence[_Operand],
) -> Callable[..., list[Any]]:
    """The function of one example, traced in the scope of the named axis.

    If the axis has a name, the last argument is the number of the lane.
    """
    own = frozenset() if name is None else frozenset({name})
    varying = [variance(x.array) | (own if x.axis is not None else frozenset()) for x in operands]

    if name is None:
        return declaring(example, varying)
    declared = declaring(example, [*varying, own])

    def in_a_lane(*tracers: Any) -> list[Any]:
        with entered(Axis(name, size, tracers[-1])):
            return declared(*tracers)

    return in_a_lane


_BY_KEYWORD = ", but keyword arguments are always mapped: pass it by position"


def _spread_axes(function: Callable[..., Any], args: tuple[Any, ...], in_axes: Any) -> list[Any]:
    """The mapped axis of each leaf of the positional arguments."""
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise AxesError(
            f"in_axes has {len(in_axes)} entr{'y' if len(in_axes) == 1 else 'ies'}, but "
            f"{name_of(function)} was called with {len(args)} positional "
            f"argument{'' if len(args) == 1 else 's'}"
        )
    if not isinstance(in_axes, tuple):
        in_axes = (in_axes,) * len(args)
    axes = []
    for i, (axis, arg) in enumerate(zip(in_axes, args, strict=True)):
        try:
            axes += tree.broadcast_prefix(axis, arg, _is_none, what=f"in_axes[{i}]")
        except TreeMismatchError as error:
            raise AxesError(f"{error} ({argument_name(function, i)})") from None
    return axes
