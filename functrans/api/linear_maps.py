"""The results of `vjp` and `linearize`: linear functions, as pytrees of their residuals.

As pytrees, they may be returned from a jitted function, carried by a loop, and mapped by `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans import config
from functrans.api.arguments import aval_of_leaf
from functrans.api.flat import among_floats
from functrans.api.linearization import Linear
from functrans.api.problem import Form, matching, of_floats
from functrans.api.transformed import checked
from functrans.errors import IntegerInputError, ShapeError
from functrans.ir.types import GROWS, Aval, is_inexact
from functrans.lazily import lazy
from functrans.ops.arrays.structural import instantiated
from functrans.run.call.ownership import own
from functrans.trace.axes import scope
from functrans.tracebacks import boundary
from functrans.tree.registration import register

_check_cotangents = lazy("functrans.api.named_axes:check_cotangents")


class _LinearMap:
    origin: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
    """The map as a function of the point, too, and the point: a bad value may have begun there.

    It is there if values are checked, and is no part of the pytree."""

    def __init__(self, form: Form, residuals: Sequence[Any]) -> None:
        self._form = form
        self._residuals = residuals

    def _checked(self, given: tuple[Any, ...], result: Any) -> Any:
        if config.check_values is None:
            return result
        function, point = self.origin or (self, ())
        return checked(function, (*point, *given), {}, result)

    def _linear(self) -> Linear:
        expected = self._form.graph.in_avals[: len(self._residuals)]
        for aval, x in zip(expected, self._residuals, strict=True):
            if isinstance(x, np.ndarray) and x.dtype == object:
                continue  # residuals of a nested loop, of a different length in each outer step
            shape = aval_of_leaf(x).shape
            if len(shape) != aval.ndim or any(
                n != m and m != GROWS for n, m in zip(shape, aval.shape, strict=True)
            ):
                raise ShapeError(
                    f"this {type(self).__name__} of {self._form.name} is of many points at once: "
                    f"it keeps an array of shape {shape} where one point has "
                    f"{aval.shape}. Apply it under vmap: vmap(lambda f, x: f(x))(this, xs)"
                )
        return Linear(self._form.graph, self._residuals, self._form.nonzero, [])

    def _filled(self, results: Sequence[Any], avals: Sequence[Aval], given: Sequence[Any]) -> Any:
        return own(instantiated(results[: len(avals)], avals), [*self._residuals, *given])


class Pullback(_LinearMap):
    """The pullback of a function at a point, as `vjp` returns it: it maps cotangents to cotangents.

    It is a pytree, whose leaves are the residuals.
    """

    @boundary
    def __call__(self, cotangent: Any, *more: Any) -> tuple[Any, ...]:
        form = self._form
        if more:
            raise TypeError(
                f"a pullback takes one cotangent, like the result of {form.name}: write "
                "pullback((ct0, ct1)) if that is a tuple"
            )
        of = f"the result of {form.name}"
        given = matching(cotangent, form.result, form.out_avals, "the cotangent", of, absent=True)
        if form.varying and scope() is not None:
            _check_cotangents(given, form.varying, of)
        padding = [None] * (len(form.nonzero) - len(form.out_avals))
        results = self._linear().pull([*given, *padding])
        floats = [aval for aval in form.in_avals if is_inexact(aval.dtype)]
        filled: Any = among_floats(self._filled(results, floats, given), form.in_avals)
        result: tuple[Any, ...] = tuple(form.arguments.unflatten(filled))
        self._checked((cotangent,), result)
        return result


class Pushforward(_LinearMap):
    """The pushforward of a function at a point, as `linearize` returns it: tangents to tangents.

    It is a pytree, whose leaves are the residuals.
    """

    @boundary
    def __call__(self, *tangents: Any) -> Any:
        form = self._form
        given = of_floats(tangents, form.arguments, form.in_avals, self._refuse)
        results = self._linear().push(given)
        result = form.result.unflatten(self._filled(results, form.out_avals, given))
        return self._checked(tangents, result)

    def _refuse(self, i: int) -> None:
        raise IntegerInputError(
            f"leaf {i} of the arguments of {self._form.name} is of dtype "
            f"{self._form.in_avals[i].dtype}, and does not move: write None as its tangent"
        )


def _children(linear: _LinearMap) -> tuple[Any, ...]:
    return tuple(linear._residuals), linear._form


register(Pullback, _children, lambda form, parts: Pullback(form, tuple(parts)))
register(Pushforward, _children, lambda form, parts: Pushforward(form, tuple(parts)))
