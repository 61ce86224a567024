"""Type-checking of graphs: the invariants that each pass of the compiler must preserve.

Every pass and every transform passes its results through `checked` or `typechecked`, which check
graphs only if `functrans.config.check_plans` is on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functrans import config
from functrans.caches import cached
from functrans.errors import GraphTypeError
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, inner_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval

P = ParamSpec("P")
T = TypeVar("T")


def typechecked(transform: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that returns one or several graphs, to check these if configured."""
    name = transform.__name__

    @wraps(transform)
    def transformed(*args: P.args, **kwargs: P.kwargs) -> T:
        made = transform(*args, **kwargs)
        if config.check_plans:
            for graph in _graphs_in(made):
                _check(graph, name, True)
        return made

    return transformed


def is_asked() -> bool:
    """Whether the output of the compiler's stages is to be checked."""
    return config.check_plans


def checked(graph: Graph, by: str) -> Graph:
    """The graph itself, the output of a pass, which is checked if configured.

    Parameters
    ----------
    graph : Graph
        A graph to which all transforms have been applied, so that weakness no longer matters.
    by : str
        The name of the pass.

    Raises
    ------
    GraphTypeError
        The message names the pass and the invalid equation.
    """
    if is_asked():
        _check(graph, by, False)
    return graph


def _check(graph: Graph, by: str, weak: bool) -> None:
    if not graph.is_checked:
        try:
            check_graph(graph, weak)
        except GraphTypeError as error:
            raise GraphTypeError(f"{by} gives a graph that is wrong: {error}") from error


def check_graph(graph: Graph, weak: bool = True) -> None:
    """Raise unless every variable is assigned once, before its use, and every type is correct.

    ``weak``: whether weak and strong types are different types.

    Raises
    ------
    GraphTypeError
        The message names the invalid equation.
    """
    defined: set[Atom] = set()
    _define(graph.inputs, defined, "the inputs")
    for eqn in graph.eqns:
        try:
            _check_eqn(eqn, defined, weak)
        except GraphTypeError as error:
            raise GraphTypeError(f"{error}, in {eqn!r}") from error.__cause__
    _use(graph.outputs, defined)
    graph.is_checked = True


def _check_eqn(eqn: Eqn, defined: set[Atom], weak: bool) -> None:
    _use(eqn.inputs, defined)
    for inner in inner_graphs(eqn):
        # a graph is often the parameter of several equations, so each graph is checked once
        if not inner.is_checked:
            check_graph(inner, weak)
    avals = _results(eqn)
    if len(avals) != len(eqn.outputs):
        raise GraphTypeError(f"{len(avals)} results, but {len(eqn.outputs)} names")
    for aval, var in zip(avals, eqn.outputs, strict=True):
        if not (aval == var.aval if weak else aval.same_array_type(var.aval)):
            raise GraphTypeError(f"{var} stands for a value of type {aval}")
    _define(eqn.outputs, defined, "its results")


def _define(variables: tuple[Var, ...], defined: set[Atom], where: str) -> None:
    for var in variables:
        if not isinstance(var, Var):
            raise GraphTypeError(f"{var} is no variable, among {where}")
        if var in defined:
            raise GraphTypeError(f"{var} is assigned twice, the second time among {where}")
        defined.add(var)


def _use(atoms: tuple[Atom, ...], defined: set[Atom]) -> None:
    for atom in atoms:
        if isinstance(atom, Literal):
            _check_literal(atom)
        elif atom not in defined:
            raise GraphTypeError(f"{atom} is used before it is assigned")


def _check_literal(literal: Literal) -> None:
    value, aval = literal.value, literal.aval
    if not isinstance(value, np.generic) or value.dtype != aval.dtype or aval.shape != ():
        raise GraphTypeError(f"the literal {literal!r} is a {type(value).__name__}")


def _results(eqn: Eqn) -> tuple[Aval, ...]:
    """The types that the primitive infers from the operands and parameters."""
    avals = tuple([x.aval for x in eqn.inputs])
    params = eqn.primitive.keyed(eqn.params)
    try:
        hash(params)
    except TypeError as error:
        raise GraphTypeError(f"a parameter has no hash ({error})") from error
    # not memoised: equal graphs may be different objects, and the results refer to these
    infer = _infer if eqn.primitive.higher_order else _infer_once
    try:
        return infer(eqn.primitive, avals, params)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise GraphTypeError(f"{eqn.primitive.name} does not take this ({error})") from error


def _infer(
    primitive: Primitive, avals: tuple[Aval, ...], params: tuple[tuple[str, Any], ...]
) -> tuple[Aval, ...]:
    return primitive.results(avals, dict(params))


_infer_once = cached(16384)(_infer)


def _graphs_in(made: Any) -> Iterator[Graph]:
    if isinstance(made, Graph):
        yield made
    elif isinstance(made, tuple):
        for each in made:
            yield from _graphs_in(each)
