"""Reports on plans: the schedule in words (nests, stores, offsets), and a cost model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import (
    Assign,
    Await,
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Let,
    MatrixMultiply,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.loop.walk import expressions
from functrans.lower.plan import Plan, Step
from functrans.records import dataclass


@dataclass(frozen=True)
class NestCost:
    """Cost of one nest.

    Parameters
    ----------
    operations : int
        The number of operations on data, without those of library calls.
    bytes_read, bytes_written : int
        The sizes of the arrays in memory that it reads and writes.
    form : str
        For a matrix product with a kernel of our own: its extents, and those of its tiles.
    """

    operations: int
    bytes_read: int
    bytes_written: int
    form: str = ""


@dataclass(frozen=True)
class Cost:
    """Cost of a program: that of each nest, and the peak of the temporary memory in bytes."""

    nests: tuple[NestCost, ...]
    temporary_bytes: int


def cost(plans: Sequence[Plan]) -> Cost:
    """The total cost of several programs."""
    nests = [nest_cost(step) for plan in plans for step in plan.steps]
    return Cost(tuple(nests), max((plan.arena for plan in plans), default=0))


def nest_cost(step: Step) -> NestCost:
    """The cost of a step."""
    read, written = (sum(one.nbytes for one in buffers) for buffers in step.accessed())
    return NestCost(step_operations(step), read, written, step.form)


def step_operations(step: Step) -> int:
    """The operations of all iterations, estimated by the middle one; of one if unknown."""
    extents = [1 if turn.attribute[2] is None else int(turn.attribute[2]) for turn in step.turns]
    middle = (extent // 2 for extent in extents)
    return prod(extents) * operations_of(step.kernel.body, (*step.sizes, *middle))


def _turns(loop: Scalar) -> str:
    count = loop.attribute[2]
    return "turns until it is left" if count is None else f"{count} turns"


def outline(plan: Plan) -> str:
    """The nests of a plan, one after another."""
    lines = []
    for one, offset in plan.offsets.items():
        column = plan.columns.get(one)
        rows = "" if column is None else f", in rows of {column.pitch} elements"
        lines.append(f"{one.name}: {one.dtype}{list(one.extents)} in the arena at {offset}{rows}")
    for one, (base, start) in plan.views.items():
        place = f"{base.name}, from element {start} on"
        lines.append(f"{one.name}: {one.dtype}{list(one.extents)} is a part of {place}")
    for source, target in plan.overwritten.items():
        one = plan.inputs[source]
        lines.append(f"output {target}: {one.dtype}{list(one.extents)} lives in input {source}")
    for number, step in enumerate(plan.steps):
        around = " in ".join(map(_turns, reversed(step.turns)))
        when = f", in {around}" if around else ""
        what = f": {step.form}" if step.form else ""
        lines.append(f"nest {number}: {step_operations(step)} operations{when}{what}")
        names = dict(zip(step.kernel.buffers, (one.name for one in step.buffers), strict=True))
        sizes = (*step.sizes, *(turn.attribute[0] for turn in step.turns))
        lines += _Outline(sizes, names).statements(step.kernel.body, 1)
    return "\n".join(lines)


class _Outline:
    def __init__(self, sizes: Sequence[int | str], names: dict[Buffer, str]) -> None:
        self.sizes = sizes
        self.names = names

    def statements(self, body: Sequence[Statement], depth: int) -> Iterator[str]:
        for statement in body:
            yield "  " * depth + self.head(statement)
            match statement:
                case For() | Reduce():
                    yield from self.statements(statement.body, depth + 1)
                case While():
                    yield from self.statements(statement.prepare, depth + 1)
                    yield "  " * depth + "do"
                    yield from self.statements(statement.body, depth + 1)
                case If():
                    yield from self.statements(statement.body, depth + 1)
                    if statement.otherwise:
                        yield "  " * depth + "else"
                        yield from self.statements(statement.otherwise, depth + 1)

    def head(self, statement: Statement) -> str:
        """One line about a statement."""
        match statement:
            case Store():
                element = f"{self.name(statement.target)}[{self.indices(statement.indices)}]"
                return f"{element} {statement.op or ''}= {self.sources(statement)}"
            case Let() | Assign():
                names = ", ".join(target.attribute[0] for target in statement.targets[:4])
                more = ", ..." if len(statement.targets) > 4 else ""
                return f"{names}{more} = {self.sources(statement)}"
            case For():
                hints = (" in parallel" if statement.parallel else "") + _lanes(statement.lanes)
                start, stop = self.number(statement.start), self.number(statement.stop)
                return f"for {statement.index.attribute[0]} in {start}..{stop}{hints}"
            case Reduce():
                loops = ", ".join(
                    f"{index.attribute[0]} in {self.number(start)}..{self.number(stop)}"
                    for index, start, stop in statement.loops
                )
                ops = ", ".join(dict.fromkeys(statement.ops))
                sources = self.sources(statement)
                return f"{ops} over {loops}{_lanes(statement.lanes)}: {sources}"
            case If():
                return f"if {self.sources(statement)}"
            case While():
                return f"while {self.sources(statement)}"
            case Call():
                written = ", ".join(self.name(one) for one in statement.writes)
                read = ", ".join(self.name(one) for one in statement.reads)
                return f"{written} = {statement.symbol}({read})"
            case MatrixMultiply():
                left, right = (x.corner.target for x in (statement.left, statement.right))
                return f"{statement.sums.target} += {self.name(left)} @ {self.name(right)}"
            case Barrier():
                return "barrier"
            case Await():
                return f"wait for copies, but the last {statement.behind}"

    def name(self, one: Buffer) -> str:
        return self.names.get(one, one.name)

    def number(self, bound: Scalar) -> str:
        if bound.op == "size":
            return str(self.sizes[bound.attribute])
        return str(bound.attribute) if bound.op == "const" else "?"

    def indices(self, position: Sequence[Scalar]) -> str:
        return ", ".join(i.attribute[0] if i.op == "index" else self.number(i) for i in position)

    def sources(self, statement: Statement) -> str:
        """The number of operations of an expression, and its operands."""
        nodes = postorder(expressions(statement))
        operations = node_count(n for n in nodes if n.args and n.op != "load" and n.dtype != INDEX)
        read = dict.fromkeys(self.name(n.attribute) for n in nodes if n.op == "load")
        read |= dict.fromkeys(n.attribute[0] for n in nodes if n.op == "local")
        return f"{operations} operations on {', '.join(read) or 'constants'}"


def _lanes(lanes: int) -> str:
    return f" by {lanes}" if lanes > 1 else ""
