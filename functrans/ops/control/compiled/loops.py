"""Loops and branches with inner graphs, as native loops and branches.

The inner graph is lowered as if it were a program of its own, on buffers that stand for its
inputs and outputs. Then these are put where they belong: a step's slice of a stacked array, or the
carry. A carry that is used element by element, at constant indices, is held in locals (registers);
any other one has two places in memory, of which a step reads one and writes the other.

Many loops side by side (a scan under vmap) whose steps do not mix them change places with the loop
over the steps: each then runs through all its steps with its carry in registers, many of them in
the lanes of vectors, and threads share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from functrans.ir.graph import Eqn, Graph
from functrans.loop.nodes import INDEX, index
from functrans.loop.relocation import Position, Relocation, constant_positions
from functrans.loop.scalar import Scalar, const, eq, postorder
from functrans.loop.simplify import Simplifier, from_terms
from functrans.loop.statements import (
    Assign,
    Buffer,
    Call,
    For,
    If,
    Let,
    Statement,
    Store,
    While,
    buffer,
    load,
    local,
)
from functrans.loop.walk import expressions, walk

CONTROL = frozenset({"scan", "counted_scan", "while_loop", "cond"})

MOST_LOCALS = 64
"""So many elements of a carry at most are held in locals."""

ZERO = const(0, INDEX)
ONE = const(1, INDEX)


@dataclass(frozen=True)
class Inner:
    """A lowered inner graph: its statements, on buffers for its inputs and outputs."""

    statements: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    work: int


@dataclass(frozen=True)
class Lowered:
    """The statements of an equation with inner graphs."""

    statements: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]
    work: int


Lower = Callable[[Graph], Inner]


def is_control(eqn: Eqn) -> bool:
    """Whether an equation is a loop or a branch that can be compiled."""
    return eqn.primitive.name in CONTROL


def inner_graphs(eqn: Eqn) -> tuple[Graph, ...]:
    """The graphs that an equation's compiled form is made of."""
    params = eqn.params
    return (
        tuple(params["branches"])
        if "branches" in params
        else tuple(params[name] for name in ("cond", "body") if name in params)
    )


def has_fixed_sizes(eqn: Eqn) -> bool:
    """Whether no operand or result has a size that is known only when the program has run."""
    atoms = (*eqn.inputs, *eqn.outputs)
    return all(extent >= 0 for atom in atoms for extent in atom.aval.shape) and not (
        # the error that too many steps are must come from NumPy's evaluation
        eqn.params.get("max_steps") is not None
    )


def lower_control(
    eqn: Eqn, operands: Sequence[Buffer], targets: Sequence[Buffer], lower: Lower
) -> Lowered:
    """The statements that compute an equation's results into buffers."""
    name = eqn.primitive.name
    if name == "cond":
        return _branches(eqn, operands, targets, lower)
    return _Loop(eqn, operands, targets, lower, Simplifier()).run()


# -- loops -----------------------------------------------------------------------------------------


class _Loop:
    """A scan or a while loop."""

    def __init__(
        self,
        eqn: Eqn,
        operands: Sequence[Buffer],
        targets: Sequence[Buffer],
        lower: Lower,
        simplify: Simplifier,
    ) -> None:
        params = eqn.params
        self.eqn = eqn
        self.lower = lower
        self.simplify = simplify
        self.counted = eqn.primitive.name == "counted_scan"
        self.body = lower(params["body"])
        n_consts, n_carry = params["n_consts"], params["n_carry"]
        first = int(self.counted)
        self.steps_given = operands[:first]
        self.consts = operands[first : first + n_consts]
        self.init = operands[first + n_consts : first + n_consts + n_carry]
        self.xs = operands[first + n_consts + n_carry :]
        self.results = targets[:n_carry]
        self.targets = targets
        self.n_consts, self.n_carry = n_consts, n_carry
        self.counter = index("t", params.get("length"))
        self.before: list[Statement] = []
        self.after: list[Statement] = []
        self.current: dict[int, dict[Position, Scalar]] = {}
        self.places: dict[int, Buffer] = {}

    def run(self) -> Lowered:
        if self.eqn.primitive.name == "while_loop":
            statements, scratch, work = self._while()
        else:
            statements, scratch, work = self._scan()
        return Lowered((*self.before, *statements, *self.after), scratch, work)

    def _scan(self) -> tuple[tuple[Statement, ...], tuple[Buffer, ...], int]:
        params = self.eqn.params
        length: int = params["length"]
        steps: Scalar = const(length, INDEX)
        if self.counted:
            steps = local(INDEX, "steps")
            self.before.append(Let((steps,), (load(self.steps_given[0], ()),)))
        lanes = None if self.counted else self._side_by_side()
        if lanes is not None:
            return self._interchanged(lanes), self.body.scratch, length * max(self.body.work, 1)
        self._hold_carry([self.body])
        parity = Scalar("and", (self.counter, ONE), INDEX)
        body = self._step(self.body, parity, self._row(steps), self.targets[self.n_carry :])
        self._store_carry(Scalar("and", (steps, ONE), INDEX))
        loop = For(self.counter, ZERO, steps, body)
        return (loop,), self.body.scratch, length * max(self.body.work, 1)

    def _row(self, steps: Scalar) -> Scalar:
        """Which elements of the stacked arrays a step is about."""
        if not self.eqn.params["reverse"]:
            return self.counter
        last = Scalar("sub", (steps, ONE), INDEX)
        return self.simplify(Scalar("sub", (last, self.counter), INDEX))

    def _side_by_side(self) -> For | None:
        """The one loop that the body is, if its iterations keep to their own part of the carry."""
        if len(self.body.statements) != 1 or self.n_carry == 0:
            return None
        (loop,) = self.body.statements
        if not isinstance(loop, For) or any(
            isinstance(each, (For, If, While, Call)) for each in walk(loop.body)
        ):
            return None
        carried = self.body.inputs[self.n_consts :][: self.n_carry]
        made = self.body.outputs[: self.n_carry]
        for start, before, after in zip(self.init, carried, made, strict=True):
            used = _positions_of(loop.body, before) | _positions_of(loop.body, after)
            axes = {at.index(loop.index) for at in used if loop.index in at}
            if len(axes) != 1 or _size(start) // loop.index.attribute[2] > MOST_LOCALS:
                return None
            (axis,) = axes
            if any(
                (i is loop.index) != (number == axis) or (number != axis and i.op != "const")
                for at in used
                for number, i in enumerate(at)
            ):
                return None
        return loop

    def _interchanged(self, loop: For) -> tuple[Statement, ...]:
        """The loop over lanes with the loop over steps inside."""
        length = const(self.eqn.params["length"], INDEX)
        relocation = Relocation(self.simplify)
        for own, const_ in zip(self.body.inputs, self.consts, strict=False):
            relocation.moved[own] = const_, ()
        row = self._row(length)
        for own, stack in zip(
            self.body.inputs[self.n_consts + self.n_carry :], self.xs, strict=True
        ):
            relocation.moved[own] = stack, (row,)
        for own, stack in zip(
            self.body.outputs[self.n_carry :], self.targets[self.n_carry :], strict=True
        ):
            relocation.moved[own] = stack, (row,)
        first: list[Statement] = []
        last: list[Statement] = []
        for number, (start, result) in enumerate(zip(self.init, self.results, strict=True)):
            before = self.body.inputs[self.n_consts + number]
            after = self.body.outputs[number]
            used = _positions_of(loop.body, after)
            axis = next(iter(used)).index(loop.index)
            positions = [
                (*at[:axis], loop.index, *at[axis + 1 :]) for at in _positions(start, axis)
            ]
            names = tuple(local(start.dtype, "carry") for _ in positions)
            first.append(Let(names, tuple(load(start, at) for at in positions)))
            last += [Store(result, at, x) for at, x in zip(positions, names, strict=True)]
            self.current[number] = dict(zip(positions, names, strict=True))
            relocation.held[before] = self.current[number]
            relocation.made[after] = {}
        steps = (*relocation.statements(loop.body), self._next_carry(relocation))
        inner = For(self.counter, ZERO, length, steps)
        return (replace(loop, body=(*first, inner, *last), parallel=True, whole=False),)

    def _next_carry(self, relocation: Relocation) -> Assign:
        """The carry that is held in locals becomes what the step has made."""
        old: list[Scalar] = []
        new: list[Scalar] = []
        for number, names in self.current.items():
            made = relocation.made[self.body.outputs[number]]
            old += names.values()
            new += [made[at] for at in names]
        return Assign(tuple(old), tuple(new))

    def _while(self) -> tuple[tuple[Statement, ...], tuple[Buffer, ...], int]:
        test = self.lower(self.eqn.params["cond"])
        steps = local(INDEX, "steps")
        self.before.append(Let((steps,), (ZERO,)))
        self._hold_carry([self.body, test])
        parity = Scalar("and", (steps, ONE), INDEX)
        ask = self._relocation(test, parity)
        (answer,) = test.outputs
        ask.made[answer] = {}
        prepare = ask.statements(test.statements)
        condition = ask.made[answer][()]
        body = self._step(self.body, parity, steps, self.targets[self.n_carry + 1 :])
        count = Assign((steps,), (from_terms({steps: 1}, 1),))
        self._store_carry(parity)
        self.after.append(Store(self.targets[self.n_carry], (), steps))
        loop = While(prepare, condition, (*body, count))
        return (loop,), (*self.body.scratch, *test.scratch), 1000 * max(self.body.work, 1)

    def _hold_carry(self, users: Sequence[Inner]) -> None:
        """Decide where the carry lives, and put the first one there."""
        for number, (start, result) in enumerate(zip(self.init, self.results, strict=True)):
            in_locals = _size(start) <= MOST_LOCALS
            for user in users:
                own = {user.inputs[self.n_consts + number]}
                if user is self.body:
                    own.add(user.outputs[number])
                in_locals = in_locals and constant_positions(user.statements, own) == own
            if in_locals:
                positions = _positions(start)
                names = tuple(local(start.dtype, "carry") for _ in positions)
                self.before.append(Let(names, tuple(load(start, at) for at in positions)))
                self.current[number] = dict(zip(positions, names, strict=True))
            else:
                both = buffer(f"{result.name}_carry", start.dtype, (2, *start.shape))
                self.places[number] = both
                self.before += _copy(start, (), both, (ZERO,))

    def _store_carry(self, parity: Scalar) -> None:
        """Store the last carry as the result."""
        for number, result in enumerate(self.results):
            if number in self.current:
                self.after += [Store(result, at, x) for at, x in self.current[number].items()]
            else:
                self.after += _copy(self.places[number], (parity,), result, ())

    def _relocation(self, inner: Inner, parity: Scalar) -> Relocation:
        """The inputs of an inner graph that takes the consts and the carry."""
        relocation = Relocation(self.simplify)
        for own, const_ in zip(inner.inputs, self.consts, strict=False):
            relocation.moved[own] = const_, ()
        for number in range(self.n_carry):
            own = inner.inputs[self.n_consts + number]
            if number in self.current:
                relocation.held[own] = self.current[number]
            else:
                relocation.moved[own] = self.places[number], (parity,)
        return relocation

    def _step(
        self, inner: Inner, parity: Scalar, row: Scalar, ys: Sequence[Buffer]
    ) -> tuple[Statement, ...]:
        """One step: the body on the carry and a row of xs gives the next carry and a row of ys."""
        relocation = self._relocation(inner, parity)
        for own, stack in zip(inner.inputs[self.n_consts + self.n_carry :], self.xs, strict=True):
            relocation.moved[own] = stack, (row,)
        other = Scalar("sub", (ONE, parity), INDEX)
        for number, made in enumerate(inner.outputs[: self.n_carry]):
            if number in self.current:
                relocation.made[made] = {}
            else:
                relocation.moved[made] = self.places[number], (other,)
        for made, stack in zip(inner.outputs[self.n_carry :], ys, strict=True):
            relocation.moved[made] = stack, (row,)
        statements = relocation.statements(inner.statements)
        return (*statements, self._next_carry(relocation)) if self.current else statements


def _size(one: Buffer) -> int:
    return prod(int(extent.attribute) for extent in one.shape)


def _positions(one: Buffer, but: int | None = None) -> list[Position]:
    """Every index of an array; of one axis only the first."""
    ranges = [
        range(1 if axis == but else int(extent.attribute)) for axis, extent in enumerate(one.shape)
    ]
    return [tuple(const(i, INDEX) for i in position) for position in product(*ranges)]


def _positions_of(statements: Sequence[Statement], one: Buffer) -> set[Position]:
    """Where statements read or write a buffer."""
    found: set[Position] = set()
    for statement in walk(statements):
        for node in postorder(expressions(statement)):
            if node.op == "load" and node.attribute is one:
                found.add(node.args)
        if isinstance(statement, Store) and statement.target is one:
            found.add(statement.indices)
    return found


def _copy(
    source: Buffer, source_at: Position, target: Buffer, target_at: Position
) -> list[Statement]:
    """Loops that copy an array between places in buffers; the places are given by first indices."""
    shape = source.shape[len(source_at) :]
    if any(int(extent.attribute) == 0 for extent in shape):
        return []
    loops = tuple(index("c", int(extent.attribute)) for extent in shape)
    body: Statement = Store(target, (*target_at, *loops), load(source, (*source_at, *loops)))
    for loop, extent in zip(reversed(loops), reversed(shape), strict=True):
        body = For(loop, ZERO, extent, (body,))
    return [body]


# -- branches --------------------------------------------------------------------------------------


def _branches(
    eqn: Eqn, operands: Sequence[Buffer], targets: Sequence[Buffer], lower: Lower
) -> Lowered:
    """The branch that is picked, computing into the targets."""
    picked, *given = operands
    simplify = Simplifier()
    arms: list[tuple[Statement, ...]] = []
    scratch: list[Buffer] = []
    work = 0
    for branch in eqn.params["branches"]:
        inner = lower(branch)
        relocation = Relocation(simplify)
        for own, operand in zip(inner.inputs, given, strict=True):
            relocation.moved[own] = operand, ()
        for own, target in zip(inner.outputs, targets, strict=True):
            relocation.moved[own] = target, ()
        arms.append(relocation.statements(inner.statements))
        scratch += inner.scratch
        work = max(work, inner.work)
    number = load(picked, ())
    if picked.dtype.kind == "b":
        statement = If(number, arms[1], arms[0])
        return Lowered((statement,), tuple(scratch), work)
    chosen = local(INDEX, "branch")
    last = const(len(arms) - 1, INDEX)
    clipped = Scalar("min", (Scalar("max", (number, ZERO), INDEX), last), INDEX)
    body = arms[-1]
    for i in reversed(range(len(arms) - 1)):
        body = (If(eq(chosen, i), arms[i], body),)
    return Lowered((Let((chosen,), (clipped,)), *body), tuple(scratch), work)
