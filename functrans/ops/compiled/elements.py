"""Pull-style evaluation: elements of a graph's values as scalar expressions.

An element of a value is computed from elements of its operands: elementwise operations read them at
the same index, data movement at another, reductions in a loop over indices (a ``fold``). The
recursion ends at values in memory, which are loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from functrans.caches import cached
from functrans.ir.graph import Atom, Eqn, Literal, Var
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, Shape
from functrans.loop.functions import function_of
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.operations import operations
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, load
from functrans.records import NamedTuple

Index = tuple[Scalar, ...]

SLOW = ("div", "sqrt")
"""Operations that take many times as long as an addition."""


def broadcast_index(position: Index, shape: Shape) -> Index:
    """The index at which an elementwise operation reads an operand of the given shape."""
    own = position[len(position) - len(shape) :]
    return tuple(ZERO if extent == 1 else i for i, extent in zip(own, shape, strict=True))


class Puller:
    """Builds scalar expressions of elements, memoised by value and index."""

    def __init__(
        self,
        producers: Mapping[Any, Eqn],  # the equation of each variable that is not in memory
        buffers: dict[Var, Buffer],  # the variables that are in memory
    ) -> None:
        self.producers = producers
        self.buffers = buffers
        self.simplify = Simplifier()
        self._elements: dict[Atom, dict[Index, Scalar]] = {}

    def element(self, atom: Atom, position: Index) -> Scalar:
        """The element of a value at a simplified index."""
        # iterative: a chain of elementwise operations may exceed Python's recursion limit
        stack = [(atom, position)]
        while stack:
            one, here = stack[-1]
            if here in self._elements.setdefault(one, {}):
                stack.pop()
                continue
            operands = self._operands(one, here)
            missing = [(x, at) for x, at in operands if at not in self._elements.get(x, ())]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._elements[one][here] = self.simplify(self._compute(one, here, operands))
        return self._elements[atom][position]

    def keep(self, var: Var, home: Buffer) -> None:
        """From now on load a variable from a buffer, and discard its memoised elements."""
        self.buffers[var] = home
        self._elements[var] = {}

    def _operands(self, atom: Atom, position: Index) -> list[tuple[Atom, Index]]:
        """The operands and indices that an elementwise operation reads; else nothing."""
        if isinstance(atom, Literal) or atom in self.buffers:
            return []
        eqn = self.producers[atom]
        if eqn.primitive.scalar is None:
            return []
        return [(x, broadcast_index(position, x.aval.shape)) for x in eqn.inputs]

    def _compute(self, atom: Atom, position: Index, operands: list[tuple[Atom, Index]]) -> Scalar:
        if isinstance(atom, Literal):
            return const(atom.value, atom.aval.dtype)
        if atom in self.buffers:
            return load(self.buffers[atom], position)
        eqn = self.producers[atom]
        if eqn.primitive.scalar is not None:
            numbers = [self._elements[x][at] for x, at in operands]
            dtypes = tuple([number.dtype for number in numbers])
            function = function_of(eqn.primitive, dtypes, eqn.primitive.keyed(eqn.params))
            if function is not None:
                return _result(function(tuple(numbers)), eqn, atom)
            return _result(eqn.primitive.scalar(*numbers, **eqn.params), eqn, atom)
        assert eqn.primitive.pull is not None

        def read(number: int, indices: Any) -> Scalar:
            return self.element(eqn.inputs[number], tuple(map(self.simplify, indices)))

        avals = [x.aval for x in eqn.inputs]
        return _result(eqn.primitive.pull(read, position, *avals, **eqn.params), eqn, atom)


def _result(value: Any, eqn: Eqn, var: Var) -> Scalar:
    """One of the results of an equation."""
    if eqn.primitive.several:
        value = value[eqn.outputs.index(var)]
    assert value.dtype == var.aval.dtype, (
        f"the compiled form of {eqn.primitive.name} gives {value.dtype}, not {var.aval.dtype}"
    )
    assert isinstance(value, Scalar)
    return value


class Pattern(NamedTuple):
    """The access pattern and cost of one element of a primitive's result."""

    cost: int  # the scalar operations of an element, or of one step of its folds
    folds: int  # the total number of steps of the folds; 1 without a fold
    reads: tuple[int, ...]  # the number of elements that it reads of each operand
    by_data: tuple[bool, ...]  # for each operand, whether its indices depend on data
    work: int  # the operations on data of an element, over all steps of its folds
    # whether it is a single operation that takes many times as long as an addition
    slow: bool = False
    # whether an element of the result depends on a whole row, along the last axis, of its only
    # operand
    folds_rows: bool = False
    # whether the call fails for some values, so that it must not be applied to other elements
    fails: bool = False
    # whether elements along the last axis are computed differently, as those of a join are
    branches: bool = False


def pattern(eqn: Eqn) -> Pattern:
    """The pattern of an equation's primitive, found by applying its rule to symbolic indices."""
    return _pattern(
        eqn.primitive,
        tuple(x.aval for x in eqn.inputs),
        eqn.primitive.keyed(eqn.params),
        len(eqn.outputs),
    )


@cached(4096)
def _pattern(primitive: Primitive, avals: tuple[Aval, ...], params: Any, results: int) -> Pattern:
    given = dict(params)
    shape = primitive.infer_all(avals, given)[0].shape
    position = tuple(index("i", n) for n in shape)
    reads: list[tuple[int, Index]] = []

    def read(number: int, indices: Any) -> Scalar:
        reads.append((number, tuple(indices)))
        return Scalar("probe", tuple(indices), avals[number].dtype, number)

    if primitive.scalar is not None:
        numbers = [Scalar("probe", (), x.dtype, i) for i, x in enumerate(avals)]
        value = primitive.scalar(*numbers, **given)
    else:
        assert primitive.pull is not None
        value = primitive.pull(read, position, *avals, **given)
    values = value if primitive.several else (value,)
    nodes = postorder(values)
    steps = 1
    for node in nodes:
        if node.op == "fold":
            for extent in node.args[1:]:
                steps *= int(extent.attribute) if extent.op == "const" else 1
    cost = sum(node.dtype != INDEX and bool(node.args) and node.op != "probe" for node in nodes)
    times = Counter(number for number, _ in reads)
    moving = {
        number
        for number, position in reads
        if any(node.op == "probe" for node in postorder(position))
    }
    counts = tuple(max(times[number], 1) for number in range(len(avals)))
    by_data = tuple(number in moving for number in range(len(avals)))
    slow = cost == 1 and any(node.op in SLOW for node in nodes)
    bound = {i for node in nodes if node.op == "fold" for i in node.attribute[1]}
    folds_rows = len(avals) == 1 and _folds_rows(
        avals[0].shape, [position for _, position in reads], bound
    )
    fails = any(node.op == "required" for node in nodes)
    branches = bool(shape) and branches_on(nodes, position[-1])
    work = operations(values)
    return Pattern(cost, steps, counts, by_data, work, slow, folds_rows, fails, branches)


def branches_on(nodes: Sequence[Scalar], index: Scalar) -> bool:
    """Whether an expression contains conditions, divisions or tables that depend on an index."""
    depends: set[Scalar] = set()
    for node in nodes:
        if node is index or not depends.isdisjoint(node.args):
            if node.op in ("guard", "eq", "ne", "lt", "le", "idiv", "irem", "lookup"):
                return True
            if node.dtype == INDEX and node.op != "load":
                depends.add(node)
    return False


def _folds_rows(shape: Shape, reads: Sequence[Index], bound: Set[Scalar]) -> bool:
    """Whether reads of an array cover its last axis, in a fold or element by element."""
    if not shape or not reads:
        return False
    last = {as_index(position[-1]) for position in reads}
    if len(last) == 1 and not bound.isdisjoint(last):
        return True
    return len(last) == shape[-1] and all(i.op == "const" for i in last)
