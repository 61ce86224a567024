"""Code generation for loops and branches with inner graphs, as native loops and branches.

The inner graph is lowered like a separate program, on buffers for its inputs and outputs. Then
these buffers are relocated: to a step's slice of a stacked array, or to the carry. A carry that is
accessed at constant indices is held in locals (registers); one of which a step changes a few
elements is updated in place, and so is one of whose old elements nobody reads any after they are
written; any other carry is double-buffered: a step reads one of two buffers and writes the other.

Loop interchange: if the steps of a scan do not mix the lanes of a batch (under vmap), the loop over
lanes becomes the outer one: each lane runs through all steps with its carry in registers, many in
vector lanes, and threads share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product

from functrans.ir.types import GROWS
from functrans.loop.distribution import Levels, in_levels, in_parts
from functrans.loop.failures import STEP_LIMIT
from functrans.loop.fusion import Joining
from functrans.loop.nodes import INDEX, ZERO, index, required
from functrans.loop.relocation import Relocation, constant_positions
from functrans.loop.scalar import BOOL, Scalar, const, eq, maximum, minimum, postorder
from functrans.loop.statements import (
    Assign,
    Buffer,
    Call,
    For,
    If,
    Let,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.statements import While as WhileLoop
from functrans.loop.substitution import Position
from functrans.loop.terms import from_terms
from functrans.loop.walk import passes_messages, scalars, stored, walk
from functrans.ops.compiled.emission import Emission, Inner
from functrans.ops.compiled.inlining import relocated
from functrans.ops.compiled.statements import nest
from functrans.ops.control.compiled import in_place
from functrans.ops.control.layout import Scan, cut
from functrans.ops.control.while_loop import While
from functrans.records import NamedTuple


class Carries(NamedTuple):
    """Thresholds for carries of compiled loops. Not measured, unless they say so."""

    most_locals: int = 64
    """The most elements of a carry that are held in locals."""
    least_reordered: int = 1 << 12
    """The fewest bytes of a carry that is updated in place although vectors cannot overlap then.
    Measured (LSTMs of 14 to 300 elements)."""
    longest_step: int = 1 << 20
    """The most operations of a step with locals: a longer one may become kernels, which need the
    carry in memory (`functrans.lower.kernel.distribution`)."""


class Apart(NamedTuple):
    """Scans over few lanes that are not interchanged: each step computes all vectors of lanes.

    After loop interchange, one vector of lanes after another runs through all steps, each of which
    waits for the previous one, and the last two vectors overlap. Here, the carry is in memory.
    Measured: all (functions of 8 to 33 elements).
    """

    longest: int = 31
    """The most lanes."""
    most_parts: int = 3
    """The most loops: one of full vectors, and one vector for each power of two in the rest."""
    least_work: int = 14
    """The fewest operations per lane for which this is profitable."""


ONE = const(1, INDEX)


def scan(at: Emission) -> None:
    """A scan, whose number of steps may be an operand."""
    _Loop(at, Scan.of(at.eqn)).scan()


def while_loop(at: Emission) -> None:
    """A loop that runs as long as a condition holds."""
    _Loop(at, While.of(at.eqn)).while_()


# -- loops -----------------------------------------------------------------------------------------


_MANY = 1000
"""The assumed number of steps of a loop, to estimate its work, if it is unknown."""


class _Loop:
    """A scan or a while loop."""

    def __init__(self, at: Emission, loop: Scan | While) -> None:
        self.at = at
        self.loop = loop
        self.simplify = at.simplify
        self.results = [at.result(number) for number in range(len(at.eqn.outputs))]
        self.carry_out, self.stacks = cut(self.results, loop.n_carry)
        body, self.updates = in_place.updates_in_place(
            loop.body,
            loop.body.inputs[loop.n_consts :][: loop.n_carry],
            at.target[Carries].most_locals + 1,
            1 if at.target.lanes_are_threads else None,
        )
        self.body = at.lower(body)
        self.own_consts, self.own_carry, self.own_xs = cut(
            self.body.inputs, loop.n_consts, loop.n_carry
        )
        numbers = loop.parts(range(len(at.eqn.inputs)))
        self.steps_given, self.consts, self.init = (
            [at.operand(number) for number in part] for part in numbers[:3]
        )
        self.next_carry, ys = cut(self.body.outputs, loop.n_carry)
        self.ys, self.written = cut(ys, len(loop.body.outputs) - loop.n_carry)
        length = at.eqn.params.get("length")
        self.counter = index("t", None if length == GROWS else length)
        self.computed: dict[Buffer, int] = {}
        """Elements of xs that are computed from the step's number, and their operands."""
        self.xs: dict[Buffer, Buffer] = {}
        for own, number in zip(self.own_xs, numbers[3], strict=True):
            if self._is_computed(own, number):
                self.computed[own] = number
            else:
                self.xs[own] = at.operand(number)
        self.before: list[Statement] = []
        self.after: list[Statement] = []
        self.in_locals: dict[int, dict[Position, Scalar]] = {}
        self.in_memory: dict[int, Buffer] = {}
        # the carries whose only buffer is that of the result
        self.in_result: set[int] = set(self.updates)

    def _call(
        self, loop: Sequence[Statement], inner: Sequence[Inner], uncounted: int,
        private: Sequence[Buffer] = (),
    ) -> None:  # fmt: skip
        rows = [row for each in inner for row in each.scratch]
        values = (self.next_carry[number] for number in self.updates)
        stack = (*rows, *private, *values, *self.written)
        self.at.call((*self.before, *loop, *self.after), stack=stack, uncounted=uncounted)

    def scan(self) -> None:
        assert isinstance(self.loop, Scan)
        expected = _MANY if self.loop.length == GROWS else self.loop.length
        is_known = not self.loop.counted and self.loop.length != GROWS
        uncounted = expected * (self.body.uncounted if is_known else self.body.work)
        steps: Scalar = const(self.loop.length, INDEX)
        if self.loop.counted:
            steps = local(INDEX, "steps")
            given = load(self.steps_given[0], ())
            if self.loop.length != GROWS:
                # the number of steps is an operand, which must not exceed the length of the stacks
                given = maximum(minimum(given, self.loop.length), 0)
            self.before.append(Let((steps,), (given,)))
        lanes = None if self.loop.counted else self._independent_lanes()
        if lanes is not None and not self._are_apart(lanes):
            self._call(self._interchanged(lanes), [self.body], uncounted)
            return
        self._distribute(independent=lanes is not None)
        if lanes is not None and self.body.statements == (lanes,):
            self.body = replace(self.body, statements=in_parts(lanes, self.simplify))
        self._allocate_carry([self.body])
        parity = Scalar("and", (self.counter, ONE), INDEX)
        body = self._step(self.body, parity, self._row(steps), self.stacks)
        self._store_carry(Scalar("and", (steps, ONE), INDEX))
        loop = For(self.counter, ZERO, steps, body)
        if not self.init and not self.loop.counted and not passes_messages(body):
            # steps without a carry are independent
            shared = {*self.body.scratch, *self.stacks}
            private = sorted(stored(body) - shared, key=lambda each: each.name)
            self._call((replace(loop, parallel=True),), [self.body], uncounted, private)
            return
        if self.loop.counted:
            self.after += [each for stack in self.stacks for each in self._cleared(stack, steps)]
        self._call((loop,), [self.body], uncounted)

    def _cleared(self, stack: Buffer, steps: Scalar) -> tuple[Statement, ...]:
        """Zeros in the rows of a padded stack after the last step."""
        length = self.loop.length
        if length == GROWS or 0 in stack.extents:
            return ()
        row = index("t", length)
        loops = tuple(index("c", extent) for extent in stack.extents[1:])
        zero: Statement = Store(stack, (row, *loops), const(0, stack.dtype))
        return self._shared((For(row, steps, const(length, INDEX), nest(loops, (zero,))),))

    def _is_computed(self, own: Buffer, number: int) -> bool:
        """Whether a step's element of xs is computed without memory, and not needed in memory."""
        if own.extents or any(
            isinstance(each, Call) and own in (*each.reads, *each.writes)
            for each in walk(self.body.statements)
        ):
            return False
        element = self.at.element(number, (self.counter,))
        return not any(node.op == "load" for node in postorder([element]))

    def _take(self, relocation: Relocation, row: Scalar) -> None:
        """Relocate the body's inputs to a step's elements of xs."""
        for own, stack in self.xs.items():
            relocation.moved[own] = stack, (row,)
        for own, number in self.computed.items():
            relocation.held[own] = {(): self.at.element(number, (row,))}

    def _row(self, steps: Scalar) -> Scalar:
        """The row of the stacked arrays that belongs to a step."""
        assert isinstance(self.loop, Scan)
        if not self.loop.reverse:
            return self.counter
        last = Scalar("sub", (steps, ONE), INDEX)
        return self.simplify(Scalar("sub", (last, self.counter), INDEX))

    def _independent_lanes(self) -> For | None:
        """The body's single loop, if its iterations access only their own part of the carry."""
        if len(self.body.statements) != 1 or not self.init or self.updates:
            return None
        (loop,) = self.body.statements
        if not isinstance(loop, For) or any(
            isinstance(each, (For, If, WhileLoop, Call)) for each in walk(loop.body)
        ):
            return None
        most = self.at.target[Carries].most_locals
        for start, before, after in zip(self.init, self.own_carry, self.next_carry, strict=True):
            used = _positions_of(loop.body, before) | _positions_of(loop.body, after)
            axes = {at.index(loop.index) for at in used if loop.index in at}
            if len(axes) != 1 or start.count // loop.index.attribute[2] > most:
                return None
            (axis,) = axes
            if any(
                (i is loop.index) != (number == axis) or (number != axis and i.op != "const")
                for at in used
                for number, i in enumerate(at)
            ):
                return None
        return loop

    def _are_apart(self, loop: For) -> bool:
        """Whether each step computes all vectors of lanes, none of which overlap."""
        if self.at.target.lanes_are_threads:
            return False
        limits = self.at.target[Apart]
        extent: int = loop.index.attribute[2]
        is_long_enough = self.body.work >= limits.least_work * extent
        if not is_long_enough or not 1 < loop.lanes < extent <= limits.longest:
            return False
        return 0 < (extent % loop.lanes).bit_count() < limits.most_parts

    def _distribute(self, independent: bool = False) -> None:
        """Fuse the vector loops of a step, and distribute them by levels of dependence."""
        if not self.at.target.lanes_are_threads:
            body, target = self.body, self.at.target
            before, given = stored(body.statements), {*body.inputs, *body.outputs}
            limits = target[Levels], target[Joining]
            levels = in_levels(body.statements, given, *limits, self.simplify, independent)
            stores = stored(levels)
            after = dict.fromkeys(x.target for x in walk(levels) if isinstance(x, Store))
            scratch = [each for each in body.scratch if each in stores or each not in before]
            scratch += [each for each in after if each not in before]
            self.body = replace(body, statements=tuple(levels), scratch=tuple(scratch))

    def _interchanged(self, loop: For) -> tuple[Statement, ...]:
        """The loop over lanes, with the loop over steps inside."""
        length = const(self.loop.length, INDEX)
        relocation = Relocation(self.simplify)
        for own, const_ in zip(self.own_consts, self.consts, strict=True):
            relocation.moved[own] = const_, ()
        row = self._row(length)
        self._take(relocation, row)
        for own, stack in zip(self.ys, self.stacks, strict=True):
            relocation.moved[own] = stack, (row,)
        first: list[Statement] = []
        last: list[Statement] = []
        for number, (start, result) in enumerate(zip(self.init, self.carry_out, strict=True)):
            before, after = self.own_carry[number], self.next_carry[number]
            used = _positions_of(loop.body, after)
            axis = next(iter(used)).index(loop.index)
            positions = [
                (*at[:axis], loop.index, *at[axis + 1 :]) for at in _positions(start, axis)
            ]
            names = tuple(local(start.dtype, "carry") for _ in positions)
            first.append(Let(names, tuple(load(start, at) for at in positions)))
            last += [Store(result, at, x) for at, x in zip(positions, names, strict=True)]
            self.in_locals[number] = dict(zip(positions, names, strict=True))
            relocation.held[before] = self.in_locals[number]
            relocation.made[after] = {}
        steps = (*relocation.statements(loop.body), self._next_carry(relocation))
        inner = For(self.counter, ZERO, length, steps)
        return (replace(loop, body=(*first, inner, *last), parallel=True, whole=False),)

    def _next_carry(self, relocation: Relocation) -> Assign:
        """Assign a step's results to the carry in locals."""
        old: list[Scalar] = []
        new: list[Scalar] = []
        for number, names in self.in_locals.items():
            made = relocation.made[self.next_carry[number]]
            old += names.values()
            new += [made[at] for at in names]
        return Assign(tuple(old), tuple(new))

    def while_(self) -> None:
        assert isinstance(self.loop, While)
        test = self.at.lower(self.loop.cond)
        self._distribute()
        steps = local(INDEX, "steps")
        self.before.append(Let((steps,), (ZERO,)))
        self._allocate_carry([self.body, test])
        parity = Scalar("and", (steps, ONE), INDEX)
        ask = self._relocation(test, parity)
        (answer,) = test.outputs
        ask.made[answer] = {}
        prepare = ask.statements(test.statements)
        condition = self._within_limit(ask.made[answer][()], steps)
        count_out, *stacks = self.stacks
        body = self._step(self.body, parity, steps, stacks)
        count = Assign((steps,), (from_terms({steps: 1}, 1),))
        self._store_carry(parity)
        self.after.append(Store(count_out, (), steps))
        if self.loop.max_steps is not None:
            self.after += [each for stack in stacks for each in self._cleared(stack, steps)]
        loop = WhileLoop(prepare, condition, (*body, count), self.loop.max_steps)
        self._call((loop,), [self.body, test], _MANY * self.body.work)

    def _within_limit(self, condition: Scalar, steps: Scalar) -> Scalar:
        """The condition of a loop that fails if it is still true at the step limit."""
        assert isinstance(self.loop, While)
        if self.loop.max_steps is None:
            return condition
        inside = steps < self.loop.max_steps
        ended = Scalar("eq", (condition, const(False, BOOL)), BOOL)
        going = Scalar("and", (condition, inside), BOOL)
        return required(Scalar("or", (inside, ended), BOOL), going, STEP_LIMIT)

    def _allocate_carry(self, users: Sequence[Inner]) -> None:
        """Allocate the carry in locals or memory, and initialise it."""
        limits, body = self.at.target[Carries], self.body
        longest = max(user.work for user in users)
        most = limits.most_locals if longest <= limits.longest_step else 0
        for number, (start, result) in enumerate(zip(self.init, self.carry_out, strict=True)):
            if number in self.updates:
                self.before += self._copy(start, (), result, ())
                continue
            in_locals = start.count <= most
            for user in users:
                own = {user.inputs[self.loop.n_consts + number]}
                if user is body:
                    own.add(user.outputs[number])
                in_locals = in_locals and constant_positions(user.statements, own) == own
            if in_locals:
                positions = _positions(start)
                names = tuple(local(start.dtype, "carry") for _ in positions)
                self.before.append(Let(names, tuple(load(start, at) for at in positions)))
                self.in_locals[number] = dict(zip(positions, names, strict=True))
            elif self._change_in_place(number):
                self.before += self._copy(start, (), result, ())
            else:
                both = buffer(f"{result.name}_carry", start.dtype, (2, *start.shape))
                self.in_memory[number] = both
                self.before += self._copy(start, (), both, (ZERO,))

    def _change_in_place(self, number: int) -> bool:
        """Let the body write the next carry to the memory of the carry, if it can."""
        before, after = self.own_carry[number], self.next_carry[number]
        if self.at.target.lanes_are_threads or self.body.outputs.count(after) > 1:
            return False
        least = self.at.target[Carries].least_reordered
        changed = in_place.in_one_buffer(self.body.statements, before, after, least)
        if changed is not None:
            self.body = replace(self.body, statements=changed)
            self.in_result.add(number)
        return changed is not None

    def _store_carry(self, parity: Scalar) -> None:
        """Store the final carry as the result."""
        for number, result in enumerate(self.carry_out):
            if number in self.in_locals:
                self.after += [Store(result, at, x) for at, x in self.in_locals[number].items()]
            elif number in self.in_memory:
                self.after += self._copy(self.in_memory[number], (parity,), result, ())

    def _copy(
        self, source: Buffer, source_at: Position, target: Buffer, target_at: Position
    ) -> tuple[Statement, ...]:
        """Loops that copy an array between subarrays of buffers, which leading indices select."""
        loops = tuple(index("c", extent) for extent in source.extents[len(source_at) :])
        value = load(source, (*source_at, *loops))
        return self._shared(nest(loops, (Store(target, (*target_at, *loops), value),)))

    def _shared(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Mark loops with independent iterations as parallel, for threads."""
        if not self.at.target.lanes_are_threads:
            return body
        lanes = self.at.target.lanes(1)
        return tuple(
            replace(each, body=self._shared(each.body), lanes=lanes)
            if isinstance(each, For)
            else each
            for each in body
        )

    def _relocation(self, inner: Inner, parity: Scalar) -> Relocation:
        """The relocation of the inputs of an inner graph that takes the consts and the carry."""
        relocation = Relocation(self.simplify)
        for own, const_ in zip(inner.inputs, self.consts, strict=False):
            relocation.moved[own] = const_, ()
        for number, own in enumerate(inner.inputs[self.loop.n_consts :][: self.loop.n_carry]):
            if number in self.in_locals:
                relocation.held[own] = self.in_locals[number]
            elif number in self.in_result:
                relocation.moved[own] = self.carry_out[number], ()
            else:
                relocation.moved[own] = self.in_memory[number], (parity,)
        return relocation

    def _step(
        self, inner: Inner, parity: Scalar, row: Scalar, ys: Sequence[Buffer]
    ) -> tuple[Statement, ...]:
        """One step: the body maps the carry and a row of xs to the next carry and a row of ys."""
        relocation = self._relocation(inner, parity)
        self._take(relocation, row)
        for own, stack in zip(self.ys, ys, strict=True):
            relocation.moved[own] = stack, (row,)
        other = Scalar("sub", (ONE, parity), INDEX)
        for number, made in enumerate(self.next_carry):
            if number in self.in_locals:
                relocation.made[made] = {}
            elif number in self.in_memory:
                relocation.moved[made] = self.in_memory[number], (other,)
            elif number not in self.updates:
                relocation.moved[made] = self.carry_out[number], ()
        statements = relocation.statements(inner.statements)
        if self.in_locals:
            statements = (*statements, self._next_carry(relocation))
        return (*statements, *self._updated())

    def _updated(self) -> tuple[Statement, ...]:
        """The in-place updates, after all reads of the old carry."""
        given = iter(self.written)
        statements: list[Statement] = []
        for number, chain in self.updates.items():
            for eqn in chain:
                first = [self.next_carry[number]] if eqn is chain[0] else []
                operands = [*first, *islice(given, len(eqn.inputs) - 1 - len(first))]
                statements += in_place.written(eqn, self.carry_out[number], operands, self.simplify)
        return tuple(statements)


def _positions(one: Buffer, but: int | None = None) -> list[Position]:
    """All positions of an array; only the first along one axis."""
    ranges = [range(1 if axis == but else n) for axis, n in enumerate(one.extents)]
    return [tuple(const(i, INDEX) for i in position) for position in product(*ranges)]


def _positions_of(statements: Sequence[Statement], one: Buffer) -> set[Position]:
    """The positions at which statements read or write a buffer."""
    found = {x.args for x in scalars(statements) if x.op == "load" and x.attribute is one}
    stores = (each for each in walk(statements) if isinstance(each, Store) and each.target is one)
    found.update(each.indices for each in stores)
    return found


# -- branches --------------------------------------------------------------------------------------


def cond(at: Emission) -> None:
    """The selected branch, which computes into the results."""
    picked, *given = [at.operand(number) for number in range(len(at.eqn.inputs))]
    results = [at.result(number) for number in range(len(at.eqn.outputs))]
    arms: list[tuple[Statement, ...]] = []
    scratch: list[Buffer] = []
    uncounted = 0
    for branch in at.eqn.params["branches"]:
        inner = at.lower(branch)
        arms.append(relocated(at, inner, given, results))
        scratch += inner.scratch
        uncounted = max(uncounted, inner.uncounted)
    at.call(_choice(load(picked, ()), arms), uncounted=uncounted, stack=scratch)


def _choice(number: Scalar, arms: Sequence[tuple[Statement, ...]]) -> tuple[Statement, ...]:
    """One of several lists of statements, selected by a bool or a clipped index."""
    if number.dtype == BOOL:
        return (If(number, arms[1], arms[0]),)
    chosen = local(INDEX, "branch")
    last = const(len(arms) - 1, INDEX)
    clipped = Scalar("min", (Scalar("max", (number, ZERO), INDEX), last), INDEX)
    body = arms[-1]
    for i in reversed(range(len(arms) - 1)):
        body = (If(eq(chosen, i), arms[i], body),)
    return (Let((chosen,), (clipped,)), *body)
