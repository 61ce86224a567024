"""One call of a function with a custom rule: its arguments, and checks of the rule's results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from functrans.api.arguments import (
    as_array,
    aval_of_leaf,
    known_values,
    leaf_names,
    name_of,
    normalized_argnums,
)
from functrans.api.inner import Inner
from functrans.api.problem import with_absent_parts
from functrans.errors import CustomRuleError
from functrans.ir.graph import Graph
from functrans.ir.types import Aval, is_complex
from functrans.ops.arrays.promotion import cast
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.calls.custom import Rule
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference


def positional(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, ...]:
    """All arguments by position, including defaults, as a rule takes them."""
    if not kwargs and _takes_exactly(function, len(args)):
        return tuple(args)
    try:
        # a rule does not receive a ufunc's options (out, where, ...)
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
    bound.apply_defaults()  # keyword-only arguments keep their defaults: they are not in bound.args
    return bound.args


def _takes_exactly(function: Callable[..., Any], count: int) -> bool:
    """Whether a plain function takes exactly ``count`` positional arguments and nothing else."""
    if type(function) is not FunctionType or function.__dict__:  # a signature of its own
        return False
    code = function.__code__
    return code.co_argcount == count and not code.co_kwonlyargcount


class CustomCall:
    """The arguments of one call, with the differentiated ones separate from the others."""

    def __init__(
        self, function: Callable[..., Any], what: str, fixed: Sequence[int], args: tuple[Any, ...]
    ) -> None:
        self.args = args
        self.blind = False
        self.fixed = normalized_argnums(tuple(fixed), len(args), function, "nondiff_argnums")
        self.moving = [i for i in range(len(args)) if i not in self.fixed]
        given = tuple(args[i] for i in self.moving)

        def name(i: int) -> str:
            hint = " (what is no array is to be named in nondiff_argnums)"
            return leaf_names(function, self.moving, given)[i] + hint

        self.inner = Inner(lambda *moving: function(*self.merge(moving)), given, what, name)

    def merge(self, moving: Sequence[Any]) -> list[Any]:
        """All arguments, with the given differentiated ones."""
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
        """The values of the leaves, if all are known and may be read."""
        return [] if self.blind else known_values(self.inner.leaves) or []

    def params(self, graph: Graph, rule: Rule) -> dict[str, Any]:
        """The parameters of the equation."""
        count, what = len(self.inner.leaves), self.inner.what
        return {"graph": graph, "rule": rule, "arguments": count, "what": what}

    def arguments(self, leaves: Sequence[Any]) -> Any:
        """The differentiated arguments from their leaves."""
        return self.inner.structure.unflatten(leaves)


def matching_leaves(
    given: Any, structure: Structure, avals: Sequence[Aval], what: str, *, absent: bool = False
) -> list[Any]:
    """The leaves of a rule's result, checked against the values that they belong to.

    With ``absent``, None in place of a leaf or of a subtree stands for zeros.
    """
    leaves: list[Any] | None
    leaves, found = tree.flatten(given)
    if found != structure:
        leaves = with_absent_parts(given, structure) if absent else None
        if leaves is None:
            raise CustomRuleError(
                f"{what} must have the structure of the function's: {difference(structure, found)}"
            )
    checked = []
    for i, (x, aval) in enumerate(zip(leaves, avals, strict=True)):
        if x is None:
            checked.append(zeros_like(aval))
            continue
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
