"""Staging of a user's function as the inner graph of a loop or a branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

import numpy as np

from functrans.api.arguments import (
    as_array,
    aval_of_leaf,
    known_values,
    leaf_names,
    name_of,
)
from functrans.api.flat import Flat
from functrans.errors import BranchError, CarryError, DtypeError
from functrans.ir.graph import Graph, Var
from functrans.ir.types import Aval, describe
from functrans.ops.arrays.promotion import result_type
from functrans.ops.arrays.structural import astype
from functrans.records import NamedTuple
from functrans.trace.axes import Names, declaring, scope
from functrans.trace.stage import replay, rewrite, stage
from functrans.trace.tracer import Tracer
from functrans.transform.variance import of_outputs, variance
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference


class Tree(NamedTuple):
    """A flattened pytree; ``leaves`` are arrays, numbers or tracers, of the types ``avals``."""

    leaves: list[Any]
    structure: Structure
    avals: tuple[Aval, ...]


def flattened(value: Any, what: str) -> Tree:
    """Flatten a pytree of arrays; raises `DtypeError`, with the key path, for any other leaf."""
    leaves, structure = tree.flatten(value)

    def name(i: int) -> str:
        return f"{what}{tree.paths(value)[i]}"

    arrays = [as_array(x, lambda i=i: name(i)) for i, x in enumerate(leaves)]
    return Tree(arrays, structure, tuple(map(aval_of_leaf, arrays)))


def single(value: Any, what: str) -> Any:
    """A value that must be one array or number; a pytree of one leaf is accepted, too."""
    leaves = tree.leaves(value)
    if len(leaves) != 1:
        raise DtypeError(f"{what} must be one number, and is {describe(value)}")
    return as_array(leaves[0], lambda: what)


class Body(NamedTuple):
    """A staged function of arguments and captured values; it gives the leaves of its result."""

    graph: Graph
    captures: tuple[Any, ...]
    result: Structure
    varying: Sequence[Names] = ()
    """The named axes along which each result varies, where there are such axes."""


def apart(outs: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Outputs, with copies of plain arrays that share memory with an operand or another output.

    A loop without steps returns its operands. A later assignment to the result must not change
    these.
    """
    taken = [x for x in operands if isinstance(x, np.ndarray)]
    results = []
    for x in outs:
        if isinstance(x, np.ndarray):
            x = x.copy() if any(np.may_share_memory(x, other) for other in taken) else x
            taken.append(x)
        results.append(x)
    return results


def check_function(
    function: Any, role: str, operation: str, given: Sequence[str] | None = None
) -> None:
    """Raise unless an argument is a function; one of Python must take as many as ``given``."""
    if not callable(function):
        raise TypeError(f"{role} of {operation} must be a function, not {describe(function)}")
    if type(function) is FunctionType and given is not None:
        code = function.__code__
        most, least = code.co_argcount, code.co_argcount - len(function.__defaults__ or ())
        if not least <= len(given) <= (len(given) if code.co_flags & CO_VARARGS else most):
            raise TypeError(
                f"{role} of {operation} is called with ({', '.join(given)}), but "
                f"{name_of(function)} takes {most} positional argument{'s' if most != 1 else ''}"
            )


def staged(
    function: Callable[..., Any], structure: Structure, avals: Sequence[Aval], kind: str, name: str,
    varying: Sequence[Names] | None = None, names: Callable[[Any], list[str]] | None = None,
    own: str = "", at: Sequence[Any] | None = None,
) -> Body:  # fmt: skip
    """Trace ``function(*structure.unflatten(tracers))``, with values only if ``at`` gives them.

    ``kind`` is the operation of which the function is a part, ``name`` its name in messages.
    ``varying`` are the enclosing named axes along which the arguments vary. ``names`` gives the
    names of the leaves of the arguments, and ``own`` the path to the user's result in that of
    ``function``, if it is not the user's own.
    """

    def argument(i: int) -> str:
        given = structure.unflatten(range(structure.num_leaves))
        return (names(given) if names else leaf_names(function, range(len(given)), given))[i]

    def result_name(i: int, result: Structure) -> str:
        path = tree.paths(result.unflatten(range(result.num_leaves)))[i]
        return f"the result of {name}{path.removeprefix(own)}"

    flat = Flat(function, structure, name, result_name)
    if scope() is None or varying is None:
        values = None if at is None else known_values(at)
        traced = stage(flat, avals, kind=kind, name=argument, values=values, operands=at)
        return Body(traced.graph, traced.captures, flat.result)

    traced = stage(declaring(flat, varying), avals, kind=kind, name=argument)
    inputs = [*varying, *map(variance, traced.captures)]
    return Body(traced.graph, traced.captures, flat.result, of_outputs(traced.graph, inputs))


def steady(make: Callable[[Sequence[Names]], Body], init: Sequence[Any]) -> Body:
    """The body of a loop, with the named axes along which its carry varies after every step.

    A carry that is equal in all lanes at the start may vary later (found by a fixed-point
    iteration).
    """
    carry = [variance(x) for x in init]
    while True:
        body = make(carry)
        grown = [a | b for a, b in zip(carry, body.varying or carry, strict=False)]
        if grown == carry:
            return body
        carry = grown


def closed(bodies: Sequence[Body], graphs: Sequence[Graph]) -> tuple[list[Graph], list[Any]]:
    """Graphs that all take the captures of every body and then their arguments; the captures.

    A value that several of them capture occurs once.
    """
    captures: dict[int, Any] = {}
    for body in bodies:
        captures |= {_identity(x): x for x in body.captures}
    return [
        _with_captures(graph, body, captures) for body, graph in zip(bodies, graphs, strict=True)
    ], list(captures.values())


def _identity(captured: Any) -> int:
    return id(captured._variable if isinstance(captured, Tracer) else captured)


def _with_captures(graph: Graph, body: Body, captures: dict[int, Any]) -> Graph:
    count = len(graph.inputs) - len(body.captures)
    arguments, own = graph.inputs[:count], graph.inputs[count:]
    taken = {_identity(x): var for x, var in zip(body.captures, own, strict=True)}
    variables = [taken.get(key) or Var(aval_of_leaf(x)) for key, x in captures.items()]
    return Graph([*variables, *arguments], graph.eqns, graph.outputs)


def cast_outputs(graph: Graph, avals: Sequence[Aval]) -> Graph:
    """The graph with its outputs in the dtypes of the given types."""
    if all(a.dtype == b.dtype for a, b in zip(graph.out_avals, avals, strict=True)):
        return graph

    def function(*inputs: Any) -> list[Any]:
        outs = replay(graph, inputs)
        return [
            x if old.dtype == new.dtype else astype(x, new.dtype)
            for x, old, new in zip(outs, graph.out_avals, avals, strict=True)
        ]

    return rewrite(function, graph.in_avals)


def converted(leaves: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Leaves in the dtypes of the given types."""
    return [
        x if x_aval.same_array_type(aval) and not x_aval.weak else astype(x, aval.dtype)
        for x, x_aval, aval in zip(leaves, map(aval_of_leaf, leaves), avals, strict=True)
    ]


def joined(a: Aval, b: Aval) -> Aval | None:
    """The type that both types convert to without loss: only Python scalars change their dtype."""
    if a.shape != b.shape:
        return None
    if a.dtype == b.dtype:
        return Aval(a.shape, a.dtype, a.weak and b.weak)
    both = Aval(a.shape, result_type((_key(a), _key(b))), a.weak and b.weak)
    fits = all(aval.weak or aval.dtype == both.dtype for aval in (a, b))
    return both if fits and (a.weak or b.weak) else None


def _key(aval: Aval) -> Any:
    return (
        {"b": bool, "i": int, "f": float, "c": complex}[aval.dtype.kind]
        if aval.weak
        else aval.dtype
    )


def carried(
    function: Callable[[Sequence[Aval]], Body], init: Tree, what: str
) -> tuple[Body, list[Any]]:
    """The body of a loop whose first results are a carry like its first arguments.

    A carry that starts as a Python number takes the dtype that the body gives it, as a variable of
    a Python loop would. ``function`` stages the body for given types of the carry.

    Returns
    -------
    body, init
        With equal types.
    """
    avals = init.avals
    while True:
        body = function(avals)
        found = body.graph.out_avals[: len(avals)]
        both = [joined(a, b) for a, b in zip(avals, found, strict=True)]
        wrong = [i for i, aval in enumerate(both) if aval is None or not _stays(avals[i], aval)]
        if wrong:
            raise CarryError(_changes(init, avals, found, wrong[0], what))
        grown = tuple(aval for aval in both if aval is not None)
        if grown == avals:
            outs = [*avals, *body.graph.out_avals[len(avals) :]]
            return body._replace(graph=cast_outputs(body.graph, outs)), converted(
                init.leaves, avals
            )
        avals = grown


def _stays(start: Aval, both: Aval) -> bool:
    return start.weak or start.dtype == both.dtype


def _changes(init: Tree, start: Sequence[Aval], found: Sequence[Aval], i: int, what: str) -> str:
    path = tree.paths(init.structure.unflatten(init.leaves))[i]
    place = f"at {path}, " if path else ""
    return (
        f"the carry of {what} must keep its type: {place}it starts as {start[i]} and the body "
        f"returns {found[i]}.\nGive it that type from the start, or convert what the body returns "
        "(.astype, .reshape)"
    )


def check_carry_structure(expected: Structure, found: Structure, what: str) -> None:
    """Raise `CarryError` if the body of a loop returns another pytree than it takes."""
    if expected != found:
        raise CarryError(
            f"the carry of {what} must keep its structure: {difference(expected, found)}, "
            "in what the body returns"
        )


def check_scalar_bool(x: Any, what: str, error: type[Exception]) -> None:
    """Raise unless a value is one bool."""
    aval = aval_of_leaf(x)
    if aval.shape != () or aval.dtype.kind != "b":
        hint = ": compare it with something (x != 0)" if aval.shape == () else ""
        hint = hint or ": reduce it (.any(), .all()), or use np.where to choose for each element"
        raise error(f"{what} must be one bool, and is {aval}{hint}")


def agreeing(bodies: Sequence[Body], names: Sequence[str], what: str) -> list[Graph]:
    """The graphs of branches, with results of equal types."""
    first = bodies[0]
    for body, name in zip(bodies[1:], names[1:], strict=True):
        if body.result != first.result:
            raise BranchError(
                f"the branches of {what} must return the same structure: "
                f"{difference(first.result, body.result)} (expected is what {names[0]} returns, "
                f"found what {name} returns)"
            )
    common = list(first.graph.out_avals)
    for body, name in zip(bodies[1:], names[1:], strict=True):
        for i, aval in enumerate(body.graph.out_avals):
            both = joined(common[i], aval)
            if both is None:
                path = tree.paths(first.result.unflatten(range(len(common))))[i]
                raise BranchError(
                    f"the branches of {what} must return the same types: {path and f'at {path}, '}"
                    f"{names[0]} returns {first.graph.out_avals[i]} and {name} returns {aval}"
                )
            common[i] = both
    return [cast_outputs(body.graph, common) for body in bodies]
