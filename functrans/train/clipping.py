"""Gradient clipping: by value, by the global norm, and by the norm of each example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans import numpy as np
from functrans import tree
from functrans.api.arguments import check_callable
from functrans.api.mapping import vmap
from functrans.api.transformed import transform
from functrans.train.rows import is_rows, map_gradients, merged_values


def global_norm(gradients: Any) -> Any:
    """The Euclidean norm of all elements of a pytree together.

    Parameters
    ----------
    gradients : pytree of arrays

    Returns
    -------
    A number, in the dtype that those of the arrays promote to.

    Examples
    --------
    >>> from functrans import train
    >>> train.global_norm({"w": [3.0], "b": 4.0})
    np.float64(5.0)
    """
    squares = [np.sum(np.abs(x) ** 2) for x in merged_values(gradients)]
    return np.sqrt(sum(squares[1:], squares[0])) if squares else np.float64(0.0)


def clip_by_global_norm(gradients: Any, max_norm: Any) -> Any:
    """Scale a pytree down to a norm, if its `global_norm` is larger.

    Parameters
    ----------
    gradients : pytree of arrays
    max_norm : float

    Returns
    -------
    pytree of arrays
        With the same shapes and dtypes. The derivative at a norm of zero is that of the identity.

    References
    ----------
    R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training recurrent neural networks",
    ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import train
    >>> train.clip_by_global_norm([np.array([30.0, 40.0])], 5.0)
    [array([3., 4.])]
    """
    squares = sum(np.sum(np.abs(x) ** 2) for x in merged_values(gradients))
    is_large = squares > max_norm * max_norm
    # no root is taken where nothing is scaled, since it has no derivative at zero
    factor = np.where(is_large, max_norm / np.sqrt(np.where(is_large, squares, 1.0)), 1.0)
    return map_gradients(lambda x: (x * factor).astype(x.dtype), gradients)


def clip_by_value(gradients: Any, limit: Any) -> Any:
    """Clip each number of a pytree to the range from ``-limit`` to ``limit``.

    Parameters
    ----------
    gradients : pytree of arrays
    limit : float

    Returns
    -------
    pytree of arrays
        With the same shapes and dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import train
    >>> train.clip_by_value({"w": np.array([-3.0, 0.5])}, 1.0)
    {'w': array([-1. ,  0.5])}
    """
    merged = tree.map(lambda x: x.merged() if is_rows(x) else x, gradients, is_leaf=is_rows)
    return map_gradients(lambda x: np.clip(x, -limit, limit), merged)


@transform
def per_sample_clipped(
    gradient: Callable[..., Any],
    max_norm: float,
    in_axes: int | Sequence[Any] | None = None,
    reduce: str = "mean",
) -> Callable[..., Any]:
    """Clip the gradient of each example of a batch by its own norm before they are combined.

    No example can then change the sum by more than ``max_norm``, as differentially private training
    requires before it adds noise.

    Parameters
    ----------
    gradient : callable
        The gradient of one example, given parameters and data, such as ``grad(loss)``.
    max_norm : float
        The bound of each example's `global_norm`.
    in_axes : int or sequence, optional
        As for `functrans.vmap`; by default None for the first argument, and 0 for all others.
    reduce : {"mean", "sum"}, optional

    Returns
    -------
    callable
        With the positional arguments of ``gradient``, for a batch.

    References
    ----------
    M. Abadi et al., "Deep learning with differential privacy", CCS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, train
    >>> loss = lambda w, x: w * x
    >>> train.per_sample_clipped(grad(loss), 1.0)(0.0, np.array([0.5, 100.0]))
    np.float64(0.75)
    """
    check_callable(gradient, "train.per_sample_clipped")
    if reduce not in ("mean", "sum"):
        raise ValueError(f"per_sample_clipped(reduce=...) must be 'mean' or 'sum', not {reduce!r}")
    combine = np.mean if reduce == "mean" else np.sum

    def clipped(*args: Any) -> Any:
        axes = (None, *[0] * (len(args) - 1)) if in_axes is None else in_axes
        each = vmap(lambda *one: clip_by_global_norm(gradient(*one), max_norm), in_axes=axes)

        def combined(x: Any) -> Any:
            if not is_rows(x):
                return combine(x, axis=0)
            rows = x.joined()
            return rows / len(x.indices) if reduce == "mean" else rows

        return tree.map(combined, each(*args), is_leaf=is_rows)

    return clipped
