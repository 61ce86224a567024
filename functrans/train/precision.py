"""Mixed precision: computing in 16 bits, and loss scaling against underflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans import numpy as np
from functrans import tree
from functrans.api.arguments import check_callable
from functrans.api.derivatives import value_and_grad
from functrans.api.transformed import Transformed, transform
from functrans.records import NamedTuple
from functrans.tracebacks import boundary

Keep = Callable[[str], bool] | Sequence[str]


@transform
def cast(
    function: Callable[..., Any],
    compute: Any = np.float16,
    keep: Keep = (),
    result: Any = np.float32,
) -> Callable[..., Any]:
    """Make a function compute in another floating dtype; its results are in float32.

    Parameters, data and gradients keep their dtypes: the casts are a part of the function. Sums and
    matrix products of 16-bit numbers accumulate in float32.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, or pytrees of them.
    compute : dtype, optional
        The dtype to which floats among the arguments are cast: float16, or bfloat16 of ml_dtypes.
    keep : sequence of str, or callable, optional
        The leaves that are not cast: those whose path contains one of the strings (``"norm"`` in
        ``['layer']['norm']``), or for whose path the callable returns True.
    result : dtype or None, optional
        The dtype to which floats among the results are cast; None leaves them unchanged.

    Returns
    -------
    callable
        With the arguments of ``function``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, train
    >>> def loss(w, x):
    ...     return np.sum((x @ w) ** 2)
    >>> gradient = grad(train.cast(loss))(np.ones(2, np.float32), np.ones((3, 2), np.float32))
    >>> gradient, gradient.dtype
    (array([12., 12.], dtype=float32), dtype('float32'))
    """
    check_callable(function, "train.cast")
    kept = keep if callable(keep) else lambda path: any(text in path for text in keep)

    def converted(tree_: Any, dtype: Any, stays: Callable[[str], bool]) -> Any:
        def leaf(path: Any, x: Any) -> Any:
            if not hasattr(x, "dtype") and not isinstance(x, float):
                return x
            array = np.asarray(x)
            return array.astype(dtype) if array.dtype.kind == "f" and not stays(str(path)) else x

        return tree.map_with_path(leaf, tree_)

    def computed(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = converted((args, kwargs), compute, kept)
        out = function(*args, **kwargs)
        return out if result is None else converted(out, result, lambda path: False)

    return computed


class LossScale(NamedTuple):
    """The state of dynamic loss scaling, a pytree.

    Parameters
    ----------
    scale : float
        The factor of the loss.
    steps : int
        The number of finite steps since it was changed.
    """

    scale: Any
    steps: Any


def loss_scale(scale: float = 2.0**15) -> LossScale:
    """The initial state.

    Examples
    --------
    >>> from functrans import train
    >>> train.loss_scale(1024.0)
    LossScale(scale=np.float32(1024.0), steps=np.int64(0))
    """
    return LossScale(np.float32(scale), np.int64(0))


@boundary
def scaled_value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    growth: float = 2.0,
    backoff: float = 0.5,
    interval: int = 2000,
) -> Callable[..., Any]:
    """As `functrans.value_and_grad`, with a loss that is scaled so that no gradient underflows.

    In float16, numbers below 6e-8 are zero, and many gradients are smaller. So the loss is
    multiplied by a large scale, and the gradients are divided by it. If that overflows, the scale
    is halved, and the step must be skipped; after many finite steps, the scale is doubled.

    Parameters
    ----------
    function : callable
        Returns a number, or ``(number, aux)``.
    argnums, has_aux : optional
        As for `functrans.value_and_grad`.
    growth, backoff : float, optional
        The factors of the scale after ``interval`` finite steps, and after an overflow.
    interval : int, optional

    Returns
    -------
    callable
        ``f(state, *args)``, with a `LossScale`, returns ``(value, gradients, is_finite, state)``.
        If ``is_finite`` is False, the gradients are zero, and `choose` can keep the previous
        values.

    References
    ----------
    P. Micikevicius et al., "Mixed precision training", ICLR 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import train
    >>> loss = train.cast(lambda w: np.sum(w * np.float16(1e-5)) * np.float16(1e-4))
    >>> w, state = np.ones(2, np.float32), train.loss_scale()
    >>> value, gradient, is_finite, state = train.scaled_value_and_grad(loss)(state, w)
    >>> np.allclose(gradient, 1e-9, rtol=1e-2), is_finite
    (True, np.True_)
    """
    check_callable(function, "train.scaled_value_and_grad")

    def scaled(state: LossScale, *args: Any, **kwargs: Any) -> Any:
        def loss(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            value, aux = out if has_aux else (out, None)
            return np.asarray(value) * state.scale, (value, aux)

        derivative = value_and_grad(loss, argnums=argnums, has_aux=True)
        (_, (value, aux)), gradients = derivative(*args, **kwargs)
        inverse = 1.0 / state.scale
        gradients = tree.map(lambda g: (g * inverse).astype(g.dtype), gradients)
        is_finite = np.bool_(True)
        for leaf in tree.leaves(gradients):
            is_finite = np.logical_and(is_finite, np.all(np.isfinite(leaf)))
        gradients = tree.map(lambda g: np.where(is_finite, g, np.zeros_like(g)), gradients)
        steps = state.steps + 1
        grown = np.where(steps >= interval, state.scale * growth, state.scale)
        after = LossScale(
            np.where(is_finite, grown, state.scale * backoff).astype(np.float32),
            np.where(np.logical_and(is_finite, steps < interval), steps, 0),
        )
        return (value, aux) if has_aux else value, gradients, is_finite, after

    options = {
        "argnums": argnums, "has_aux": has_aux, "growth": growth, "backoff": backoff,
        "interval": interval,
    }  # fmt: skip
    return Transformed(scaled_value_and_grad, function, options, scaled)


def choose(condition: Any, new: Any, old: Any) -> Any:
    """One of two pytrees of arrays, leaf by leaf: the new one where the condition holds.

    Examples
    --------
    >>> from functrans import train
    >>> train.choose(False, {"w": 1.0}, {"w": 2.0})
    {'w': array(2.)}
    """
    return tree.map(lambda x, y: np.where(condition, x, y), new, old)
