"""Materialisation: which values of a graph are computed once and stored in memory.

The others are recomputed wherever they are used, which is profitable if they are cheap, or used
once. Expects a graph that has been rewritten for the machine. Leaves a set of its variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import NamedTuple

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.types import is_float
from functrans.loop.nodes import UNROLLED
from functrans.loop.target import Target
from functrans.lower.select.recomputation import index_arithmetic
from functrans.ops.arrays.slicing import embed_p, slice_p
from functrans.ops.arrays.structural import broadcast_to_p, transpose_p
from functrans.ops.compiled.elements import Pattern, pattern
from functrans.ops.compiled.emission import asks_for_elements, in_memory
from functrans.ops.elementwise.choice import select
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.contraction_layout import is_summed_with_larger
from functrans.optimise.machine.gathered_rows import reads_rows


class Materialisation(NamedTuple):
    """Values that are computed once and stored, and not recomputed wherever they are used.

    Measured: `cheap` (the Rosenbrock product, which did not gain from keeping more).
    """

    cheap: int = 12
    """The most scalar operations that are recomputed and not stored."""
    largest_expression: int = 600
    """The most operations for one element; beyond that, an operand is materialised."""
    repeated: int = 4
    """How often an element may be recomputed within one expression."""
    deepest: int = 40
    """The most moves of elements that are nested in one expression."""
    narrower: bool = False
    """Whether the narrower float of a conversion is stored instead of the wider one: it takes
    less memory, and products on tensor cores read 16-bit elements directly."""


OPAQUE = Pattern(0, 2, (), (), 0)
"""The pattern of library calls and loops, which compute from memory to memory."""


def _pattern(eqn: Eqn, target: Target) -> Pattern:
    if asks_for_elements(eqn, target):
        return Pattern(0, 1, (1,) * len(eqn.inputs), (False,) * len(eqn.inputs), 0)
    return OPAQUE if in_memory(eqn, target) else pattern(eqn)


def materialised(graph: Graph, target: Target) -> set[Var]:
    """The variables to materialise, besides the outputs."""
    uses: dict[Var, list[tuple[Eqn, int]]] = {}
    for eqn in graph.eqns:
        for i, atom in enumerate(eqn.inputs):
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append((eqn, i))
    outputs = Counter(graph.outputs)
    limits = target[Materialisation]
    patterns = {eqn: _pattern(eqn, target) for eqn in graph.eqns}
    joins = {eqn for eqn in graph.eqns if asks_for_elements(eqn, target)}
    chosen: set[Var] = set()
    costs: dict[Atom, int] = {}
    sizes: dict[Atom, int] = {}  # with the operations on indices, which cost nothing
    depths: dict[Atom, int] = {}
    constants: set[Atom] = set()
    slow: set[Atom] = set()
    addresses = index_arithmetic(graph) - outputs.keys()
    scattered: set[Atom] = set()
    triangles: set[Atom] = set()  # and other values of which some elements are known to be zeros
    repeated: set[Atom] = set()  # what is larger than all that it is computed from
    for eqn in graph.eqns:
        own = patterns[eqn]
        if own.slow or not slow.isdisjoint(eqn.inputs):
            slow.update(eqn.outputs)
        cost = own.cost
        size = own_size = max(cost, int(eqn.primitive.scalar is not None))
        if own is not OPAQUE:
            read = [*zip(eqn.inputs, own.reads, strict=True)]
            cost += sum(costs.get(x, 0) * reads for x, reads in read)
            size += sum(sizes.get(x, 0) * reads for x, reads in read)
        depth = max((depths.get(x, 0) for x in eqn.inputs), default=0)
        depth += eqn.primitive.scalar is None
        if eqn in joins:
            chosen.update(eqn.outputs)
            continue
        is_constant = all(isinstance(x, Literal) or x in constants for x in eqn.inputs)
        is_table = not eqn.inputs and cost > limits.cheap
        if own.folds == 1 and is_constant and not is_table:
            # known zeros and ones simplify expressions, which saves more than storing them
            constants.update(eqn.outputs)
            continue
        is_choice = eqn.primitive is select and eqn.inputs[0] in constants
        if is_choice or (own.folds == 1 and not triangles.isdisjoint(eqn.inputs)):
            triangles.update(eqn.outputs)
        for var in eqn.outputs:
            used = uses.get(var, [])
            if all(x in repeated or x.aval.size < var.aval.size for x in eqn.inputs):
                repeated.add(var)
            shared = (
                cost > 0
                and var not in triangles
                and var not in repeated
                and _is_factor_of_several(used)
            )
            if var not in addresses and (
                depth > limits.deepest
                or (size > limits.largest_expression and (used or outputs[var]))
                or _is_in_better_order(eqn, used, target)
                or (_is_gathered(eqn, scattered, used, patterns) and not target.lanes_are_threads)
                or (shared and not target.lanes_are_threads)
                or (var in slow and _is_broadcast(var, used, joins, limits))
                or _is_materialised(var, own, cost, uses, patterns, joins, outputs[var], limits)
            ):
                small = None if outputs[var] else _smaller(eqn, used, patterns, target)
                kept = var if small is None else small
                costs[var], sizes[var], depths[var] = own.cost, own_size, 0
                slow -= {kept, var}
                triangles -= {kept, var}
                if kept in costs:  # (inputs are in memory)
                    chosen.add(kept)
                    costs[kept] = sizes[kept] = depths[kept] = 0
            else:
                costs[var], sizes[var], depths[var] = cost, size, depth
                if eqn.primitive in (slice_p, transpose_p) or (
                    eqn.primitive.regroups is not None and not scattered.isdisjoint(eqn.inputs)
                ):
                    scattered.add(var)
    return chosen


def _smaller(
    eqn: Eqn, uses: list[tuple[Eqn, int]], patterns: dict[Eqn, Pattern], target: Target
) -> Var | None:
    """The operand to be stored instead of a result that needs more memory; or None.

    It is the operand of a broadcast or of a padding, so that values of one shape are computed
    together, wherever they are padded to; or the narrower float of a conversion.
    """
    if any(patterns[each] is OPAQUE or patterns[each].by_data[i] for each, i in uses):
        return None
    if eqn.primitive in (broadcast_to_p, embed_p):
        x = eqn.inputs[0]
        return x if isinstance(x, Var) and x.aval.size < eqn.outputs[0].aval.size else None
    return _narrower(eqn, target)


def _narrower(eqn: Eqn, target: Target) -> Var | None:
    """The narrower float that a conversion has as its operand; or None."""
    if not target[Materialisation].narrower or len(eqn.inputs) != 1 or eqn.primitive.scalar is None:
        return None
    (x,), (out,) = eqn.inputs, eqn.outputs
    if not isinstance(x, Var) or not is_float(x.aval.dtype) or not is_float(out.aval.dtype):
        return None
    return x if x.aval.dtype.itemsize < out.aval.dtype.itemsize else None


def _is_in_better_order(eqn: Eqn, uses: list[tuple[Eqn, int]], target: Target) -> bool:
    """Whether a transposed array is read along its last axis, whose elements lay far apart."""
    if eqn.primitive is not transpose_p or not eqn.params["permutation"]:
        return False
    (out,) = eqn.outputs
    changed = eqn.params["permutation"][-1] != out.aval.ndim - 1
    return changed and any(
        reads_rows(user, out, target) or is_summed_with_larger(user, out, target)
        for user, _ in uses
    )


def _is_gathered(
    eqn: Eqn, scattered: Set[Atom], uses: list[tuple[Eqn, int]], patterns: dict[Eqn, Pattern]
) -> bool:
    """Whether a contraction reads elements that are far apart along an axis.

    This is the case if several axes of a slice or a transposed array are taken as one: the place of
    each element would be computed by divisions. If it drops axes of one element alone, like a part
    of complex numbers, a product with a vector reads it in place, once.
    """
    if eqn.primitive.regroups is None or scattered.isdisjoint(eqn.inputs):
        return False
    before, after = ([n for n in x.aval.shape if n != 1] for x in (eqn.inputs[0], eqn.outputs[0]))
    products = (user for user, _ in uses if user.primitive is dot_general)
    return any(
        before != after
        or user.outputs[0].aval.size * patterns[user].folds > eqn.outputs[0].aval.size
        for user in products
    )


def _is_factor_of_several(uses: list[tuple[Eqn, int]]) -> bool:
    """Whether several products have a value as a factor, and read its elements more than once.

    Each would compute it, and pack it, though most can read a factor in memory where it is. Where
    elements of a factor are known to be zeros, products of them are left out instead. A factor that
    is larger than all that it is computed from takes longer to read.
    """
    products = [user for user, _ in uses if user.primitive is dot_general]
    # one without rows and columns reads each element once
    return sum(eqn.outputs[0].aval.ndim > len(eqn.params["batch"][0]) for eqn in products) > 1


def _is_broadcast(
    var: Var, uses: list[tuple[Eqn, int]], joins: Set[Eqn], limits: Materialisation
) -> bool:
    """Whether each element is used for many results, other than in turn by the innermost loop."""
    shape = var.aval.shape
    if not shape or shape[-1] <= UNROLLED:
        return False
    return any(
        out.aval.size > limits.repeated * var.aval.size
        for eqn, _ in uses
        for out in eqn.outputs
        if eqn not in joins
    )


def _is_materialised(
    var: Var,
    own: Pattern,
    cost: int,
    every_use: Mapping[Var, list[tuple[Eqn, int]]],
    patterns: dict[Eqn, Pattern],
    joins: Set[Eqn],
    outputs: int,
    limits: Materialisation,
) -> bool:
    uses = every_use.get(var, [])
    if not uses and not outputs:
        return False
    if own.folds > 1:
        return True
    if any(patterns[eqn] is OPAQUE for eqn, _ in uses):
        return True
    if outputs:
        # computed for the output in any case, and loaded or shared from there: the state of a
        # recurrence is often both passed on and stacked
        return (bool(uses) or outputs > 1) and cost > 0
    if cost <= limits.cheap:
        return any(patterns[eqn].by_data[i] for eqn, i in uses) and cost > 0
    if any(patterns[eqn].by_data[i] for eqn, i in uses):
        return True
    if len(uses) > 1:
        return not _is_divided(var, uses, every_use, patterns, joins)
    ((eqn, _),) = uses
    if eqn in joins:
        return False
    size = max(out.aval.size for out in eqn.outputs) * patterns[eqn].folds
    return size > limits.repeated * var.aval.size


def _is_divided(
    var: Var,
    uses: list[tuple[Eqn, int]],
    every_use: Mapping[Var, list[tuple[Eqn, int]]],
    patterns: dict[Eqn, Pattern],
    joins: Set[Eqn],
) -> bool:
    """Whether disjoint parts of a value are read, each for its position in a join.

    Then its elements are computed once, where they are written.
    """
    read = 0
    for eqn, i in uses:
        users = [user for out in eqn.outputs for user, _ in every_use.get(out, [])]
        if eqn in joins or any(user not in joins for user in users):
            return False
        read += eqn.outputs[0].aval.size * patterns[eqn].folds * patterns[eqn].reads[i]
    return read <= var.aval.size
