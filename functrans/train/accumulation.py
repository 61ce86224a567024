"""Gradient accumulation: a loop over small pieces of a large batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans import numpy as np
from functrans import tree
from functrans.api.arguments import argument_name, check_callable
from functrans.api.lowered import eval_shape
from functrans.api.transformed import transform
from functrans.errors import AxesError, ShapeError
from functrans.ir.types import is_inexact
from functrans.lax import scan
from functrans.train.rows import is_rows

REDUCTIONS = ("mean", "sum")


@transform
def accumulate(
    function: Callable[..., Any],
    steps: int,
    in_axes: int | Sequence[int | None] | None = None,
    reduce: str = "mean",
) -> Callable[..., Any]:
    """Compute a function of a batch piece by piece, and combine the results.

    Intermediate values then need the memory of one piece only. If the function averages over its
    batch, such as the gradient of a mean loss, the result is that of the whole batch, up to
    rounding. (In a compiled program, matrix products that do not depend on earlier pieces, such as
    those of the data with the first weights, are computed for all pieces at once, up to 256 MB.)

    Parameters
    ----------
    function : callable
        Takes parameters and data, and returns a pytree of arrays, such as ``value_and_grad(loss)``.
    steps : int
        The number of pieces, which have equal sizes.
    in_axes : int, None or sequence of these, optional
        For each argument, the axis of examples in its arrays; None for an argument that is the same
        for all pieces. By default, None for the first argument, and 0 for all others.
    reduce : {"mean", "sum"}, optional
        How results are combined. Integers and bools, such as counts, are always added up.

    Returns
    -------
    callable
        Takes the positional arguments of ``function``. Compiled, it is a loop over the pieces.

    Raises
    ------
    ShapeError
        When it is called, if ``steps`` does not divide the number of examples, or arguments
        disagree about it.
    AxesError
        If ``in_axes`` does not fit the arguments, or cuts none of them.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit, train, value_and_grad
    >>> def loss(w, x, y):
    ...     return np.mean((x @ w - y) ** 2)
    >>> w, x, y = np.ones(3), np.arange(24.0).reshape(8, 3), np.zeros(8)
    >>> value, gradient = jit(train.accumulate(value_and_grad(loss), 4))(w, x, y)
    >>> np.allclose(gradient, value_and_grad(loss)(w, x, y)[1])
    True
    """
    check_callable(function, "train.accumulate")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"train.accumulate takes a positive number of steps, not {steps!r}")
    if reduce not in REDUCTIONS:
        raise ValueError(f"train.accumulate(reduce=...) must be 'mean' or 'sum', not {reduce!r}")

    def accumulated(*args: Any) -> Any:
        axes = _axes(in_axes, len(args))
        cut = [
            arg if axis is None else _cut(function, i, arg, axis, steps)
            for i, (arg, axis) in enumerate(zip(args, axes, strict=True))
        ]

        def piece(pieces: Sequence[Any]) -> Any:
            given = iter(pieces)
            return function(
                *(
                    arg if axis is None else _with_axis(next(given), axis)
                    for arg, axis in zip(args, axes, strict=True)
                )
            )

        mapped = tuple(arg for arg, axis in zip(cut, axes, strict=True) if axis is not None)
        types = eval_shape(piece, tree.map(lambda x: x[0], mapped))
        # sparse rows are concatenated, not added
        first, structure = tree.flatten(types, is_leaf=is_rows)
        zeros = [
            None if is_rows(aval) else np.zeros(aval.shape, _sum_dtype(aval.dtype))
            for aval in first
        ]

        def step(total: Any, pieces: Any) -> tuple[Any, Any]:
            found = tree.leaves(piece(pieces), is_leaf=is_rows)
            both = list(zip(total, found, strict=True))
            return (
                [None if is_rows(b) else a + b for a, b in both],
                [b if is_rows(b) else None for _, b in both],
            )

        total, rows = scan(step, zeros, mapped)
        sums = [a if b is None else b.joined() for a, b in zip(total, rows, strict=True)]
        if reduce == "mean":
            sums = [x / steps if is_rows(x) or is_inexact(x.dtype) else x for x in sums]
        return structure.unflatten(sums)

    return accumulated


def _with_axis(piece: Any, axis: int) -> Any:
    return tree.map(lambda x: np.moveaxis(x, 0, axis), piece)


def _sum_dtype(dtype: Any) -> Any:
    return np.int64 if dtype.kind == "b" else dtype


def _axes(in_axes: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    if in_axes is None:
        axes: list[int | None] = [None, *[0] * (count - 1)][:count]
    else:
        axes = [in_axes] * count if isinstance(in_axes, int) else list(in_axes)
    if len(axes) != count:
        raise AxesError(f"in_axes has {len(axes)} entries, but there are {count} arguments")
    if all(axis is None for axis in axes):
        raise AxesError(
            "in_axes is None for all arguments: no axis to cut into pieces; give the axis of "
            "examples of one, as in in_axes=(None, 0)"
        )
    return axes


def _cut(function: Callable[..., Any], i: int, arg: Any, axis: int, steps: int) -> Any:
    """The pieces of an argument along a new first axis, in each of which examples come first."""

    def of_leaf(x: Any) -> Any:
        x = np.asarray(x)
        if not -x.ndim <= axis < x.ndim:
            raise AxesError(
                f"{argument_name(function, i)} has shape {x.shape}: it has no axis {axis} of "
                "examples; for an argument that is not cut, write None in in_axes"
            )
        x = np.moveaxis(x, axis, 0)
        if x.shape[0] % steps:
            raise ShapeError(
                f"{argument_name(function, i)} has {x.shape[0]} examples, which {steps} steps do "
                f"not divide; pad the batch, or choose another number of steps"
            )
        return np.reshape(x, (steps, x.shape[0] // steps, *x.shape[1:]))

    return tree.map(of_leaf, arg)
