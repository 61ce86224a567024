"""Batched loops of different lengths: one parallel loop over lanes, each with stacks of its own.

Under `vmap` the lanes of a while loop have different numbers of steps. As for a single loop, the
steps of all lanes are counted first; then the loops run with stacks for the longest of them, and so
do the scans that read these stacks. A stack of stacks remains an object array, whose rows are views
of one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.graph import Atom, Eqn, Graph, Var, inner_graphs, prune
from functrans.ir.primitive import Compile
from functrans.ir.types import GROWS, Aval
from functrans.ops.control.layout import Scan, applied_once
from functrans.ops.control.scan import counted_scan_p, scan_p
from functrans.ops.control.while_loop import While, while_p
from functrans.records import NamedTuple

LEAST = 16
"""The least extent of stacks."""

MOST_UNUSED = 8
"""The most memory of the padded stacks, relative to the stacks themselves."""


class Lanes(NamedTuple):
    """The growth of the stacks of a lane's loops."""

    counting: Graph  # the body of a scan over lanes that counts the steps of each while loop
    taken: tuple[int, ...]  # the inputs of the body that ``counting`` takes
    # for each output of the body that is a stack: its number, and the number of the count that is
    # its length
    lengths: tuple[tuple[int, int], ...]


def grows(aval: Aval) -> bool:
    """Whether a value has a length that is known only at run time."""
    return GROWS in aval.shape


def extent_of(steps: int) -> int:
    """The padded extent of a stack, chosen so that few programs serve all numbers of steps."""
    return max(LEAST, 1 << (steps - 1).bit_length())


def run_lanes(eqn: Eqn, operands: Sequence[Any], compile: Compile) -> Sequence[Any] | None:
    """The results of a scan without a carry whose body has loops that grow; None if not compilable.

    Such a scan is what `vmap` makes of a loop (`functrans.ops.control.scan.each_lane`).
    """
    scan = Scan.of(eqn)
    lanes = _analysis(scan.body)
    if scan.counted or scan.n_carry or not scan.length or lanes is None:
        return None
    counts: Sequence[Any] = ()
    if lanes.counting.outputs:
        counting = compile(_counting(scan, lanes), whole=True)
        if counting is None:
            return None
        counts = counting(*(operands[i] for i in lanes.taken))
    growing = [i for i, var in enumerate(scan.body.inputs) if grows(var.aval)]
    found = [np.array([len(row) for row in operands[i]]) for i in growing]
    if not counts and not growing:
        return None
    longest = extent_of(max(int(x.max()) for x in (*counts, *found)))
    total = max(int(x.sum()) for x in (*counts, *found))
    if longest * scan.length > MOST_UNUSED * max(total, LEAST * scan.length):
        return None
    program = compile(_of_extent(scan, tuple(x.aval for x in eqn.inputs), longest), whole=True)
    if program is None:
        return None
    given = list(operands)
    for i in growing:
        given[i] = _whole(operands[i], longest)
    results = list(program(*given))
    for output, count in lanes.lengths:
        results[output] = _rows(results[output], counts[count])
    return results


@cached(256)
def _analysis(body: Graph) -> Lanes | None:
    """The growing loops of a lane, if they are at its top level, and their lengths are known."""
    counts: dict[Var, int] = {}
    length_of: dict[Atom, Var] = {}
    for eqn in body.eqns:
        stacks = [var for var in eqn.outputs if grows(var.aval)]
        if eqn.primitive is while_p and stacks:
            steps = eqn.outputs[While.of(eqn).n_carry]
            counts[steps] = len(counts)
            length_of.update(dict.fromkeys(stacks, steps))
        elif stacks or any(grows(x.aval) for x in eqn.inputs):
            if eqn.primitive is not counted_scan_p or stacks:
                return None
        if any(map(_grows_inside, inner_graphs(eqn))):
            return None
    stacked = [(i, atom) for i, atom in enumerate(body.outputs) if grows(atom.aval)]
    if any(atom not in length_of for _, atom in stacked):
        return None
    lengths = tuple((i, counts[length_of[atom]]) for i, atom in stacked)
    counting = prune(Graph(body.inputs, list(map(_without_stacks, body.eqns)), list(counts)))
    used = {x for eqn in counting.eqns for x in eqn.inputs} | {*counting.outputs}
    if any(grows(x.aval) for x in used):
        return None
    taken = tuple(i for i, var in enumerate(body.inputs) if var in used)
    inputs = [body.inputs[i] for i in taken]
    return Lanes(Graph(inputs, counting.eqns, counting.outputs), taken, lengths)


def _grows_inside(graph: Graph) -> bool:
    atoms = (*graph.inputs, *(var for eqn in graph.eqns for var in eqn.outputs))
    return any(grows(x.aval) for x in atoms) or any(
        _grows_inside(inner) for eqn in graph.eqns for inner in inner_graphs(eqn)
    )


def _without_stacks(eqn: Eqn) -> Eqn:
    """A while loop without its stacks."""
    if eqn.primitive is not while_p or not any(grows(var.aval) for var in eqn.outputs):
        return eqn
    loop = While.of(eqn)
    body = Graph(loop.body.inputs, loop.body.eqns, loop.body.outputs[: loop.n_carry])
    params = loop._replace(body=body)._asdict()
    return Eqn(while_p, eqn.inputs, eqn.outputs[: loop.n_carry + 1], params, eqn.source)


@cached(256)
def _counting(scan: Scan, lanes: Lanes) -> Graph:
    """The scan over lanes that counts steps."""
    n_consts = sum(i < scan.n_consts for i in lanes.taken)
    own = Scan(scan_p, lanes.counting, scan.length, False, n_consts, 0)
    avals = [
        var.aval if i < n_consts else var.aval.update(shape=(scan.length, *var.aval.shape))
        for i, var in enumerate(lanes.counting.inputs)
    ]
    return applied_once(scan_p, avals, own.params)


@cached(256)
def _of_extent(scan: Scan, avals: tuple[Aval, ...], extent: int) -> Graph:
    """The scan over lanes, with stacks of a known extent."""
    own = scan.but(body=_fixed(scan.body, extent))
    return applied_once(scan.primitive, [_known(aval, extent) for aval in avals], own.params)


def _known(aval: Aval, extent: int) -> Aval:
    return aval.update(shape=tuple(extent if n == GROWS else n for n in aval.shape))


def _fixed(body: Graph, extent: int) -> Graph:
    """The graph with stacks of a known extent."""
    fixed: dict[Atom, Var] = {}

    def var(old: Var) -> Var:
        return fixed.setdefault(old, Var(_known(old.aval, extent)))

    inputs = list(map(var, body.inputs))
    eqns = []
    for eqn in body.eqns:
        params = dict(eqn.params)
        if eqn.primitive is while_p and any(grows(x.aval) for x in eqn.outputs):
            # never reached; rows after the last step of a lane are filled with zeros
            params["max_steps"] = extent
        elif params.get("length") == GROWS:
            params["length"] = extent
        given = [fixed.get(x, x) for x in eqn.inputs]
        eqns.append(Eqn(eqn.primitive, given, list(map(var, eqn.outputs)), params, eqn.source))
    return Graph(inputs, eqns, [fixed.get(x, x) for x in body.outputs])


def _rows(stack: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The stacks of lanes, cut to their own lengths."""
    rows = np.empty(len(stack), object)
    for i, length in enumerate(lengths.tolist()):
        rows[i] = stack[i, :length]
    return rows


def _whole(rows: np.ndarray[Any, Any], extent: int) -> np.ndarray[Any, Any]:
    """The padded stacks of lanes; the array itself if they are rows of one."""
    shape = (len(rows), extent, *rows[0].shape[1:])
    whole = rows[0].base
    if isinstance(whole, np.ndarray) and whole.shape == shape and _is_in_order(rows, whole):
        return whole
    found = np.zeros(shape, rows[0].dtype)
    for i, row in enumerate(rows):
        found[i, : len(row)] = row
    return found


def _is_in_order(rows: np.ndarray[Any, Any], whole: np.ndarray[Any, Any]) -> bool:
    """Whether the rows are those of an array, in order."""
    first, apart = whole.ctypes.data, whole.strides[0]
    return all(
        row.base is whole and row.__array_interface__["data"][0] == first + i * apart
        for i, row in enumerate(rows)
        if len(row)
    )
