"""Materialisation: which values of a graph are computed once and stored in memory.

The others are recomputed wherever they are used, which is profitable if they are cheap, or used
once. Expects a graph that has been rewritten for the machine. Leaves a set of its variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.types import is_float
from functrans.lazily import lazy
from functrans.loop.nodes import UNROLLED
from functrans.loop.target import Target
from functrans.lower.select.recomputation import index_arithmetic
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import embed_p, slice_p
from functrans.ops.arrays.structural import broadcast_to_p, transpose_p
from functrans.ops.compiled.elements import Pattern, pattern
from functrans.ops.compiled.emission import asks_for_elements, in_memory
from functrans.ops.elementwise.choice import select
from functrans.ops.linalg.contraction import dot_general
from functrans.records import NamedTuple

# few programs have products or gathers of transposed arrays
_is_summed_with_larger = lazy("functrans.optimise.machine.contraction_layout:is_summed_with_larger")
_reads_rows = lazy("functrans.optimise.machine.gathered_rows:reads_rows")


class Materialisation(NamedTuple):
    """Values that are computed once and stored, and not recomputed wherever they are used.

    Measured: `cheap` (the Rosenbrock product, which did not gain from keeping more),
    `cheap_repeated` (a lattice of nine velocities).
    """

    cheap: int = 12  # the most scalar operations that are recomputed and not stored
    cheap_repeated: int = 4  # the same of a value that is broadcast, like a sum of a few elements
    # the most operations for one element; beyond that, an operand is materialised
    largest_expression: int = 600
    repeated: int = 4  # how often an element may be recomputed within one expression
    deepest: int = 40  # the most moves of elements that are nested in one expression
    # whether the narrower float of a conversion is stored instead of the wider one: it takes
    # less memory, and products on tensor cores read 16-bit elements directly
    narrower: bool = False


OPAQUE = Pattern(0, 2, (), (), 0)
"""The pattern of library calls and loops, which compute from memory to memory."""


class _Recomputed(NamedTuple):
    """The cost of recomputing an element of a value wherever it is read."""

    cost: int = 0  # its operations
    # the same with those on indices, which cost nothing but are part of the expression
    size: int = 0
    depth: int = 0  # the moves of elements that are nested in its expression
    slow: bool = False  # whether one of its operations is slow
    # whether neighbours along an axis lie apart, as those of a slice or a transposed array
    scattered: bool = False
    zeros: bool = False  # whether some elements are known to be zeros, like those of a triangle


STORED = _Recomputed()
"""What is in memory, and read from there."""


def materialised(graph: Graph, target: Target) -> set[Var]:
    """The variables to materialise, besides the outputs."""
    facts, chosen = _Facts(graph, target), set[Var]()
    values: dict[Atom, _Recomputed] = {}
    for eqn in graph.eqns:
        if eqn in facts.joins:
            chosen.update(eqn.outputs)
            continue
        value = _recomputed(eqn, [values.get(x, STORED) for x in eqn.inputs], facts)
        for var in eqn.outputs:
            if var in facts.constants:
                # known zeros and ones simplify expressions, which saves more than storing them
                values[var] = _Recomputed(slow=value.slow)
            elif facts.is_stored(var, eqn, value, values):
                kept = facts.stored_instead(var, eqn)
                values[var] = _Recomputed(*_own(eqn, facts))
                if kept in values:  # (inputs are in memory)
                    values[kept] = STORED
                    chosen |= {kept} - facts.constants
            else:
                values[var] = value
    return chosen


def _recomputed(eqn: Eqn, operands: Sequence[_Recomputed], facts: _Facts) -> _Recomputed:
    """The cost of recomputing an element of an equation's results, given that of its operands."""
    own, (cost, size) = facts.patterns[eqn], _own(eqn, facts)
    if own is not OPAQUE:
        cost += sum(x.cost * reads for x, reads in zip(operands, own.reads, strict=True))
        size += sum(x.size * reads for x, reads in zip(operands, own.reads, strict=True))
    moves = eqn.primitive in (slice_p, transpose_p, concatenate_p)
    regroups = eqn.primitive.regroups is not None
    chooses = eqn.primitive is select and eqn.inputs[0] in facts.constants
    return _Recomputed(
        cost,
        size,
        depth=max((x.depth for x in operands), default=0) + (eqn.primitive.scalar is None),
        slow=own.slow or any(x.slow for x in operands),
        scattered=moves or (regroups and any(x.scattered for x in operands)),
        zeros=chooses or (own.folds == 1 and any(x.zeros for x in operands)),
    )


def _own(eqn: Eqn, facts: _Facts) -> tuple[int, int]:
    """The cost and size of an equation whose operands are in memory."""
    cost = facts.patterns[eqn].cost
    return cost, max(cost, int(eqn.primitive.scalar is not None))


class _Facts:
    """Analyses on which choices are based: access patterns, uses, constants."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.target, self.limits = target, target[Materialisation]
        self.outputs = Counter(graph.outputs)
        self.uses: dict[Var, list[tuple[Eqn, int]]] = {}
        for eqn in graph.eqns:
            for i, atom in enumerate(eqn.inputs):
                if isinstance(atom, Var):
                    self.uses.setdefault(atom, []).append((eqn, i))
        self.joins = {eqn for eqn in graph.eqns if asks_for_elements(eqn, target)}
        self.patterns = {eqn: self._pattern(eqn) for eqn in graph.eqns}
        self.addresses = index_arithmetic(graph) - self.outputs.keys()
        self.constants: set[Atom] = set()
        self.repeated: set[Atom] = set()  # what is larger than all that it is computed from
        for eqn in graph.eqns:
            if self._is_constant(eqn):
                self.constants.update(eqn.outputs)
            elif eqn not in self.joins:
                self.repeated.update(var for var in eqn.outputs if self._is_repeated(var, eqn))

    def _pattern(self, eqn: Eqn) -> Pattern:
        if eqn in self.joins:
            return Pattern(0, 1, (1,) * len(eqn.inputs), (False,) * len(eqn.inputs), 0)
        return OPAQUE if in_memory(eqn, self.target) else pattern(eqn)

    def _is_constant(self, eqn: Eqn) -> bool:
        own = self.patterns[eqn]
        if own.folds != 1 or eqn in self.joins or (not eqn.inputs and own.cost > self.limits.cheap):
            return False
        return all(isinstance(x, Literal) or x in self.constants for x in eqn.inputs)

    def _is_repeated(self, var: Var, eqn: Eqn) -> bool:
        return all(x in self.repeated or x.aval.size < var.aval.size for x in eqn.inputs)

    def is_stored(
        self, var: Var, eqn: Eqn, value: _Recomputed, values: Mapping[Atom, _Recomputed]
    ) -> bool:
        """Whether a result is computed once, rather than wherever it is read."""
        if var in self.addresses or not (var in self.uses or var in self.outputs):
            return False
        if value.depth > self.limits.deepest or value.size > self.limits.largest_expression:
            return True
        if self._is_in_better_order(var, eqn):
            return True
        if (value.slow or value.cost > self.limits.cheap_repeated) and self._is_broadcast(var):
            return True
        if not self.target.lanes_are_threads:
            shares = value.cost > 0 and not value.zeros and var not in self.repeated
            if shares and self._is_factor_and_read_again(var, value.slow):
                return True
            if any(values.get(x, STORED).scattered for x in eqn.inputs) and self._is_gathered(eqn):
                return True
        return self._is_worth_storing(var, eqn, value.cost)

    def _is_worth_storing(self, var: Var, eqn: Eqn, cost: int) -> bool:
        """Whether a value takes longer to compute where it is read than to load."""
        uses, patterns, outputs = self.uses.get(var, []), self.patterns, self.outputs[var]
        if patterns[eqn].folds > 1 or any(patterns[user] is OPAQUE for user, _ in uses):
            return True
        if outputs:
            # computed for the output in any case, and loaded or shared from there: the state of a
            # recurrence is often both passed on and stacked
            return (bool(uses) or outputs > 1) and cost > 0
        if any(patterns[user].by_data[i] for user, i in uses):
            return cost > 0
        if cost <= self.limits.cheap:
            return False
        if len(uses) > 1:
            return not self._is_divided(var)
        ((user, _),) = uses
        size = max(out.aval.size for out in user.outputs) * patterns[user].folds
        return user not in self.joins and size > self.limits.repeated * var.aval.size

    def _is_divided(self, var: Var) -> bool:
        """Whether disjoint parts of a value are read, each for its position in a join.

        Then its elements are computed once, where they are written.
        """
        read = 0
        for eqn, i in self.uses[var]:
            users = [user for out in eqn.outputs for user, _ in self.uses.get(out, [])]
            if eqn in self.joins or not self.joins.issuperset(users):
                return False
            own = self.patterns[eqn]
            read += eqn.outputs[0].aval.size * own.folds * own.reads[i]
        return read <= var.aval.size

    def _is_broadcast(self, var: Var) -> bool:
        """Whether an element is used for many results, and not in turn by the innermost loop."""
        shape, most = var.aval.shape, self.limits.repeated * var.aval.size
        if not shape or shape[-1] <= UNROLLED:
            return False
        return any(
            out.aval.size > most
            for user, _ in self.uses.get(var, [])
            if user not in self.joins and not user.primitive.transpose_moves
            for out in user.outputs
        )

    def _products(self, var: Var) -> list[Eqn]:
        return [user for user, _ in self.uses.get(var, []) if user.primitive is dot_general]

    def _is_factor_and_read_again(self, var: Var, slow: bool) -> bool:
        """Whether several products have a value as a factor, and read its elements more than once.

        Each would compute it, and pack it, though most can read a factor in memory where it is.
        Where elements of a factor are known to be zeros, products of them are left out instead. A
        factor that is larger than all that it is computed from takes longer to read. Of a ``slow``
        value, like a quotient, it suffices if one product and anything else read it.
        """
        # one without rows and columns reads each element once
        products = self._products(var)
        found = sum(eqn.outputs[0].aval.ndim > len(eqn.params["batch"][0]) for eqn in products)
        return found > 1 or (slow and found == 1 and len(self.uses[var]) > 1)

    def _is_gathered(self, eqn: Eqn) -> bool:
        """Whether a contraction reads elements that are far apart along an axis.

        This is the case if several axes of a slice or a transposed array are taken as one: the
        place of each element would be computed by divisions. If it drops axes of one element alone,
        like a part of complex numbers, a product with a vector reads it in place, once.
        """
        if eqn.primitive.regroups is None:
            return False
        x, out = eqn.inputs[0], eqn.outputs[0]
        before, after = ([n for n in each.aval.shape if n != 1] for each in (x, out))
        return any(
            before != after or user.outputs[0].aval.size * self.patterns[user].folds > out.aval.size
            for user in self._products(out)
        )

    def _is_in_better_order(self, var: Var, eqn: Eqn) -> bool:
        """Whether a transposed array is read along its last axis, whose elements lay far apart."""
        if eqn.primitive is not transpose_p or not eqn.params["permutation"]:
            return False
        changed = eqn.params["permutation"][-1] != var.aval.ndim - 1
        return changed and any(
            _reads_rows(user, var, self.target) or _is_summed_with_larger(user, var, self.target)
            for user, _ in self.uses.get(var, [])
        )

    def stored_instead(self, var: Var, eqn: Eqn) -> Var:
        """The value to store for a result: itself, or the operand if that needs less memory.

        It is the operand of a broadcast or of a padding, so that values of one shape are computed
        together, wherever they are padded to; or the narrower float of a conversion.
        """
        uses, patterns = self.uses.get(var, []), self.patterns
        if var in self.outputs or any(
            patterns[user] is OPAQUE or patterns[user].by_data[i] for user, i in uses
        ):
            return var
        if eqn.primitive in (broadcast_to_p, embed_p):
            x = eqn.inputs[0]
            return x if isinstance(x, Var) and x.aval.size < var.aval.size else var
        return self._narrower(eqn) or var

    def _narrower(self, eqn: Eqn) -> Var | None:
        """The narrower float that a conversion has as its operand; or None."""
        if not self.limits.narrower or len(eqn.inputs) != 1 or eqn.primitive.scalar is None:
            return None
        (x,), (out,) = eqn.inputs, eqn.outputs
        if not isinstance(x, Var) or not is_float(x.aval.dtype) or not is_float(out.aval.dtype):
            return None
        return x if x.aval.dtype.itemsize < out.aval.dtype.itemsize else None
