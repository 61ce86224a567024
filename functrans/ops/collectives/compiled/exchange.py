"""Collectives as MPI calls, from memory to memory, in the thread that runs the program.

Messages are contiguous memory. Parts for several processes lie along the first axis, to which
`functrans.optimise.machine.messages` has moved the axis of the collective. The ``key`` of an
``engine`` identifies the participating processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functrans.ir.graph import Eqn
from functrans.loop.failures import NOT_SENT
from functrans.loop.messages import MAX, MIN, MOST, NOTHING, SUM, Message, code_of
from functrans.loop.nodes import INDEX, ZERO, bounded, index
from functrans.loop.scalar import BOOL, Scalar, const, convert, eq, where
from functrans.loop.statements import Address, Buffer, Call, Statement, Store, load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.compiled.statements import ensure, nest, start_of
from functrans.records import NamedTuple

INT = np.dtype(np.int32)

WORK = 10_000
"""The cost of a message, some microseconds, in operations of a loop."""


class _Form(NamedTuple):
    kind: str
    operation: str = NOTHING


_FORMS = {
    "psum": _Form("allreduce", SUM),
    "pmax": _Form("allreduce", MAX),
    "pmin": _Form("allreduce", MIN),
    "psum_scatter": _Form("reducescatter", SUM),
    "all_gather": _Form("allgather"),
    "all_to_all": _Form("alltoall"),
    "ppermute": _Form("sendrecv"),
    "lane_number": _Form("rank"),
}

MOST_RUNS = 16
"""The most ranges of consecutive processes that send equally far, for a permutation."""


def applies(eqn: Eqn, target: Target) -> bool:
    """Whether a collective is compiled as a message between processes."""
    engine = eqn.params["engine"]
    if engine is None or engine.key is None or not target.routines:
        return False
    name = eqn.primitive.name
    if name == "lane_number":
        return bool(eqn.params["dtype"] == INDEX)
    largest: int = max(x.aval.size for x in (eqn.inputs[0], *eqn.outputs))
    if largest > MOST:
        return False
    if name == "ppermute" and len(_runs(eqn.params["moves"])) > MOST_RUNS:
        return False
    return name == "own_part" or _code(eqn) is not None


def _code(eqn: Eqn) -> str | None:
    """The MPI datatype of the elements; unsigned for pure data movement; None if MPI has none."""
    dtype = eqn.inputs[0].aval.dtype
    operation = _FORMS[eqn.primitive.name].operation
    if operation == NOTHING or (dtype == BOOL and operation != SUM):
        return f"u{dtype.itemsize}" if dtype.itemsize <= 8 else None
    computes = dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))
    return code_of(dtype) if computes else None


def emit(at: Emission) -> None:
    """A collective in which messages have the operand's size, the result's, or one part of it."""
    x, out = at.operand(0), at.result()
    if not x.count or not out.count:
        return
    assert at.eqn.params.get("axis", 0) == 0, "what is sent lies along the first axis"
    part, whole = sorted((x.count, out.count))
    if at.eqn.primitive.name == "all_to_all":
        part //= at.eqn.params["size"]
    _send(at, (part, whole), x, out)


def permute(at: Emission) -> None:
    """A permutation: send to one process and receive from another; zeros if nothing is received."""
    x, out, moves = at.operand(0), at.result(), at.eqn.params["moves"]
    if not x.count:
        return
    number = at.element(1, ())
    backwards = tuple((receiver, sender) for sender, receiver in moves)
    partners = [convert(_partner(number, _runs(way)), INT) for way in (moves, backwards)]
    before: tuple[Statement, ...] = ()
    if len(moves) < at.eqn.params["size"]:
        loops = [index("i", extent) for extent in out.extents]
        before = nest(loops, (Store(out, tuple(loops), const(0, out.dtype)),))
    _send(at, (x.count, x.count), x, out, partners, before)


def rank(at: Emission) -> None:
    """The number of this process."""
    out = at.result()
    call = Call(_message(at.eqn, "i8").symbol, (Address(out, ()),), (), (out,))
    at.call((call,))


def own_part(at: Emission) -> None:
    """Select the part of this process by its rank, which is known only at run time."""
    params, out = at.eqn.params, at.result()
    if not out.count:
        return
    axis: int = params["axis"]
    number = bounded(at.element(1, ()), params["size"], "clip")
    x, loops = at.operand(0), at.loops(out.extents)
    value = load(x, (*loops[:axis], number, *loops[axis:]))
    at.compute(out, loops, range(len(loops)), (Element(loops, value),))


def _message(eqn: Eqn, code: str) -> Message:
    form = _FORMS[eqn.primitive.name]
    return Message(form.kind, form.operation, code, eqn.params["engine"].key)


def _send(
    at: Emission, counts: tuple[int, int], x: Buffer, out: Buffer, partners: Sequence[Scalar] = (),
    before: Sequence[Statement] = (),
) -> None:  # fmt: skip
    code = _code(at.eqn)
    assert code is not None
    status = at.scratch("status", INT, (1,))
    arguments: tuple[Address | Scalar, ...] = (
        *(const(count, INT) for count in counts),
        start_of(x),
        start_of(out),
        *partners,
        start_of(status),
    )
    call = Call(_message(at.eqn, code).symbol, arguments, (x,), (out, status))
    well = eq(load(status, (ZERO,)), const(0, INT))
    check = ensure(well, NOT_SENT)
    at.call((*before, call, check), uncounted=WORK, stack=(status,))


class _Run(NamedTuple):
    """Consecutive processes, from ``start`` to before ``stop``, that send equally ``far``."""

    start: int
    stop: int
    far: int


def _runs(moves: Sequence[tuple[int, int]]) -> list[_Run]:
    found: list[_Run] = []
    for sender, receiver in sorted(moves):
        far = receiver - sender
        if found and found[-1].stop == sender and found[-1].far == far:
            found[-1] = found[-1]._replace(stop=sender + 1)
        else:
            found.append(_Run(sender, sender + 1, far))
    return found


def _partner(number: Scalar, runs: Sequence[_Run]) -> Scalar:
    """The process that a process sends to; -1 for none."""
    partner = const(-1, INDEX)
    for start, stop, far in runs:
        inside = Scalar("and", (const(start, INDEX) <= number, number < stop), BOOL)
        partner = where(inside, number + far, partner)
    return partner
