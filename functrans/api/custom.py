"""User-defined derivatives: custom_jvp and custom_vjp."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast, overload

import numpy as np

from functrans.api.arguments import aval_of_leaf, check_callable, name_of, wrap
from functrans.api.custom_call import CustomCall, matching_leaves, positional
from functrans.api.dependencies import dependencies
from functrans.api.flat import is_float0
from functrans.api.host import callback
from functrans.api.keys import particulars
from functrans.api.memoised_traces import MemoisedTraces
from functrans.api.options import named
from functrans.api.transformed import P, R, Transformed
from functrans.caches import Table
from functrans.errors import CustomRuleError
from functrans.ir.graph import Atom
from functrans.ir.primitive import Primitive, current
from functrans.ir.types import Aval, is_inexact
from functrans.ops.arrays.structural import instantiated, zeros_like
from functrans.ops.calls import custom as ops
from functrans.ops.control.layout import spread
from functrans.trace.stage import Staged
from functrans.tracebacks import hide
from functrans.tree import core as tree

Argnums = int | Sequence[int]
Argnames = str | Iterable[str]

_UNSEEN: Any = object()


class _Custom(Transformed[P, R]):
    """The common base of functions with a jvp or a vjp rule.

    It is called like the function; arguments that are not differentiated are not traced.
    """

    _primitive: Primitive

    def __init__(
        self, transform: Callable[..., Any], function: Callable[..., Any], options: dict[str, Any]
    ) -> None:
        check_callable(function, transform.__name__)
        super().__init__(transform, function, options, function)
        given = (options["nondiff_argnums"], options["nondiff_argnames"])
        positions = named(function, "nondiff", *given).positions
        self._fixed = tuple(dict.fromkeys(positions))
        out_types = options["out_types"]
        self._kept: Table[Any, MemoisedTraces | None] = Table(256)
        self._traced = function if out_types is None else callback(function, out_types)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __reduce__(self) -> Any:
        made = super().__reduce__()
        return made if isinstance(made, str) else (*made, self._rules_given())

    @property
    def _what(self) -> str:
        return f"{self._transform.__name__}({name_of(self._function)})"

    def _has_rule(self) -> bool:
        raise NotImplementedError

    def _rule(self, call: CustomCall) -> ops.Rule:
        raise NotImplementedError

    def _rules_given(self) -> dict[str, Any]:
        raise NotImplementedError

    def _key(self, call: CustomCall) -> Any:
        return id(self), call.inner.structure, tuple(call.avals), tuple(map(id, call.nondiff))

    def _check_rule(self, rule: Any, method: str, role: str, takes: str) -> None:
        """Raise unless a rule takes the arguments that are not differentiated, and two more."""
        check_callable(rule, method)
        count = len(self._fixed)
        try:
            inspect.signature(rule).bind(*range(count + 2))
        except ValueError:
            return  # a builtin without a signature
        except TypeError:
            first = f"the {count} of nondiff_argnums, " if count else ""
            raise CustomRuleError(
                f"{role} of {self._what} is called with {first}{takes}: {name_of(rule)} takes "
                f"{inspect.signature(rule)}"
            ) from None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return cast(R, self._results(args, kwargs))
        except BaseException as error:
            hide(error)
            raise

    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = positional(self._function, args, kwargs)
        if current.get() is None:
            return self._function(*args)
        call = CustomCall(self._traced, self._what, self._fixed, args)
        if not self._has_rule():
            raise CustomRuleError(
                f"{self._what} has no rule yet: define it by "
                + ("defjvp" if isinstance(self, CustomJvp) else "defvjp(forward, backward)")
            )
        kept = self._kept_for(call, args)
        if kept is not None:
            return kept(call, self._primitive)
        staged = call.inner.stage()
        params = call.params(staged.graph, self._rule(call))
        return call.inner.bind(self._primitive, staged, params)

    def _kept_for(self, call: CustomCall, args: Any) -> MemoisedTraces | None:
        """The memoised traces for calls of these types, if all such calls trace alike."""
        if call.fixed or self._traced is not self._function:
            return None
        told, objects = particulars(args)
        key = call.inner.structure, told, tuple(call.avals)
        try:
            kept: MemoisedTraces | None = self._kept.get(key, _UNSEEN)
        except TypeError:
            return None  # a container with unhashable static data
        if kept is _UNSEEN or (kept is not None and not kept.is_valid()):
            found = dependencies([self, *objects])
            if found is None:
                self._kept.remember(key, None)
                return None
            kept = MemoisedTraces(call, self._what, found)
            self._kept.remember(key, kept)  # the rule may call the function
            if not kept.trace(call, self._rule):
                self._kept.remember(key, None)
                return None
        return kept if kept is not None and kept.is_met_here() else None


class _Bound:
    def __init__(self, custom: Any, instance: Any) -> None:
        self._custom = custom
        self._instance = instance
        wrap(custom._function.__get__(instance), self, custom._transform.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._custom(self._instance, *args, **kwargs)


class CustomJvp(_Custom[P, R]):
    """A function with a jvp rule, which `defjvp` sets, as `custom_jvp` returns it."""

    _primitive = ops.custom_jvp_p
    _jvp: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule ``rule(*nondiff, primals, tangents) -> (result, tangent)``."""
        self._check_rule(rule, "defjvp", "the rule", "primals, tangents")
        self._jvp = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set a rule ``rule(tangent, result, *primals)`` for each argument; None: no derivative."""

        def jvp(primals: Any, tangents: Any) -> Any:
            if len(rules) != len(primals):
                raise CustomRuleError(
                    f"defjvps of {self._what} was given {len(rules)} rules for {len(primals)} "
                    "arguments: one for each, or None"
                )
            result = self._results(primals, {})
            parts = [
                rule(tangent, result, *primals)
                for rule, tangent in zip(rules, tangents, strict=True)
                if rule is not None
            ]
            return result, sum(parts[1:], parts[0]) if parts else zeros_like(result)

        self._jvp = jvp

    def _rules_given(self) -> dict[str, Any]:
        return {"_jvp": self._jvp}

    def _has_rule(self) -> bool:
        return self._jvp is not None

    def _rule(self, call: CustomCall) -> ops.Rule:
        jvp = self._jvp
        assert jvp is not None
        floating = [is_inexact(aval.dtype) for aval in call.avals]

        def flat(*values: Any) -> list[Any]:
            leaves, given = values[: len(floating)], values[len(floating) :]
            tangents = instantiated(spread(given, floating), call.avals)
            pair = jvp(
                *call.nondiff, tuple(call.arguments(leaves)), tuple(call.arguments(tangents))
            )
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise CustomRuleError(
                    f"the rule of {self._what} must return (result, tangent), and returned "
                    f"{type(pair).__name__}"
                )
            structure, avals = call.inner.out_structure, call.inner.out_avals
            outs = matching_leaves(pair[0], structure, avals, f"the result of {self._what}'s rule")
            dots = matching_leaves(pair[1], structure, avals, f"the tangent of {self._what}'s rule")
            return [
                *outs,
                *(t for t, aval in zip(dots, avals, strict=True) if is_inexact(aval.dtype)),
            ]

        moving = [aval for aval, flag in zip(call.avals, floating, strict=True) if flag]
        return ops.Rule(
            [flat],
            avals=lambda before: [*call.avals, *moving],
            known=lambda before: call.values,
            what=self._what,
            key=self._key(call),
        )


@overload
def custom_jvp(
    function: Callable[P, R],
    /,
    nondiff_argnums: Argnums = (),
    nondiff_argnames: Argnames = (),
    out_types: Any = None,
) -> CustomJvp[P, R]: ...


@overload
def custom_jvp(
    *, nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = (), out_types: Any = None
) -> Callable[[Callable[P, R]], CustomJvp[P, R]]: ...


def custom_jvp(
    function: Callable[..., Any] | None = None,
    /,
    nondiff_argnums: Argnums = (),
    nondiff_argnames: Argnames = (),
    out_types: Any = None,
) -> Any:
    """Give a function a forward-mode derivative rule; reverse mode follows from it.

    Parameters
    ----------
    function : callable
    nondiff_argnums : int or sequence of int, optional
        Arguments that the rule receives first, unchanged (functions, options).
    nondiff_argnames : str or sequence of str, optional
        The same by name; the rule receives these after those of ``nondiff_argnums``.
    out_types : pytree of Aval or arrays, or callable, optional
        The types of the results, as for `callback`. The function is then not traced, but called
        with arrays, and may do what cannot be traced, such as call a SciPy solver. Its rule is
        traced.

    Notes
    -----
    The rule is set by `defjvp`. It takes the tuple of primals and the tuple of tangents, and
    returns the result and its tangent, which must be linear in the tangents.

    Raises
    ------
    CustomRuleError
        If there is no rule, or if it does not return ``(result, tangent)`` with the structure,
        shapes and dtypes of the function's result.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import custom_jvp, grad
    >>> @custom_jvp
    ... def clamp(x):
    ...     return np.minimum(np.maximum(x, -1.0), 1.0)
    >>> @clamp.defjvp
    ... def clamp_jvp(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return clamp(x), dx        # as if it were the identity
    >>> grad(clamp)(5.0)
    np.float64(1.0)
    """
    return _made(CustomJvp, custom_jvp, function, nondiff_argnums, nondiff_argnames, out_types)


class CustomVjp(_Custom[P, R]):
    """A function with vjp rules, which `defvjp` sets, as `custom_vjp` returns it."""

    _primitive = ops.custom_vjp_p
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the rules.

        Parameters
        ----------
        forward : callable
            Takes the function's arguments; returns ``(result, residuals)``.
        backward : callable
            ``backward(*nondiff, residuals, cotangent)`` returns a tuple with the cotangent of each
            argument that is differentiated. None stands for zeros, in the place of a cotangent or
            of any part of it: ``({"a": ct, "b": None},)``.
        """
        check_callable(forward, "defvjp")
        self._check_rule(backward, "defvjp", "the backward rule", "residuals, cotangent")
        self._rules = forward, backward

    def _rules_given(self) -> dict[str, Any]:
        return {"_rules": self._rules}

    def _has_rule(self) -> bool:
        return self._rules is not None

    def _rule(self, call: CustomCall) -> ops.Rule:
        assert self._rules is not None
        forward, backward = self._rules
        found: dict[str, Any] = {}

        def flat_forward(*leaves: Any) -> list[Any]:
            pair = forward(*call.merge(call.arguments(leaves)))
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise CustomRuleError(
                    f"the forward rule of {self._what} must return (result, residuals), and "
                    f"returned {type(pair).__name__}"
                )
            outs = matching_leaves(
                pair[0],
                call.inner.out_structure,
                call.inner.out_avals,
                f"the result of {self._what}'s forward rule",
            )
            residuals, found["residuals"] = tree.flatten(pair[1])
            return [*outs, *residuals]

        def flat_backward(*values: Any) -> list[Any]:
            count = found["residuals"].num_leaves
            avals = call.inner.out_avals
            moving = [is_inexact(aval.dtype) for aval in avals]
            cotangents = instantiated(spread(values[count:], moving), avals)
            results = backward(
                *call.nondiff,
                found["residuals"].unflatten(values[:count]),
                call.inner.out_structure.unflatten(cotangents),
            )
            return self._cotangents(call, results)

        outs = call.inner.out_avals

        def residuals(forward: Staged) -> Sequence[Atom]:
            return forward.graph.outputs[len(outs) :]

        def avals(before: Sequence[Staged]) -> Sequence[Aval]:
            if not before:
                return call.avals
            cotangents = [aval for aval in outs if is_inexact(aval.dtype)]
            return [*(atom.aval for atom in residuals(before[0])), *cotangents]

        def known(before: Sequence[Staged]) -> Sequence[Any]:
            if not before:
                return call.values
            return [before[0].value_of(atom) for atom in residuals(before[0])]

        functions = [flat_forward, flat_backward]
        return ops.Rule(functions, avals, known, self._what, self._key(call))

    def _cotangents(self, call: CustomCall, results: Any) -> list[Any]:
        """The leaves of what the backward rule returned, checked against the arguments."""
        what = f"the backward rule of {self._what}"
        arguments = call.arguments(call.inner.leaves)
        if not isinstance(results, (tuple, list)) or len(results) != len(arguments):
            found = (
                f"{len(results)}" if isinstance(results, (tuple, list)) else type(results).__name__
            )
            raise CustomRuleError(
                f"{what} must return a tuple of {len(arguments)} cotangents, one for each "
                f"argument, and returned {found}; write (ct,) for one argument"
            )
        flat = []
        for i, (ct, argument) in enumerate(zip(results, arguments, strict=True)):
            leaves, structure = tree.flatten(argument)
            avals = [aval_of_leaf(x) for x in leaves]
            ct = tree.map(_without_float0, ct)
            cts = matching_leaves(ct, structure, avals, f"cotangent {i} of {what}", absent=True)
            flat += [c for c, a in zip(cts, avals, strict=True) if is_inexact(a.dtype)]
        return flat


def _without_float0(ct: Any) -> Any:
    """An integer's cotangent, of dtype float0, as an array of zeros, which is never read."""
    return np.zeros(ct.shape, int) if is_float0(ct) else ct


@overload
def custom_vjp(
    function: Callable[P, R],
    /,
    nondiff_argnums: Argnums = (),
    nondiff_argnames: Argnames = (),
    out_types: Any = None,
) -> CustomVjp[P, R]: ...


@overload
def custom_vjp(
    *, nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = (), out_types: Any = None
) -> Callable[[Callable[P, R]], CustomVjp[P, R]]: ...


def custom_vjp(
    function: Callable[..., Any] | None = None,
    /,
    nondiff_argnums: Argnums = (),
    nondiff_argnames: Argnames = (),
    out_types: Any = None,
) -> Any:
    """Give a function a reverse-mode derivative rule.

    Parameters
    ----------
    function : callable
    nondiff_argnums : int or sequence of int, optional
        Arguments that are not differentiated (functions, options).
    nondiff_argnames : str or sequence of str, optional
        The same by name; the rules receive these after those of ``nondiff_argnums``.
    out_types : pytree of Aval or arrays, or callable, optional
        As for `custom_jvp`.

    Notes
    -----
    The rules are set by `defvjp`. Forward mode is not available for such a function.

    Raises
    ------
    CustomRuleError
        If there is no rule; if the forward rule does not return ``(result, residuals)`` with a
        result like the function's; if the backward rule does not return a tuple with one cotangent
        for each argument, in the argument's structure and shapes (None stands for zeros).

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import custom_vjp, grad
    >>> @custom_vjp
    ... def round_through(x):
    ...     return np.round(x)
    >>> def forward(x):
    ...     return round_through(x), None
    >>> def backward(residuals, ct):
    ...     return (ct,)
    >>> round_through.defvjp(forward, backward)
    >>> grad(lambda x: round_through(x) ** 2)(1.6)
    np.float64(4.0)
    """
    return _made(CustomVjp, custom_vjp, function, nondiff_argnums, nondiff_argnames, out_types)


def _made(kind: type[_Custom[..., Any]], transform: Any, function: Any, *given: Any) -> Any:
    options = dict(zip(("nondiff_argnums", "nondiff_argnames", "out_types"), given, strict=True))
    return partial(transform, **options) if function is None else kind(transform, function, options)
