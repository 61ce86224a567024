"""Fusion of pairs: attention and its gradients, without an array of scores or weights in memory.

Expects roots. Leaves kernels of teams instead of those that are attention together
(`functrans.lower.grid.attention.softmax_kernel`), and instead of sums over pairs, if there are
several that are weighted by pairs, as in gradients
(`functrans.lower.grid.attention.gradient_kernel`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functrans.loop.grid import Grid
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.grid.attention.def_use import Among, Mismatch, is_exponential
from functrans.lower.grid.attention.gradient_kernel import fused_sums
from functrans.lower.grid.attention.gradient_matching import PairRoots, PairSum
from functrans.lower.grid.attention.softmax import Attention
from functrans.lower.grid.attention.softmax_kernel import fused_attention
from functrans.lower.grid.attention.softmax_matching import attention_of
from functrans.lower.grid.attention.warp_kernel import in_registers
from functrans.lower.grid.products.recognition import extents
from functrans.lower.select.materialise import Materialisation
from functrans.lower.select.root import Root


def with_fused_pairs(
    roots: Sequence[Root], target: Target, simplify: Simplifier
) -> tuple[Root, ...]:
    """The roots, with attention and its gradients replaced by one team kernel each."""
    if not target.grid or not target.grid.attention_tiles:
        return tuple(roots)
    fusion = _Fusion(target.grid, simplify, target[Materialisation].cheap)
    among = fusion.among(roots)
    for root in filter(is_exponential, roots):
        if root in among.numbers:
            made = fusion.around(root, among)
            among = among if made is None else fusion.among(made)
    return tuple(among.numbers)


class _Fusion:
    """Fuses roots that compute values of pairs."""

    def __init__(
        self,
        grid: Grid,
        simplify: Simplifier,
        cheap: int,  # the most nodes that are recomputed and not stored
    ) -> None:
        self.grid = grid
        self.simplify = simplify
        self.cheap = cheap

    def among(self, roots: Sequence[Root]) -> Among:
        return Among(roots, self.simplify, self.cheap)

    def around(self, exponentials: Root, among: Among) -> tuple[Root, ...] | None:
        """The roots, with kernels in place of those around exponentials; None if impossible."""
        made = self._with_gradients(exponentials, among)
        if made is not None:
            return made
        found = attention_of(exponentials, among, self.grid)
        return None if found is None else self._replaced(tuple(among.numbers), found)

    def _replaced(self, roots: Sequence[Root], found: Attention) -> tuple[Root, ...]:
        """The roots, with those of attention replaced by one kernel."""
        inside = {*found.roots}
        on_cores = bool(self.grid.warp_tiles) and not found.statistics
        tiles = -(-extents(found.pairs.partners) // found.tile.keys)
        leaves_out = tiles >= self.grid.fewest_tiles
        found = found._replace(on_tensor_cores=on_cores, leaves_out=leaves_out)
        root = in_registers(found, self.grid, self.simplify) if on_cores else None
        made = {found.roots[-1]: root or fused_attention(found, self.simplify)}
        return tuple(made.get(root, root) for root in roots if root in made or root not in inside)

    # -- gradients --------------------------------------------------------------------------------

    def _with_gradients(self, exponentials: Root, among: Among) -> tuple[Root, ...] | None:
        """The roots with kernels for all sums over pairs; None if weights are read only once."""
        try:
            pairs = PairRoots(exponentials, among)
            weighted = [each for each in pairs.sums if each.values is not None]
            if len(weighted) < 2:
                return None
            return self._with_sums(pairs, tuple(among.numbers))
        except Mismatch:
            return None

    def _with_sums(self, pairs: PairRoots, roots: tuple[Root, ...]) -> tuple[Root, ...] | None:
        needs = _Needs(roots)
        forward = self._forward(pairs, roots, needs)
        sums = [each for each in pairs.sums if forward is None or each.root not in forward.roots]
        left = [each for each in roots if each not in pairs.spaces]
        if forward is not None:
            left = [*self._replaced(left, forward)]
        for groups in (needs.independent(sums), [[each] for each in sums]):
            kernels = self._kernels(pairs, groups)
            if kernels is None:
                return None
            replaced = (kernels.get(root, root) for root in left)
            made = in_order([root for root in replaced if root is not None])
            if made is not None:
                return made
        return None

    def _forward(self, pairs: PairRoots, roots: Sequence[Root], needs: _Needs) -> Attention | None:
        """The forward pass among the sums, if all other sums recompute the values of pairs."""
        first = next(each.root for each in pairs.sums if each.values is not None)
        needed = needs.all_of(first)
        shadows = {each.root: pairs.shadow(each) for each in pairs.sums if each.root not in needed}
        shadows.pop(first, None)
        among = self.among(
            [
                shadows.get(root, root)
                for root in roots
                if root in needed or root not in pairs.spaces
            ]
        )
        return attention_of(pairs.exponentials, among, self.grid)

    def _kernels(
        self, pairs: PairRoots, groups: Sequence[Sequence[PairSum]]
    ) -> dict[Root, Root | None] | None:
        """The kernels that replace the roots of sums; None if there is no tile for one of them.

        Sums that do not fit into a common kernel get one each.
        """
        made: dict[Root, Root | None] = {}
        for group in groups:
            kernel = fused_sums(pairs.grouped(group), self.grid, self.simplify)
            if kernel is None and len(group) > 1:
                alone = self._kernels(pairs, [[each] for each in group])
                if alone is None:
                    return None
                made |= alone
                continue
            if kernel is None:
                return None
            made |= dict.fromkeys(root for each in group for root in (each.root, each.last))
            made[group[-1].last] = kernel
        return made


class _Needs:
    """The dependences between roots."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._makers = _makers(roots)
        self._found: dict[Root, frozenset[Root]] = {}

    def all_of(self, root: Root) -> frozenset[Root]:
        """All roots on which a root depends, directly or indirectly."""
        if root not in self._found:
            found: set[Root] = set()
            stack = [root]
            while stack:
                makers = (self._makers.get(source, ()) for source in stack.pop().loads)
                new = {maker for each in makers for maker in each} - found
                found |= new
                stack += new
            self._found[root] = frozenset(found)
        return self._found[root]

    def independent(self, sums: Sequence[PairSum]) -> list[list[PairSum]]:
        """Groups of sums over the same partners that do not depend on each other."""
        groups: list[list[PairSum]] = []
        for each in sums:
            for group in groups:
                same = group[0].partners == each.partners
                if same and not any(self._one_needs(each, other) for other in group):
                    group.append(each)
                    break
            else:
                groups.append([each])
        return groups

    def _one_needs(self, x: PairSum, y: PairSum) -> bool:
        """Whether one of two sums depends on the other."""
        of_x, of_y = self.all_of(x.last), self.all_of(y.last)
        return not (of_x.isdisjoint((y.root, y.last)) and of_y.isdisjoint((x.root, x.last)))


def _makers(roots: Sequence[Root]) -> Mapping[Buffer, Sequence[Root]]:
    makers: dict[Buffer, list[Root]] = {}
    for root in roots:
        for target in (root.target, *root.also_written):
            makers.setdefault(target, []).append(root)
    return makers


def in_order(roots: Sequence[Root]) -> tuple[Root, ...] | None:
    """Roots in topological order; None on a cycle."""
    makers = _makers(roots)
    numbers = {root: number for number, root in enumerate(roots)}
    done: dict[Root, None] = {}
    waiting: list[Root] = []

    def is_ready(root: Root) -> bool:
        for source in root.loads:
            of_source = makers.get(source, ())
            before = [each for each in of_source if numbers[each] < numbers[root]]
            if any(each not in done for each in before or of_source if each is not root):
                return False
        return True

    for root in roots:
        waiting.append(root)
        while ready := [each for each in waiting if is_ready(each)]:
            done |= dict.fromkeys(ready)
            waiting = [each for each in waiting if each not in done]
    return None if waiting else tuple(done)
