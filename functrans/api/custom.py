"""Functions whose derivative the user defines: custom_jvp and custom_vjp."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import (
    as_array,
    aval_of_leaf,
    check_callable,
    decorated,
    known_values,
    leaf_names,
    name_of,
    normalized_argnums,
    wrap,
)
from functrans.api.inner import Inner
from functrans.errors import CustomRuleError
from functrans.ir.graph import Atom
from functrans.ir.primitive import Primitive, current
from functrans.ir.types import Aval, is_complex, is_inexact
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.calls import custom as ops
from functrans.ops.promotion import cast
from functrans.trace.stage import Staged
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference


class _Custom:
    """A function with a rule: what custom_jvp and custom_vjp share.

    It is called like the function; arguments that are not differentiated are left out of the trace.
    """

    transform: str
    primitive: Primitive

    def __new__(cls, function: Any = None, /, nondiff_argnums: int | Sequence[int] = ()) -> Any:
        if function is None:
            return decorated(cls, nondiff_argnums=nondiff_argnums)
        return super().__new__(cls)

    def __init__(self, function: Callable[..., Any], nondiff_argnums: int | Sequence[int]) -> None:
        check_callable(function, self.transform)
        self.function = function
        self.nondiff_argnums = nondiff_argnums
        wrap(function, self, self.transform)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    @property
    def what(self) -> str:
        return f"{self.transform}({name_of(self.function)})"

    def has_rule(self) -> bool:
        raise NotImplementedError

    def rule(self, call: _CustomCall) -> ops.Rule:
        raise NotImplementedError

    def _check_rule(self, rule: Any, method: str, role: str, takes: str) -> None:
        """Raise unless a rule takes the arguments that are not differentiated, and two more."""
        check_callable(rule, method)
        fixed = self.nondiff_argnums
        count = 1 if isinstance(fixed, int) else len(fixed)
        try:
            inspect.signature(rule).bind(*range(count + 2))
        except ValueError:
            return  # a builtin, of which the signature is not known
        except TypeError:
            first = f"the {count} of nondiff_argnums, " if count else ""
            raise CustomRuleError(
                f"{role} of {self.what} is called with {first}{takes}: {name_of(rule)} takes "
                f"{inspect.signature(rule)}"
            ) from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = _positional(self.function, args, kwargs)
        if current.get() is None:
            return self.function(*args)
        call = _CustomCall(self, args)
        if not self.has_rule():
            raise CustomRuleError(
                f"{self.what} has no rule yet: define it by "
                + ("defjvp" if self.transform == "custom_jvp" else "defvjp(forward, backward)")
            )
        staged = call.inner.stage()
        params = {
            "graph": staged.graph,
            "rule": self.rule(call),
            "arguments": len(call.inner.leaves),
            "what": self.what,
        }
        return call.inner.bind(self.primitive, staged, params)


class _Bound:
    def __init__(self, custom: _Custom, instance: Any) -> None:
        self.custom = custom
        self.instance = instance
        wrap(custom.function.__get__(instance), self, custom.transform)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.custom(self.instance, *args, **kwargs)


def _positional(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, ...]:
    """All arguments by position, defaults filled in, as a rule takes them."""
    try:
        # what a ufunc takes after its operands (out, where, ...) is no business of a rule
        signature = None if isinstance(function, np.ufunc) else inspect.signature(function)
    except (ValueError, TypeError):
        signature = None
    if signature is None:
        if kwargs:
            raise TypeError(f"{name_of(function)} takes keyword arguments by position here")
        return tuple(args)
    bound = signature.bind(*args, **kwargs)
    if by_name := bound.kwargs:
        raise TypeError(
            f"{name_of(function)} has a rule for its derivative, which takes arguments by "
            f"position: it cannot be called with keyword-only arguments ({', '.join(by_name)})"
        )
    bound.apply_defaults()  # keyword-only ones keep theirs: they are not in bound.args
    return bound.args


class _CustomCall:
    """The arguments of one call, those that are differentiated apart from the others."""

    def __init__(self, custom: _Custom, args: tuple[Any, ...]) -> None:
        self.custom = custom
        self.args = args
        self.fixed = normalized_argnums(
            custom.nondiff_argnums, len(args), custom.function, "nondiff_argnums"
        )
        self.moving = [i for i in range(len(args)) if i not in self.fixed]
        given = tuple(args[i] for i in self.moving)

        def name(i: int) -> str:
            hint = " (what is no array is to be named in nondiff_argnums)"
            return leaf_names(custom.function, self.moving, given)[i] + hint

        self.inner = Inner(self._call, given, custom.what, name)

    def _call(self, *moving: Any) -> Any:
        return self.custom.function(*self.merge(moving))

    def merge(self, moving: Sequence[Any]) -> list[Any]:
        """All arguments, from those that are differentiated."""
        args = list(self.args)
        for i, x in zip(self.moving, moving, strict=True):
            args[i] = x
        return args

    @property
    def nondiff(self) -> list[Any]:
        return [self.args[i] for i in self.fixed]

    @property
    def avals(self) -> list[Aval]:
        return [aval_of_leaf(x) for x in self.inner.leaves]

    @property
    def values(self) -> list[Any]:
        """What the leaves are, if that is known of all."""
        return known_values(self.inner.leaves) or []

    def arguments(self, leaves: Sequence[Any]) -> Any:
        """The differentiated arguments from their leaves."""
        return self.inner.structure.unflatten(leaves)


class custom_jvp(_Custom):
    """A function whose forward-mode derivative is given; reverse mode follows from it.

    Parameters
    ----------
    function : callable
    nondiff_argnums : int or sequence of int, optional
        Positional arguments that the rule is given first, as they are (functions, options).

    Notes
    -----
    The rule is set by `defjvp`. It takes the tuple of primals and the tuple of tangents, and
    returns the result and its tangent, which must be linear in the tangents.

    Raises
    ------
    CustomRuleError
        If there is no rule, or if it returns something else than ``(result, tangent)`` in the
        structure, shapes and dtypes of the function's result.

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

    transform = "custom_jvp"
    primitive = ops.custom_jvp_p

    def __init__(self, function: Any = None, /, nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self._jvp: Callable[..., Any] | None = None

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
                    f"defjvps of {self.what} was given {len(rules)} rules for {len(primals)} "
                    "arguments: one for each, or None"
                )
            result = self(*primals)
            parts = [
                rule(tangent, result, *primals)
                for rule, tangent in zip(rules, tangents, strict=True)
                if rule is not None
            ]
            return result, sum(parts[1:], parts[0]) if parts else zeros_like(result)

        self._jvp = jvp

    def has_rule(self) -> bool:
        return self._jvp is not None

    def rule(self, call: _CustomCall) -> ops.Rule:
        jvp = self._jvp
        assert jvp is not None
        floating = [is_inexact(aval.dtype) for aval in call.avals]

        def flat(*values: Any) -> list[Any]:
            leaves, given = values[: len(floating)], iter(values[len(floating) :])
            tangents = [
                next(given) if flag else zeros_like(aval)
                for flag, aval in zip(floating, call.avals, strict=True)
            ]
            pair = jvp(
                *call.nondiff, tuple(call.arguments(leaves)), tuple(call.arguments(tangents))
            )
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise CustomRuleError(
                    f"the rule of {self.what} must return (result, tangent), and returned "
                    f"{type(pair).__name__}"
                )
            structure, avals = call.inner.out_structure, call.inner.out_avals
            outs = _matching(pair[0], structure, avals, f"the result of {self.what}'s rule")
            dots = _matching(pair[1], structure, avals, f"the tangent of {self.what}'s rule")
            return [
                *outs,
                *(t for t, aval in zip(dots, avals, strict=True) if is_inexact(aval.dtype)),
            ]

        moving = [aval for aval, flag in zip(call.avals, floating, strict=True) if flag]
        return ops.Rule(
            [flat],
            avals=lambda before: [*call.avals, *moving],
            known=lambda before: call.values,
            what=self.what,
        )


class custom_vjp(_Custom):
    """A function whose reverse-mode derivative is given.

    Parameters
    ----------
    function : callable
    nondiff_argnums : int or sequence of int, optional
        Positional arguments that are no part of the derivative (functions, options).

    Notes
    -----
    The rules are set by `defvjp`. Forward mode is not available for such a function.

    Raises
    ------
    CustomRuleError
        If there is no rule; if the forward rule does not return ``(result, residuals)`` with a
        result like the function's; if the backward rule does not return a tuple with one cotangent
        (or None) for each argument, in the argument's structure and shapes.

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

    transform = "custom_vjp"
    primitive = ops.custom_vjp_p

    def __init__(self, function: Any = None, /, nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the rules.

        Parameters
        ----------
        forward : callable
            With the function's arguments; returns ``(result, residuals)``.
        backward : callable
            ``backward(*nondiff, residuals, cotangent)`` returns a tuple with the cotangent of each
            argument that is differentiated; None stands for zero.
        """
        check_callable(forward, "defvjp")
        self._check_rule(backward, "defvjp", "the backward rule", "residuals, cotangent")
        self._rules = forward, backward

    def has_rule(self) -> bool:
        return self._rules is not None

    def rule(self, call: _CustomCall) -> ops.Rule:
        assert self._rules is not None
        forward, backward = self._rules
        found: dict[str, Any] = {}

        def flat_forward(*leaves: Any) -> list[Any]:
            pair = forward(*call.merge(call.arguments(leaves)))
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise CustomRuleError(
                    f"the forward rule of {self.what} must return (result, residuals), and "
                    f"returned {type(pair).__name__}"
                )
            outs = _matching(
                pair[0],
                call.inner.out_structure,
                call.inner.out_avals,
                f"the result of {self.what}'s forward rule",
            )
            residuals, found["residuals"] = tree.flatten(pair[1])
            return [*outs, *residuals]

        def flat_backward(*values: Any) -> list[Any]:
            count = found["residuals"].num_leaves
            given = iter(values[count:])
            cotangents = [
                next(given) if is_inexact(aval.dtype) else zeros_like(aval)
                for aval in call.inner.out_avals
            ]
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

        return ops.Rule([flat_forward, flat_backward], avals, known, self.what)

    def _cotangents(self, call: _CustomCall, results: Any) -> list[Any]:
        """The leaves of what the backward rule returned, checked against the arguments."""
        what = f"the backward rule of {self.what}"
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
            if ct is None:
                flat += [zeros_like(a) for a in avals if is_inexact(a.dtype)]
            else:
                cts = _matching(ct, structure, avals, f"cotangent {i} of {what}")
                flat += [c for c, a in zip(cts, avals, strict=True) if is_inexact(a.dtype)]
        return flat


def _check_structure(found: Structure, expected: Structure, what: str) -> None:
    if found != expected:
        raise CustomRuleError(
            f"{what} must have the structure of the function's: {difference(expected, found)}"
        )


def _matching(given: Any, structure: Structure, avals: Sequence[Aval], what: str) -> list[Any]:
    """The leaves of a tangent or cotangent; None stands for zeros where the leaf is no float."""
    leaves, found = tree.flatten(given)
    _check_structure(found, structure, what)
    checked = []
    for i, (x, aval) in enumerate(zip(leaves, avals, strict=True)):
        x = as_array(x, f"{what}, leaf {{}},".format, i)
        if aval_of_leaf(x).shape != aval.shape:
            raise CustomRuleError(
                f"{what} has shape {aval_of_leaf(x).shape} at leaf {i}, expected {aval.shape}"
            )
        if is_complex(aval_of_leaf(x).dtype) and not is_complex(aval.dtype):
            raise CustomRuleError(
                f"{what} is complex at leaf {i}, where it must be {aval.dtype}: write .real"
            )
        checked.append(cast(x, aval.dtype))
    return checked
