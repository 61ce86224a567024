"""Outlined scalar functions: many operations that remain one node until code is emitted.

A sine takes sixty operations, and as many more for huge arguments. Decisions about loops and memory
do not depend on them: an elementwise primitive of many operations is pulled as a single ``apply``
node, which the printers expand. Functions of the same operand (sine and cosine) still share common
operations, since equal nodes are one object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
from functrans.records import dataclass

FEWEST = 12
"""The fewest operations that are outlined as a function."""

RARE = 24
"""The fewest rarely needed operations that become a function of their own."""

MANY = 8
"""If a kernel has more copies of a function, it calls it instead: that is not slower, and
compiling each copy takes time."""

MANY_SHARED = 32
"""The same for functions that share operations, like the sine and cosine of one operand: more
copies would exceed the instruction cache."""


@dataclass(frozen=True, eq=False)
class Function:
    """A result as an expression of parameters."""

    parameters: tuple[Scalar, ...]
    result: Scalar  # its leaves are parameters and constants
    name: str = "rare"  # only for printing
    # the instruction that does the same on some machines (`functrans.emit.llvm.scalar`)
    instruction: str = ""
    # the same result by other operations, of which vectors of a CPU have instructions
    in_lanes: Scalar | None = None

    @cached_property
    def nodes(self) -> list[Scalar]:
        return postorder([self.result])

    @cached_property
    def node_count(self) -> int:
        """The number of nodes, including those of functions inside; parameters are not counted."""
        return node_count(self.nodes) - len(self.parameters)

    @cached_property
    def widest(self) -> int:
        """The item size of the widest dtype of its operations, without table indices.

        Rarely needed operations are not included: they may take several registers.
        """
        return max((x.dtype.itemsize for x in self.nodes if x.dtype != INDEX), default=1)

    def __call__(self, args: tuple[Scalar, ...]) -> Scalar:
        """The application of the function to operands, as one node."""
        return Scalar("apply", args, self.result.dtype, self)

    def at(self, args: Sequence[Scalar], in_lanes: bool = False) -> Scalar:
        """The operations of the function for given operands, in a loop with lanes or elsewhere."""
        done: dict[Scalar, Scalar] = dict(zip(self.parameters, args, strict=True))
        if in_lanes and self.in_lanes is not None:
            return rebuilt(postorder([self.in_lanes]), done)[self.in_lanes]
        return rebuilt(self.nodes, done)[self.result]


def parameter(number: int, dtype: np.dtype[Any]) -> Scalar:
    """The parameter that stands for an operand of a function."""
    return Scalar("parameter", (), dtype, number)


def rebuilt(nodes: Iterable[Scalar], done: dict[Scalar, Scalar]) -> dict[Scalar, Scalar]:
    """Enters each node's replacement into `done`, which contains those of some nodes."""
    for node in nodes:
        if node not in done:
            args = tuple([done[arg] for arg in node.args])
            same = args == node.args
            done[node] = node if same else Scalar(node.op, args, node.dtype, node.attribute)
    return done


def node_count(nodes: Iterable[Scalar]) -> int:
    """The number of nodes, including those inside functions."""
    return sum(node.attribute.node_count if node.op == "apply" else 1 for node in nodes)


def often(kernel: Kernel) -> set[Function]:
    """The functions of which a kernel has many copies."""
    applied = [
        node
        for node in scalars(kernel.body)
        if node.op == "apply" and not node.attribute.instruction and node.attribute.in_lanes is None
    ]
    of_operands = Counter(node.args for node in applied)
    counts = Counter(node.attribute for node in applied)
    alone = Counter(node.attribute for node in applied if of_operands[node.args] == 1)
    return {
        function
        for function, count in counts.items()
        if count > MANY_SHARED or alone[function] > MANY
    }


def expanded(expressions: Sequence[Scalar], done: dict[Scalar, Scalar]) -> list[Scalar]:
    """The expressions with all functions expanded; `done` remembers the nodes' replacements."""
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
    """The expression, with rarely needed operations outlined as functions of known values."""
    done: dict[Scalar, Scalar] = {}
    for node in _common_nodes(result):
        args = [done.get(arg, arg) for arg in node.args]
        if node.op == "unlikely":
            args[1] = _outlined(node, done)
        same = tuple(args) == node.args
        done[node] = node if same else Scalar(node.op, tuple(args), node.dtype, node.attribute)
    return done[result]


def _common_nodes(result: Scalar) -> list[Scalar]:
    """The nodes that are not only rarely needed, operands first."""
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
    """The rare value of a choice, outlined as a function if it is long."""
    condition, rare, common = unlikely.args
    known = {node for node in postorder([condition, common]) if node.op != "const"}
    body = postorder([rare], known=known)
    if rare in known or node_count(body) < RARE:
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
