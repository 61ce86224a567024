"""Loops and branches with inner graphs, as native loops and branches.

The inner graph is lowered as if it were a program of its own, on buffers that stand for its
inputs and outputs. Then these are put where they belong: a step's slice of a stacked array, or the
carry. A carry that is used element by element, at constant indices, is held in locals (registers);
any other one has two places in memory, of which a step reads one and writes the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from functrans.ir.graph import Eqn, Graph
from functrans.ir.nodes import INDEX, index
from functrans.ir.scalar import Scalar, const, eq
from functrans.lower.loops import (
    Assign,
    Buffer,
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
from functrans.lower.relocate import Position, Relocation, constant_positions
from functrans.lower.simplify import Simplifier, from_terms

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
        self._hold_carry([self.body])
        row: Scalar = self.counter
        if params["reverse"]:
            row = Scalar("sub", (Scalar("sub", (steps, ONE), INDEX), self.counter), INDEX)
            row = self.simplify(row)
        parity = Scalar("and", (self.counter, ONE), INDEX)
        body = self._step(self.body, parity, row, self.targets[self.n_carry :])
        self._store_carry(Scalar("and", (steps, ONE), INDEX))
        loop = For(self.counter, ZERO, steps, body)
        return (loop,), self.body.scratch, length * max(self.body.work, 1)

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
        old: list[Scalar] = []
        new: list[Scalar] = []
        for number, names in self.current.items():
            made_now = relocation.made[inner.outputs[number]]
            old += names.values()
            new += [made_now[at] for at in names]
        return (*statements, Assign(tuple(old), tuple(new))) if old else statements


def _size(one: Buffer) -> int:
    return prod(int(extent.attribute) for extent in one.shape)


def _positions(one: Buffer) -> list[Position]:
    ranges = [range(int(extent.attribute)) for extent in one.shape]
    return [tuple(const(i, INDEX) for i in position) for position in product(*ranges)]


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
