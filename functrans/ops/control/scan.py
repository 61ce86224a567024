"""scan: a body that is applied repeatedly, with a carry, to the elements of arrays.

Two primitives share one set of rules. `scan_p` has its number of steps in the graph;
`counted_scan_p` has it as its first operand, because a while loop before it has counted them. The
operands after that are ``consts ++ init ++ xs``, the results ``carry ++ ys``::

    body(*consts, *carry, *(x[i] for x in xs)) -> (*carry, *(element i of each y))

Parameters of both: ``body``, ``length`` (the leading extent of xs and ys: the number of steps of a
scan, an upper bound or `GROWS` for a counted one), ``reverse`` (from the last element to the
first), ``n_consts``, ``n_carry``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from functrans.ir.evaluate import evaluate
from functrans.ir.primitive import Primitive
from functrans.ir.types import GROWS, Aval, interned
from functrans.lazily import lazy
from functrans.ops.arrays.structural import instantiated, place, zeros_like
from functrans.ops.compiled.emission import Emit
from functrans.ops.control.layout import (
    STEPS,
    Flags,
    Scan,
    check_operands,
    compact,
    cut,
    fixpoint,
    has_fixed_sizes,
    new_stack,
    spread,
    stacked,
    strong,
    taking,
    where,
    where_not,
)
from functrans.ops.control.loops import in_parts, jvp, map_body
from functrans.ops.control.partial_evaluation import split_scan
from functrans.ops.define import primitive
from functrans.trace.stage import replay, rewrite


def _infer(scan: Scan, *avals: Aval) -> tuple[Aval, ...]:
    consts, carry, xs = cut(scan.body.in_avals, scan.n_consts, scan.n_carry)
    steps = (STEPS,) * scan.counted
    rows = [stacked(x, scan.length) for x in xs]
    check_operands("scan", [*steps, *consts, *carry, *rows], avals)
    results, ys = cut(strong(scan.body.out_avals), scan.n_carry)
    check_operands("the carry of scan", carry, results)
    return (*results, *(stacked(y, scan.length) for y in ys))


def step_by_step(
    scan: Scan, operands: Sequence[Any], body: Callable[[Sequence[Any]], Sequence[Any]]
) -> tuple[Any, ...]:
    """The results of a scan, by a Python loop that calls ``body`` for each step."""
    counted, consts, carry, xs = scan.parts(operands)
    steps = int(counted[0]) if counted else scan.length
    room = steps if scan.length == GROWS else scan.length
    ys = [new_stack(aval, room) for aval in scan.body.out_avals[scan.n_carry :]]
    for i in reversed(range(steps)) if scan.reverse else range(steps):
        results = body([*consts, *carry, *(x[i] for x in xs)])
        carry = results[: scan.n_carry]
        for y, row in zip(ys, results[scan.n_carry :], strict=True):
            y[i] = row
    return (*carry, *ys)


def _evaluate(scan: Scan, *operands: Any) -> tuple[Any, ...]:
    return step_by_step(scan, operands, partial(evaluate, scan.body))


# -- reverse mode ----------------------------------------------------------------------------------


def _transpose(scan: Scan, cotangents: Sequence[Any], *operands: Any, transform: Any) -> list[Any]:
    """The transpose: a scan in reverse order that carries cotangents of the carry.

    The cotangents of xs are its ys. Those of linear consts are accumulated in its carry too.
    """
    steps, consts, init, xs = scan.parts(operands)
    n_carry = scan.n_carry
    c_linear, x_linear = (tuple(isinstance(x, Aval) for x in part) for part in (consts, xs))
    linear = c_linear + (True,) * n_carry + x_linear
    carry_ct, ys_ct = cut(cotangents, n_carry)
    ys_given = tuple(ct is not None for ct in ys_ct)

    def pull(carry_given: Flags) -> tuple[Flags, Any]:
        transposed, nonzero = transform(scan.body, linear, carry_given + ys_given)
        c_found, i_found, x_found = cut(nonzero, sum(c_linear), n_carry)
        return tuple(i_found), (transposed, c_found, i_found, x_found)

    carry_given, (transposed, c_found, i_found, x_found) = fixpoint(
        tuple(ct is not None for ct in carry_ct), pull
    )
    c_sums = where(c_found, where(c_linear, consts))
    n_known_c, n_known_x = len(consts) - sum(c_linear), len(xs) - sum(x_linear)
    carry_avals = where(carry_given, scan.body.out_avals[:n_carry])

    def body(*inputs: Any) -> list[Any]:
        c, i_ct, sums, x, y_ct = cut(inputs, n_known_c, len(carry_avals), len(c_sums), n_known_x)
        results = replay(transposed, [*c, *x, *i_ct, *y_ct])
        found = len(c_sums) + sum(i_found) + sum(x_found)
        # the cotangents follow the results that do not depend on linear operands
        c_ct, i_ct, x_ct = cut(results[len(results) - found :], len(c_sums), sum(i_found))
        carry = where(carry_given, spread(i_ct, i_found))
        return [
            *instantiated(carry, carry_avals),
            *(total + ct for total, ct in zip(sums, c_ct, strict=True)),
            *x_ct,
        ]

    body_c, _, body_x = cut(scan.body.in_avals, scan.n_consts, n_carry)
    avals = [
        *where_not(c_linear, body_c),
        *carry_avals,
        *c_sums,
        *where_not(x_linear, body_x),
        *where(ys_given, scan.body.out_avals[n_carry:]),
    ]
    backwards = scan.but(
        body=rewrite(body, strong(avals)),
        reverse=not scan.reverse,
        n_consts=n_known_c,
        n_carry=len(carry_avals) + len(c_sums),
    )
    results = backwards.bind(
        steps,
        where_not(c_linear, consts),
        [
            *instantiated(where(carry_given, carry_ct), carry_avals),
            *(zeros_like(aval) for aval in c_sums),
        ],
        [*where_not(x_linear, xs), *compact(ys_ct)],
    )
    i_ct, c_ct, x_ct = cut(results, len(carry_avals), len(c_sums))
    init_ct = [
        ct if isinstance(x, Aval) else None
        for x, ct in zip(init, spread(i_ct, carry_given), strict=True)
    ]
    return [
        *(None for _ in steps),
        *spread(spread(c_ct, c_found), c_linear),
        *init_ct,
        *spread(spread(x_ct, x_found), x_linear),
    ]


# -- vmap ------------------------------------------------------------------------------------------


def _batch(
    scan: Scan, operands: Sequence[Any], axes: Sequence[int | None], *, size: int, transform: Any
) -> tuple[Sequence[Any], Sequence[int | None]]:
    if scan.counted and axes[0] is not None:
        return each_lane(scan.primitive, scan.params, operands, axes, size)
    *others, xs = scan.parts(operands)
    _, c_axes, i_axes, x_axes = scan.parts(axes)
    # a step reads its elements along the first axis, which must not be the mapped one
    xs = [place(x, 0, 1, size) if axis == 0 else x for x, axis in zip(xs, x_axes, strict=True)]
    row_axes = [None if axis is None else max(axis - 1, 0) for axis in x_axes]
    body = map_body(scan, (c_axes, i_axes, row_axes), size, transform)
    return body.apply(scan, [*others, xs], i_axes, size)


def each_lane(
    primitive: Primitive, params: dict[str, Any], operands: Sequence[Any],
    axes: Sequence[int | None], size: int, forwarded: Mapping[int, int] = MappingProxyType({}),
) -> tuple[Sequence[Any], Sequence[int | None]]:  # fmt: skip
    """Apply a primitive to each lane separately.

    This is a scan without a carry, so lanes may also run in parallel. ``forwarded`` results, which
    are equal to operands, need no lanes.
    """
    mapped = tuple(axis is not None for axis in axes)
    shared = where_not(mapped, operands)
    lanes = [place(x, a, 0, size) for x, a in zip(operands, axes, strict=True) if a is not None]

    def body(*inputs: Any) -> Sequence[Any]:
        consts, rows = cut(inputs, len(shared))
        from_consts, from_rows = iter(consts), iter(rows)
        results = primitive(*(next(from_rows if m else from_consts) for m in mapped), **params)
        return results if primitive.several else (results,)

    avals = [
        *(interned(x.shape, x.dtype) for x in shared),
        *(interned(x.shape[1:], x.dtype) for x in lanes),
    ]
    graph = rewrite(body, avals)
    loop = Scan(scan_p, graph, size, False, len(shared), 0)
    results = list(loop.bind((), shared, (), lanes))
    out_axes: list[int | None] = [0] * len(results)
    for result, operand in forwarded.items():
        results[result], out_axes[result] = operands[operand], axes[operand]
    return results, out_axes


# -- the primitives --------------------------------------------------------------------------------


_sparsity = lazy("functrans.ops.control.dependence:of_scan")
_on_the_host = lazy("functrans.ops.control.compiled.growing:run_scan")

_emit = Emit(
    lazy("functrans.ops.control.compiled.loops:scan"),
    applies=lambda eqn, target: has_fixed_sizes(eqn),
    operations=lambda eqn, of_graph: of_graph(eqn.params["body"]) * eqn.params["length"],
)


def _define(name: str) -> Primitive:
    rule = taking(lambda **params: Scan(defined, **params), Scan._fields[1:])
    defined: Primitive = primitive(
        name,
        infer=rule(_infer),
        numpy=rule(_evaluate),
        jvp=rule(jvp),
        split=rule(split_scan),
        transpose=rule(_transpose),
        batch=rule(_batch),
        sparsity=rule(_sparsity),
        parts=rule(in_parts),
        host=_on_the_host,
        emit=_emit,
        several=True,
        higher_order=True,
    )
    return defined


scan_p = _define("scan")
counted_scan_p = _define("counted_scan")
