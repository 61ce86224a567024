"""Hooks on cotangents: observe or replace the cotangent of a value in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.api.arguments import check_callable
from functrans.api.custom import custom_vjp
from functrans.tracebacks import boundary


@boundary
def on_cotangent(x: Any, function: Callable[[Any], Any], /) -> Any:
    """Return a value unchanged, and pass its cotangent in the backward pass to a function.

    The function may replace the cotangent. Use it to clip, scale, reverse or print gradients in the
    middle of a function (as PyTorch's `Tensor.register_hook`).

    Parameters
    ----------
    x : array or pytree
        Continue with the returned value, not with ``x`` itself.
    function : callable
        Takes the cotangent of the result, in the structure of ``x``, and returns its replacement,
        with the same shapes; or None, which leaves it unchanged. It is traced like any other
        function: to print, or to call what cannot be traced, use `functrans.debug.print` and
        `functrans.debug.callback` in it.

    Returns
    -------
    array or pytree
        Equal to ``x``.

    Raises
    ------
    CustomRuleError
        In the backward pass, if the function returns another structure or other shapes.
    NotDifferentiableError
        In forward mode (`jvp`, `jacfwd`), which has no cotangents.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, on_cotangent
    >>> def loss(w):
    ...     w = on_cotangent(w, lambda ct: np.clip(ct, -1.0, 1.0))
    ...     return np.sum(w**3)
    >>> grad(loss)(np.array([0.1, 10.0]))
    array([0.03, 1.  ])
    """
    check_callable(function, "on_cotangent")

    def backward(_: None, cotangent: Any) -> tuple[Any]:
        replaced = function(cotangent)
        return (cotangent if replaced is None else replaced,)

    def value(x: Any) -> Any:
        return x

    value.__name__ = value.__qualname__ = "on_cotangent"  # its name in messages
    passed = custom_vjp(value)
    passed.defvjp(lambda x: (x, None), backward)
    return passed(x)
