"""Traversal and rewriting of statements, on which visitors of the loop language are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from functrans.loop.messages import message_of
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import (
    Address,
    Assign,
    Await,
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Let,
    MatrixMultiply,
    Panel,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.records import NamedTuple

Body = tuple[Statement, ...]

Expressions = Sequence[Scalar]

Loop = tuple[Scalar, Scalar, Scalar]
"""A loop's index, its start and its stop."""


def bodies(statement: Statement) -> tuple[Body, ...]:
    """The blocks of statements directly inside a statement."""
    match statement:
        case For() | Reduce():
            return (statement.body,)
        case If():
            return statement.body, statement.otherwise
        case While():
            return statement.prepare, statement.body
    return ()


def children(statement: Statement) -> tuple[Statement, ...]:
    """The statements directly inside a statement."""
    return tuple(each for body in bodies(statement) for each in body)


def expressions(statement: Statement) -> tuple[Scalar, ...]:
    """The scalar expressions of a statement itself, without those of statements inside."""
    match statement:
        case Store():
            return (*statement.indices, statement.value)
        case Let() | Assign():
            return statement.values
        case For():
            return (statement.start, statement.stop)
        case Reduce():
            return (*bounds(statement), *statement.values)
        case If() | While():
            return (statement.condition,)
        case Call():
            found: list[Scalar] = []
            for argument in statement.arguments:
                if isinstance(argument, Scalar):
                    found.append(argument)
                elif isinstance(argument, Address):
                    found.extend(argument.indices)
            return tuple(found)
        case MatrixMultiply():
            parts = (statement.sums, statement.left.corner, statement.right.corner)
            return tuple(i for part in parts for i in part.indices)
        case Barrier() | Await():
            return ()


def loops_of(statement: Statement) -> tuple[Loop, ...]:
    """The loops of a statement: their indices, with the starts and the stops."""
    match statement:
        case For():
            return ((statement.index, statement.start, statement.stop),)
        case Reduce():
            return statement.loops
    return ()


def bounds(statement: Statement) -> list[Scalar]:
    """The starts and stops of a statement's loops."""
    return [bound for _, *pair in loops_of(statement) for bound in pair]


def walk(statements: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, outer ones before inner ones."""
    stack = list(statements)
    stack.reverse()
    while stack:
        statement = stack.pop()
        yield statement
        for body in reversed(bodies(statement)):
            stack.extend(reversed(body))


def scalars(statements: Iterable[Statement]) -> list[Scalar]:
    """Every node of the expressions in statements once, operands first."""
    return postorder([root for each in walk(statements) for root in expressions(each)])


def bounds_of_loops(statements: Iterable[Statement]) -> tuple[set[Scalar], set[Scalar]]:
    """The locals that are starts of loops, and those that are starts or stops."""
    loops = [loop for each in walk(statements) for loop in loops_of(each)]
    first = {node for node in postorder(start for _, start, _ in loops) if node.op == "local"}
    return first, first | {x for x in postorder(stop for *_, stop in loops) if x.op == "local"}


def may_fail(statements: Iterable[Statement]) -> bool:
    """Whether the statements may set the error flag."""
    return any(node.op in ("checked", "required") for node in scalars(statements))


def routines(statements: Iterable[Statement]) -> tuple[str, ...]:
    """The library routines that are called."""
    return tuple(sorted({each.symbol for each in walk(statements) if isinstance(each, Call)}))


def passes_messages(statements: Iterable[Statement]) -> bool:
    """Whether the statements pass messages, so that their order must be kept."""
    return any(isinstance(x, Call) and message_of(x.symbol) is not None for x in walk(statements))


def carries_a_local(loop: For) -> bool:
    """Whether an iteration changes a local declared outside (a loop-carried dependence)."""
    return not assigned(loop.body).issubset(declared(loop.body))


def locals_in(statements: Iterable[Statement]) -> set[Scalar]:
    """The locals that are read."""
    return {node for node in scalars(statements) if node.op == "local"}


def declared(statements: Iterable[Statement]) -> list[Scalar]:
    """The locals that are declared."""
    return [x for each in walk(statements) if isinstance(each, (Let, Reduce)) for x in each.targets]


def assigned(statements: Iterable[Statement]) -> set[Scalar]:
    """The locals that are changed."""
    return {x for each in walk(statements) if isinstance(each, Assign) for x in each.targets}


class Access(NamedTuple):
    """An element that statements access."""

    buffer: Buffer
    position: tuple[Scalar, ...]
    is_store: bool


def accesses(body: Sequence[Statement], values: Sequence[Scalar] = ()) -> Iterator[Access]:
    """The elements that statements, and expressions after them, read and write."""
    for node in (*scalars(body), *postorder(values)):
        if node.op == "load":
            yield Access(node.attribute, node.args, False)
    for statement in walk(body):
        if isinstance(statement, Store):
            yield Access(statement.target, statement.indices, True)


def loaded(statements: Iterable[Statement]) -> set[Buffer]:
    """The buffers that are read."""
    found: set[Buffer] = set()
    roots: list[Scalar] = []
    for statement in walk(statements):
        roots.extend(expressions(statement))
        if isinstance(statement, Store) and statement.op is not None:
            found.add(statement.target)
        if isinstance(statement, Call):
            found.update(statement.reads)
        if isinstance(statement, MatrixMultiply):
            found.update((statement.left.corner.target, statement.right.corner.target))
            found.add(statement.sums.target)
    found.update(node.attribute for node in postorder(roots) if node.op == "load")
    return found


def stored(statements: Iterable[Statement]) -> set[Buffer]:
    """The buffers that are written."""
    found: set[Buffer] = set()
    for statement in walk(statements):
        if isinstance(statement, Store):
            found.add(statement.target)
        elif isinstance(statement, Call):
            found.update(statement.writes)
        elif isinstance(statement, MatrixMultiply):
            found.add(statement.sums.target)
    return found


def buffers_of(statements: Sequence[Statement]) -> set[Buffer]:
    """The buffers that are read or written."""
    return loaded(statements) | stored(statements)


def with_bodies(statement: Statement, change: Callable[[Body], Body]) -> Statement:
    """The statement with its bodies transformed."""
    match statement:
        case For() | Reduce():
            return replace(statement, body=change(statement.body))
        case If():
            return If(statement.condition, change(statement.body), change(statement.otherwise))
        case While():
            prepare, body = change(statement.prepare), change(statement.body)
            return replace(statement, prepare=prepare, body=body)
    return statement


def always_loaded(roots: Iterable[Scalar]) -> Iterator[Scalar]:
    """The loads in expressions that are executed unconditionally."""
    seen: set[Scalar] = set()
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op == "load":
            yield node
        # an element behind a condition may be out of bounds
        args = node.args[:1] if node.op in ("guard", "unlikely") else node.args
        stack.extend(reversed(args))


def rebuilt(
    statement: Statement,
    *,
    body: Callable[[Body], Body],  # rewrites the statements inside
    values: Callable[[Expressions], Expressions],  # rewrites the values that are computed
    # rewrites loop bounds and arguments of library routines
    indices: Callable[[Expressions], Expressions],
    # rewrites an element that is written or passed by reference: a buffer, and the indices
    element: Callable[[Buffer, tuple[Scalar, ...]], tuple[Buffer, tuple[Scalar, ...]]],
    buffer: Callable[[Buffer], Buffer],  # rewrites the buffers that a call reads and writes
) -> Statement:
    """A statement of the same kind, with its parts rewritten."""
    match statement:
        case Store():
            (value,) = values((statement.value,))
            target, position = element(statement.target, statement.indices)
            return replace(statement, target=target, indices=position, value=value)
        case Let() | Assign():
            return replace(statement, values=tuple(values(statement.values)))
        case For():
            start, stop = indices((statement.start, statement.stop))
            return replace(statement, start=start, stop=stop, body=body(statement.body))
        case Reduce():
            loops = tuple((i, *indices((a, b))) for i, a, b in statement.loops)
            inside = body(statement.body)
            numbers = tuple(values(statement.values))
            return replace(statement, loops=loops, body=inside, values=numbers)  # type: ignore[arg-type]
        case If():
            (condition,) = values((statement.condition,))
            return If(condition, body(statement.body), body(statement.otherwise))
        case While():
            prepare = body(statement.prepare)
            (condition,) = values((statement.condition,))
            inside = body(statement.body)
            return replace(statement, prepare=prepare, condition=condition, body=inside)
        case Call():
            arguments: list[Address | Scalar | bytes] = []
            for argument in statement.arguments:
                if isinstance(argument, Address):
                    arguments.append(Address(*element(argument.target, argument.indices)))
                elif isinstance(argument, Scalar):
                    arguments += indices((argument,))
                else:
                    arguments.append(argument)
            return replace(
                statement,
                arguments=tuple(arguments),
                reads=tuple(map(buffer, statement.reads)),
                writes=tuple(map(buffer, statement.writes)),
            )
        case MatrixMultiply():

            def moved(one: Address) -> Address:
                return Address(*element(one.target, one.indices))

            def panel(one: Panel) -> Panel:
                return replace(one, corner=moved(one.corner))

            left, right = panel(statement.left), panel(statement.right)
            return replace(statement, sums=moved(statement.sums), left=left, right=right)
        case Barrier() | Await():
            return statement
