"""The call of a transformed function, as a flat function of the differentiated leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import (
    Argnums,
    as_array,
    aval_of_leaf,
    check_differentiable,
    leaf_names,
    name_of,
    normalized_argnums,
)
from functrans.api.flat import Flat, among_floats, is_float0
from functrans.api.linearization import Linear, Point
from functrans.errors import DtypeError, ShapeError, TreeMismatchError
from functrans.ir.graph import Graph
from functrans.ir.types import Aval, describe, is_complex, is_inexact
from functrans.ops.arrays.promotion import cast
from functrans.ops.arrays.structural import zeros_like
from functrans.records import NamedTuple
from functrans.run.call.ownership import own
from functrans.trace.assignable import held, plain
from functrans.trace.axes import Names
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference

_READ_ONLY = (
    "Arguments that are not differentiated are read-only while a function is transformed: the "
    "caller still holds them. Work on a copy: x = x.copy()."
)


_NO_AUX = tree.structure(None)


class Form(NamedTuple):
    """A linear function without its residuals."""

    graph: Graph
    nonzero: tuple[bool, ...]
    arguments: Structure
    in_avals: tuple[Aval, ...]
    result: Structure
    out_avals: tuple[Aval, ...]
    name: str
    varying: tuple[Names, ...] = ()
    """The named axes along which each result varies, within named axes."""


class Problem:
    """A user's function with its arguments, as a flat function of the differentiated leaves.

    Attributes
    ----------
    leaves : list
        The leaves that are differentiated.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        positions: tuple[int, ...],  # which positional arguments are differentiated
        has_aux: bool,  # whether the function returns ``(result, auxiliary)``
        transform: str,  # the name of the transform, for messages
        # whether leaves that are not floats are accepted, and not differentiated
        allow_int: bool = False,
    ) -> None:
        self.function = function
        self.args = [x if i in positions else held_argument(x) for i, x in enumerate(args)]
        self.kwargs = {key: held_argument(x) for key, x in kwargs.items()}
        self.positions = positions
        self.has_aux = has_aux
        self.aux: list[Any] = []
        self.aux_structure = _NO_AUX
        self.transform = transform
        self.selected = tuple(args[i] for i in positions)
        leaves, self.structure = tree.flatten(self.selected)
        self._all_leaves = [as_array(x, self._name, i) for i, x in enumerate(leaves)]
        self.avals = [aval_of_leaf(x) for x in self._all_leaves]
        self.leaves = self._all_leaves
        self._floating: Sequence[int] = range(len(leaves))
        if allow_int:
            self._floating = [i for i, aval in enumerate(self.avals) if is_inexact(aval.dtype)]
            self.leaves = [self._all_leaves[i] for i in self._floating]
        check_differentiable(self.leaves, self.leaf_name, transform)

    def leaf_name(self, i: int) -> str:
        """The name of a differentiated leaf in messages."""
        return self._name(self._floating[i])

    def _name(self, i: int) -> str:
        return leaf_names(self.function, self.positions, self.selected)[i]

    def flat(self, *leaves: Any) -> list[Any]:
        """The user's function of the leaves; returns the result's leaves, then those of aux."""
        flat = Flat(self._call, self.structure, "", self._result_name)
        if len(leaves) < len(self._all_leaves):
            merged = list(self._all_leaves)
            for i, x in zip(self._floating, leaves, strict=True):
                merged[i] = x
            leaves = tuple(merged)
        self.outs = flat(*leaves)
        self.out_structure, self.out_count = flat.result, len(self.outs)
        # auxiliary data may be any objects; only tracers in them become outputs
        return [*self.outs, *(x for x in self.aux if isinstance(x, Tracer))]

    def _call(self, *differentiated: Any) -> Any:
        """The function's result; its auxiliary data are stored."""
        args = list(self.args)
        for position, value in zip(self.positions, differentiated, strict=True):
            args[position] = value
        try:
            result = self.function(*args, **self.kwargs)
        except ValueError as error:
            if "read-only" in str(error):
                error.add_note(_READ_ONLY)
            raise
        if self.has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(
                    f"has_aux=True: {name_of(self.function)} must return (result, auxiliary data), "
                    f"and returned {describe(result)}"
                )
            result, aux = result
            leaves, self.aux_structure = tree.flatten(aux)
            self.aux = [plain(x) for x in leaves]
        return result

    def _result_name(self, i: int, structure: Structure) -> str:
        return f"the result of {name_of(self.function)} (leaf {i})"

    def point(self) -> Point:
        """The function, traced at the arguments."""
        point = Point(self.flat, self.leaves, self.transform, self.leaf_name)
        point.count = self.out_count
        return point

    def form(self, linear: Linear) -> Form:
        """The derivative of the function at a point, without the residuals."""
        return Form(
            linear.graph,
            linear.nonzero,
            self.structure,
            tuple(self.avals),
            self.out_structure,
            tuple(aval_of_leaf(x) for x in self.outs),
            name_of(self.function),
            linear.varying,
        )

    def unpack(self, outputs: Sequence[Any]) -> tuple[Any, Any]:
        """The result and the auxiliary data from the flat outputs."""
        outputs = own(outputs, [*self.leaves])
        result = self.out_structure.unflatten(outputs[: self.out_count])
        if not self.has_aux:
            return result, None
        traced = iter(outputs[self.out_count :])
        aux = [next(traced) if isinstance(x, Tracer) else x for x in self.aux]
        return result, self.aux_structure.unflatten(aux)

    def derivative(
        self, cotangents: Sequence[Any], point: Point, given: Sequence[Any] = ()
    ) -> tuple[Any, ...]:
        """Cotangents of the leaves as one pytree for each differentiated argument.

        ``given`` are the cotangents of the results, which the caller still holds.
        """
        filled = [
            zeros_like(aval_of_leaf(x)) if ct is None else ct
            for x, ct in zip(self.leaves, cotangents, strict=True)
        ]
        found = own(filled, [*point.inputs, *given])
        return tuple(tree.unflatten(self.structure, among_floats(found, self.avals)))

    def moving(self, tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the floats among the primals."""
        return of_floats(tuple(tangents), self.structure, self.avals, self._refuse)

    def _refuse(self, i: int) -> None:
        check_differentiable([self._all_leaves[i]], lambda _: self._name(i), self.transform)


def held_argument(argument: Any) -> Any:
    """An argument that is not differentiated; the trace may refer to its arrays without a copy."""
    return held(argument) if isinstance(argument, np.ndarray) else tree.map(held, argument)


def problem_of(
    function: Callable[..., Any],
    argnums: Argnums,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    has_aux: bool,
    transform: str,
) -> Problem:
    """The flat problem of ``transform(function, argnums)(*args, **kwargs)``."""
    positions = normalized_argnums(argnums, len(args), function)
    return Problem(function, args, kwargs, positions, has_aux, transform)


def forward_problem(
    function: Callable[..., Any], primals: Any, has_aux: bool, transform: str,
    allow_int: bool = False,
) -> Problem:  # fmt: skip
    if not isinstance(primals, (tuple, list)):
        raise TypeError(
            f"{transform} takes the primals as a tuple, with one entry for each argument of "
            f"{name_of(function)}, not {describe(primals)}: write (x,) for one argument"
        )
    positions = tuple(range(len(primals)))
    return Problem(function, primals, {}, positions, has_aux, transform, allow_int)


def filled_tangents(
    problem: Problem, dots: Sequence[Any], point: Point, given: Sequence[Any]
) -> Any:
    """Tangents as a pytree like the result; ``given`` are those of the arguments."""
    filled = [
        zeros_like(aval_of_leaf(x)) if t is None else t
        for x, t in zip(problem.outs, dots, strict=False)
    ]
    return problem.out_structure.unflatten(own(filled, [*point.inputs, *given]))


def matching(
    given: Any, structure: Any, avals: Sequence[Aval], what: str, of: str, *, absent: bool = False
) -> list[Any]:
    """The leaves of a tangent or cotangent, checked against its primal.

    None in place of a leaf or of a subtree stands for zeros, and so does an array of dtype float0
    in place of an integer; with ``absent`` they are None.
    """
    leaves: list[Any] | None
    leaves, found = tree.flatten(given)
    if found != structure:
        leaves = with_absent_parts(given, structure)
        if leaves is None:
            # absent parts do not count as differences
            found = tree.structure(tree.map(lambda x: 0, given, is_leaf=_is_absent))
            raise TreeMismatchError(
                f"{what} must have the structure of {of}: {difference(structure, found)}"
            )

    def at(i: int) -> str:
        path = tree.paths(structure.unflatten(range(len(avals))))[i]
        return f"at {path}: " if path else ""

    result: list[Any] = []
    for i, (x, aval) in enumerate(zip(leaves, avals, strict=True)):
        if x is None or (is_float0(x) and not is_inexact(aval.dtype)):
            result.append(None if absent else zeros_like(aval))
            continue
        x = as_array(x, lambda i: f"{what}: {at(i)}what is given", i)
        shape = aval_of_leaf(x).shape
        if shape != aval.shape:
            raise ShapeError(
                f"{what} must have the shape of {of}: {at(i)}expected {aval.shape}, found {shape}"
            )
        if is_complex(aval_of_leaf(x).dtype) and not is_complex(aval.dtype):
            raise DtypeError(
                f"{what} must be real, as {of} is: {at(i)}expected {aval.dtype}, found "
                f"{aval_of_leaf(x).dtype}"
            )
        result.append(cast(x, aval.dtype))
    return result


def of_floats(
    tangents: Any, structure: Any, avals: Sequence[Aval], refuse: Callable[[int], None]
) -> list[Any]:
    """The tangents of the primals that are floats; an integer has None, or one of dtype float0.

    ``refuse(i)`` raises that the integer at ``i`` cannot move.
    """
    given = matching(tangents, structure, avals, "the tangents", "the primals", absent=True)
    moving = []
    for i, (x, aval) in enumerate(zip(given, avals, strict=True)):
        if is_inexact(aval.dtype):
            moving.append(zeros_like(aval) if x is None else x)
        elif x is not None:
            refuse(i)
    return moving


def _is_absent(node: Any) -> bool:
    return node is None


def with_absent_parts(given: Any, structure: Any) -> list[Any] | None:
    """The leaves of a tree in which parts are None; None if the structure does not match."""
    numbered = structure.unflatten(range(structure.num_leaves))
    try:
        places = tree.broadcast_prefix(given, numbered, _is_absent)
    except TreeMismatchError:
        return None
    present = [x for x in places if x is not None]
    # a leaf in place of a subtree does not match
    return places if len(present) == tree.structure(given).num_leaves else None
