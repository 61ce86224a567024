"""Outlined scalar functions: many operations that remain one node until code is emitted.

A sine is sixty operations and as many more for huge arguments. What decides about loops and memory
need not see them: an elementwise primitive of many operations is pulled as one ``apply`` node, and
the printers put its operations in. Two functions of the same operands (sine and cosine) still share
what they have in common, since equal nodes are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functrans.caches import cached, cached_property
from functrans.ir.primitive import Primitive
from functrans.loop.contraction import contracted
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Kernel
from functrans.loop.walk import scalars

FEWEST = 12
"""Operations that are worth being a function."""

RARE = 24
"""This many operations that are rarely needed are put into a function of their own."""

MANY = 8
"""With more copies of a function than this, a kernel calls it: that is not slower, and the compiler
takes its time for each copy."""

MANY_SHARED = 32
"""The same for functions that share operations with others, as a sine does with a cosine of the
same number: with more copies, they would not stay in the processor's cache of instructions."""


@dataclass(frozen=True, eq=False)
class Function:
    """A result as an expression of parameters.

    Parameters
    ----------
    parameters : tuple of Scalar
    result : Scalar
        Its leaves are parameters and constants.
    name : str
        Only for printing.
    """

    parameters: tuple[Scalar, ...]
    result: Scalar
    name: str = "rare"

    @cached_property
    def nodes(self) -> list[Scalar]:
        return postorder([self.result])

    @cached_property
    def node_count(self) -> int:
        """The nodes, those of functions inside included; parameters are not counted."""
        return node_count(self.nodes) - len(self.parameters)

    @cached_property
    def widest(self) -> int:
        """The bytes of the widest number that is usually computed with, but for places in tables.

        What is rarely needed may take several registers.
        """
        return max((x.dtype.itemsize for x in self.nodes if x.dtype != INDEX), default=1)

    def __call__(self, args: tuple[Scalar, ...]) -> Scalar:
        """The function of some operands, as one node."""
        return Scalar("apply", args, self.result.dtype, self)

    def at(self, args: Sequence[Scalar]) -> Scalar:
        """The operations of the function of some operands."""
        done: dict[Scalar, Scalar] = dict(zip(self.parameters, args, strict=True))
        return rebuilt(self.nodes, done)[self.result]


def parameter(number: int, dtype: np.dtype[Any]) -> Scalar:
    """The parameter for an operand of a function."""
    return Scalar("parameter", (), dtype, number)


def rebuilt(nodes: Iterable[Scalar], done: dict[Scalar, Scalar]) -> dict[Scalar, Scalar]:
    """Enters into `done` what becomes of nodes, operands first, where it says what some become."""
    for node in nodes:
        if node not in done:
            args = tuple([done[arg] for arg in node.args])
            same = args == node.args
            done[node] = node if same else Scalar(node.op, args, node.dtype, node.attribute)
    return done


def node_count(nodes: Iterable[Scalar]) -> int:
    """How many nodes there are, with what is inside of functions."""
    return sum(node.attribute.node_count if node.op == "apply" else 1 for node in nodes)


def often(kernel: Kernel) -> set[Function]:
    """The functions that a kernel has many of."""
    applied = [node for node in scalars(kernel.body) if node.op == "apply"]
    of_operands = Counter(node.args for node in applied)
    counts = Counter(node.attribute for node in applied)
    alone = Counter(node.attribute for node in applied if of_operands[node.args] == 1)
    return {
        function
        for function, count in counts.items()
        if count > MANY_SHARED or alone[function] > MANY
    }


def expanded(expressions: Sequence[Scalar], done: dict[Scalar, Scalar]) -> list[Scalar]:
    """The expressions with the operations of all functions in them; `done` remembers them."""
    for node in postorder(expressions, known=done):
        args = tuple([done[arg] for arg in node.args])
        if node.op == "apply":
            (result,) = expanded([node.attribute.at(args)], done)
        else:
            same = args == node.args
            result = node if same else Scalar(node.op, args, node.dtype, node.attribute)
        done[node] = done[result] = result
    return [done[expression] for expression in expressions]


@cached(4096)
def function_of(
    primitive: Primitive, dtypes: tuple[np.dtype[Any], ...], params: tuple[tuple[str, Any], ...]
) -> Function | None:
    """The function that an elementwise primitive computes, if it takes floats and is long."""
    assert primitive.scalar is not None
    if primitive.several or any(dtype.kind != "f" for dtype in dtypes):
        return None
    parameters = tuple(parameter(i, dtype) for i, dtype in enumerate(dtypes))
    result = closed(primitive.scalar(*parameters, **dict(params)))
    if result.dtype.kind != "f" or len(postorder([result])) < FEWEST:
        return None
    return Function(parameters, _outline_rare(result), primitive.name)


def closed(result: Scalar) -> Scalar:
    """An expression of parameters alone, as a function has it."""
    simplify = Simplifier()
    return simplify(contracted(simplify(result)))


def _outline_rare(result: Scalar) -> Scalar:
    """The expression with what is rarely needed outlined: as functions of what is known by then."""
    done: dict[Scalar, Scalar] = {}
    for node in _common_nodes(result):
        args = [done.get(arg, arg) for arg in node.args]
        if node.op == "unlikely":
            args[1] = _outlined(node, done)
        same = tuple(args) == node.args
        done[node] = node if same else Scalar(node.op, tuple(args), node.dtype, node.attribute)
    return done[result]


def _common_nodes(result: Scalar) -> list[Scalar]:
    """The nodes that are not only for what is rarely needed, operands first."""
    known: set[Scalar] = set()
    found: list[Scalar] = []
    stack = [result]
    while stack:
        node = stack[-1]
        args = (node.args[0], node.args[2]) if node.op == "unlikely" else node.args
        missing = [arg for arg in reversed(args) if arg not in known]
        if node in known or not missing:
            stack.pop()
            if node not in known:
                known.add(node)
                found.append(node)
        stack += missing
    return found


def _outlined(unlikely: Scalar, done: dict[Scalar, Scalar]) -> Scalar:
    """The rare value of a choice, as a function if it is long, of what has been rewritten."""
    condition, rare, common = unlikely.args
    known = {node for node in postorder([condition, common]) if node.op != "const"}
    body = postorder([rare], known=known)
    if rare in known or len(body) < RARE:
        return rare
    leaves = {
        arg: None
        for node in body
        for arg in (*node.args, node)
        if arg in known or arg.op == "parameter"
    }
    given = tuple(leaves)
    parameters = tuple(parameter(i, node.dtype) for i, node in enumerate(given))
    inside = rebuilt(body, dict(zip(given, parameters, strict=True)))
    return Function(parameters, inside[rare])(tuple([done.get(arg, arg) for arg in given]))
