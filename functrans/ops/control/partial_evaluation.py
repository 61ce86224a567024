"""Partial evaluation of loops: the known part of a body, and the residuals of each step.

The known loop runs first. It stacks the values that the steps of the unknown loop need and cannot
recompute; loop-invariant values are computed once, before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined, prune
from functrans.ir.primitive import EqnSplit
from functrans.ops.control.layout import (
    STEPS,
    Flags,
    Scan,
    cut,
    either,
    fixpoint,
    stacked,
    undivided,
    where,
    where_not,
)
from functrans.ops.control.residuals import choose, is_move
from functrans.records import NamedTuple


class DividedBody(NamedTuple):
    """The body of a loop, divided into a known and an unknown part."""

    consts: Sequence[Var]  # the known consts
    hoisted: list[Eqn]  # the equations that depend only on these, executed once
    # maps ``known_consts``, known carry and known xs to known carry, known ys and ``saved``
    known: Graph
    known_consts: list[Var]  # known consts and results of ``hoisted``
    # maps ``shared``, unknown consts; unknown carry; ``rows``, ``saved``, unknown xs to unknown
    # carry and unknown ys
    unknown: Graph
    shared: list[Var]  # known consts and results of ``hoisted``
    rows: list[bool]  # which of the known xs the unknown part reads, too
    saved: list[Var]  # the stacked residuals
    carry: Flags  # which carries are unknown
    ys: Flags  # which ys are unknown
    n_unknown_consts: int


def divide(body: Graph, unknown: Flags, n_consts: int, n_carry: int, transform: Any) -> DividedBody:
    """Divide the body of a loop, given the inputs that are unknown in the first step."""
    c_unknown, i_unknown, x_unknown = map(tuple, cut(unknown, n_consts, n_carry))

    def split(carry: Flags) -> tuple[Flags, Any]:
        parts = transform(body, c_unknown + carry + x_unknown)
        return parts.unknown_out[:n_carry], parts

    carry, parts = fixpoint(i_unknown, split)
    unknown_out = either(parts.unknown_out, carry + (False,) * (len(body.outputs) - n_carry))
    n_known = len(parts.unknown_out) - sum(parts.unknown_out)
    unknown_in = parts.unknown.inputs[
        len(parts.unknown.inputs) - sum(c_unknown + carry + x_unknown) :
    ]
    rest, rest_out = inlined(parts.unknown, [*parts.known.outputs[n_known:], *unknown_in])
    # a carry that would become known after the first step remains unknown
    outputs = merged(parts.unknown_out, parts.known.outputs[:n_known], rest_out)
    rest_out = where(unknown_out, outputs)

    consts, carry_in, rows_in = cut(
        parts.known.inputs, n_consts - sum(c_unknown), n_carry - sum(carry)
    )
    hoisted, eqns = _hoist(parts.known.eqns, consts)
    invariant = [*consts, *(var for eqn in hoisted for var in eqn.outputs)]
    theirs = {*carry_in, *(var for eqn in eqns for var in eqn.outputs)}
    needed = [var for var in mentioned(rest, rest_out) if var in theirs]
    saved, again = choose(eqns, needed, [*invariant, *rows_in])
    rest = [*again, *rest]
    used = mentioned(rest, rest_out)
    shared = [var for var in invariant if var in used]
    c_in, i_in, x_in = cut(unknown_in, sum(c_unknown), sum(carry))
    rows = [var in used for var in rows_in]

    known_out = [*where_not(unknown_out, outputs), *saved]
    loop = prune(Graph((), eqns, known_out))
    used = mentioned(loop.eqns, known_out)
    known_consts = [var for var in invariant if var in used]
    return DividedBody(
        consts,
        hoisted,
        Graph([*known_consts, *carry_in, *rows_in], loop.eqns, known_out),
        known_consts,
        Graph([*shared, *c_in, *i_in, *where(rows, rows_in), *saved, *x_in], rest, rest_out),
        shared,
        rows,
        saved,
        carry,
        unknown_out[n_carry:],
        sum(c_unknown),
    )


def merged(flags: Flags, known: Sequence[Atom], unknown: Sequence[Atom]) -> list[Atom]:
    """All results, in order, from those of the known and of the unknown part."""
    from_known, from_unknown = iter(known), iter(unknown)
    return [next(from_unknown if flag else from_known) for flag in flags]


def mentioned(eqns: Sequence[Eqn], outputs: Sequence[Atom]) -> dict[Var, None]:
    """The variables that equations and outputs read, in the order of first use."""
    atoms = [*(atom for eqn in eqns for atom in eqn.inputs), *outputs]
    return dict.fromkeys(atom for atom in atoms if isinstance(atom, Var))


def _hoist(eqns: Sequence[Eqn], consts: Sequence[Var]) -> tuple[list[Eqn], list[Eqn]]:
    """Loop-invariant code motion: the equations to execute before the loop, and the others.

    An equation that only moves elements is not hoisted, unless a hoisted one needs it: it costs
    nothing in the loop, and its result may be a large array.
    """
    invariant: set[Atom] = set(consts)
    before: list[Eqn] = []
    inside: list[Eqn] = []
    for eqn in eqns:
        fixed = all(atom in invariant or not isinstance(atom, Var) for atom in eqn.inputs)
        if fixed:
            invariant.update(eqn.outputs)
        if fixed and not is_move(eqn.primitive):
            before.append(eqn)
        else:
            inside.append(eqn)
    moves = [eqn for eqn in inside if eqn.outputs and eqn.outputs[0] in invariant]
    wanted = {atom for eqn in before for atom in eqn.inputs}
    for eqn in reversed(moves):
        if not wanted.isdisjoint(eqn.outputs):
            before.append(eqn)
            wanted.update(eqn.inputs)
    hoisted = set(before)
    return [eqn for eqn in eqns if eqn in hoisted], [eqn for eqn in eqns if eqn not in hoisted]


def split_scan(scan: Scan, unknown: Flags, *, transform: Any) -> EqnSplit:
    """The split of a scan into two scans with the same number of steps."""
    steps_unknown, c_unknown, i_unknown, x_unknown = map(tuple, scan.parts(unknown))
    _, init_avals, x_avals = cut(scan.body.in_avals, scan.n_consts, scan.n_carry)
    if any(steps_unknown):
        rows = [stacked(aval, scan.length) for aval in x_avals]
        avals = [STEPS, *scan.body.in_avals[: len(scan.body.inputs) - len(rows)], *rows]
        return undivided(scan.primitive, unknown, avals, scan.params)
    body = divide(
        scan.body, c_unknown + i_unknown + x_unknown, scan.n_consts, scan.n_carry, transform
    )
    steps = [Var(STEPS) for _ in steps_unknown]
    init = [Var(aval) for aval in init_avals]
    xs = [Var(stacked(aval, scan.length)) for aval in x_avals]
    known = scan.but(
        body=body.known, n_consts=len(body.known_consts), n_carry=scan.n_carry - sum(body.carry)
    )
    inputs = [*steps, *body.known_consts, *where_not(body.carry, init), *where_not(x_unknown, xs)]
    outputs = [
        Var(aval) for aval in known.primitive.infer_all([v.aval for v in inputs], known.params)
    ]
    results, stacks = cut(outputs, len(outputs) - len(body.saved))
    return join(
        body,
        Eqn(known.primitive, inputs, outputs, known.params),
        [*steps, *body.consts, *where_not(i_unknown, init), *where_not(x_unknown, xs)],
        results,
        Rest(scan, steps, init, i_unknown, where(body.rows, where_not(x_unknown, xs)), stacks),
        (*body.carry, *body.ys),
    )


class Rest(NamedTuple):
    """The operands of the unknown part of a loop.

    ``scan`` may be any scan with the right length and direction. ``init`` has all initial values of
    the carry, ``rows`` the known xs that are read, ``stacks`` the saved residuals.
    """

    scan: Scan
    steps: Sequence[Var]
    init: Sequence[Var]
    init_unknown: Flags
    rows: Sequence[Var]
    stacks: Sequence[Var]


def join(
    body: DividedBody, loop: Eqn, operands: Sequence[Var], results: Sequence[Var], rest: Rest,
    unknown_out: Flags,
) -> EqnSplit:  # fmt: skip
    """The split of a loop, from its divided body and the equation of the known part."""
    # an initial value may be known although the carry is not
    start = [
        var
        for var, carry, unknown in zip(rest.init, body.carry, rest.init_unknown, strict=True)
        if carry and not unknown
    ]
    residuals = [*rest.steps, *body.shared, *start, *rest.rows, *rest.stacks]
    known = prune(Graph(operands, [*body.hoisted, loop], [*results, *residuals]))

    n_init = sum(body.carry)
    n_known_x = len(rest.rows) + len(rest.stacks)
    consts, _, xs = cut(body.unknown.in_avals[len(body.shared) :], body.n_unknown_consts, n_init)
    c = [Var(aval) for aval in consts]
    x = [Var(stacked(aval, rest.scan.length)) for aval in xs[n_known_x:]]
    i = where(rest.init_unknown, rest.init)
    scan = rest.scan.but(body=body.unknown, n_consts=len(body.shared) + len(c), n_carry=n_init)
    inputs = [
        *rest.steps, *body.shared, *c, *where(body.carry, rest.init), *rest.rows, *rest.stacks, *x
    ]  # fmt: skip
    outputs = [Var(a) for a in scan.primitive.infer_all([v.aval for v in inputs], scan.params)]
    eqn = Eqn(scan.primitive, inputs, outputs, scan.params)
    return EqnSplit(known, Graph([*residuals, *c, *i, *x], [eqn], outputs), unknown_out)
