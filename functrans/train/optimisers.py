"""Optimisers as pairs of functions, by Optax's convention: init and update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans import numpy as np
from functrans import tree
from functrans.ir.types import describe
from functrans.records import NamedTuple
from functrans.train.rows import is_rows


class Optimiser(NamedTuple):
    """An optimiser: a pair of functions without state.

    Parameters
    ----------
    init : callable
        Maps parameters to the initial state, a pytree of arrays.
    update : callable
        ``update(gradients, state, params)`` returns the updates, to be added to the parameters by
        `apply_updates`, and the next state.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """The parameters after a step: ``params + updates``, in the dtypes of the parameters.

    Examples
    --------
    >>> from functrans import train
    >>> train.apply_updates({"w": 1.0}, {"w": -0.25})
    {'w': np.float64(0.75)}
    """
    return tree.map(
        lambda p, u: (np.asarray(p) + u).astype(np.asarray(p).dtype)[()], params, updates
    )


def sgd(rate: Any, momentum: Any = 0.0, nesterov: bool = False) -> Optimiser:
    """Stochastic gradient descent, with momentum if that is not 0.

    Parameters
    ----------
    rate : float or tracer
        The learning rate.
    momentum : float, optional
    nesterov : bool, optional
        Whether to use Nesterov's momentum.

    Returns
    -------
    Optimiser

    References
    ----------
    I. Sutskever et al., "On the importance of initialization and momentum in deep learning",
    ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax, train
    >>> optimiser = train.sgd(0.1, momentum=0.5)
    >>> def step(i, carry):
    ...     x, state = carry
    ...     updates, state = optimiser.update(grad(lambda x: (x - 3.0) ** 2)(x), state)
    ...     return train.apply_updates(x, updates), state
    >>> x, _ = lax.fori_loop(0, 100, step, (0.0, optimiser.init(0.0)))
    >>> round(float(x), 6)
    3.0
    """
    if isinstance(momentum, (int, float)) and momentum == 0:
        return Optimiser(lambda params: (), lambda gradients, state, params=None: (
            tree.map(lambda g: -rate * g, gradients, is_leaf=is_rows), state
        ))  # fmt: skip

    def init(params: Any) -> Any:
        return tree.map(np.zeros_like, params)

    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        moved = tree.map(lambda m, g: momentum * m + g, state, gradients)
        ahead = tree.map(lambda m, g: momentum * m + g, moved, gradients) if nesterov else moved
        return tree.map(lambda m: -rate * m, ahead), moved

    return Optimiser(init, update)


class AdamState(NamedTuple):
    """The state of `adam`: the number of steps, and decaying means of gradients and squares."""

    count: Any
    mean: Any
    square: Any


def adam(
    rate: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0
) -> Optimiser:
    """Adam; with weight decay, AdamW.

    Parameters
    ----------
    rate : float or tracer
        The learning rate.
    b1, b2 : float, optional
        The decay rates of the running means of gradients and of their squares.
    eps : float, optional
        A small constant, added to the root of the mean square.
    weight_decay : float, optional
        The fraction, times the rate, by which parameters shrink in a step.

    Returns
    -------
    Optimiser
        Its ``update`` needs the parameters if there is weight decay.

    References
    ----------
    D. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015; I. Loshchilov,
    F. Hutter, "Decoupled weight decay regularization", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import train
    >>> optimiser = train.adam(0.1)
    >>> updates, state = optimiser.update(np.array([5.0, -0.01]), optimiser.init(np.zeros(2)))
    >>> updates.round(3)
    array([-0.1,  0.1])
    """

    def init(params: Any) -> AdamState:
        return AdamState(0, tree.map(np.zeros_like, params), tree.map(np.zeros_like, params))

    def update(gradients: Any, state: AdamState, params: Any = None) -> tuple[Any, AdamState]:
        if weight_decay and params is None:
            raise ValueError("adam(weight_decay=...).update needs params: the parameters shrink")
        if not isinstance(state, AdamState):
            raise TypeError(
                f"the state of adam is an AdamState, not {describe(state)}: write updates, state = "
                "optimiser.update(gradients, state, params)"
            )
        count = state.count + 1
        mean = tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, gradients)
        square = tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.square, gradients)
        lag_mean, lag_square = 1 - b1**count, 1 - b2**count
        updates = tree.map(
            lambda m, v: -rate * (m / lag_mean) / (np.sqrt(v / lag_square) + eps), mean, square
        )
        if weight_decay:
            updates = tree.map(lambda u, p: u - rate * weight_decay * p, updates, params)
        return updates, AdamState(count, mean, square)

    return Optimiser(init, update)
