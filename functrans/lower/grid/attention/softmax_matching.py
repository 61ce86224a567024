"""Attention among roots: which of them form a softmax-weighted sum.

Expects the roots of a program. Leaves the description of `functrans.lower.grid.attention.softmax`
if only the result of several roots is needed, the first of which have an element for each query and
key. The matching is on expressions of the loop language: scaling, masking, biases and similar
operations may occur anywhere in the scores, and it does not matter whether weights or results are
divided, or by what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, convert, postorder
from functrans.loop.statements import local
from functrans.lower.grid.attention.def_use import (
    Among,
    Known,
    Mismatch,
    are_loops,
    folds_in,
    is_one_expression,
    loads_in,
    loops_at,
    matched,
    position_of,
    require,
    summed_as,
    value_of,
)
from functrans.lower.grid.attention.pairs import (
    PairProduct,
    Pairs,
    Values,
    pair_product,
    told_apart,
)
from functrans.lower.grid.attention.rerolling import rerolled
from functrans.lower.grid.attention.softmax import Attention, Statistic, tile_for
from functrans.lower.grid.products.recognition import extents
from functrans.lower.select.root import Root, extent_of


def attention_of(exponentials: Root, among: Among, grid: Grid) -> Attention | None:
    """The attention whose weights are the exponentials, if a kernel of its own is profitable."""
    return _Match(exponentials, among, grid).attention()


class _Match:
    """Matches the roots around a root of exponentials."""

    def __init__(self, exponentials: Root, among: Among, grid: Grid) -> None:
        self.exponentials = exponentials
        self.among = among
        self.substitute = among.simplify.substitute
        self.grid = grid
        self.roots: dict[Root, None] = {exponentials: None}
        self.statistics: list[Statistic] = []

    def attention(self) -> Attention | None:
        """The attention whose weights these are; raises if they are not."""
        try:
            found = self._matched()
        except Mismatch:
            return None
        inside = {*found.roots}
        needed = {
            root
            for root in found.roots[:-1]
            if root.output or not inside.issuperset(self.among.readers[root.target])
        }
        kept = tuple(each for each in self.statistics if each.root in needed)
        return found._replace(statistics=kept) if len(kept) == len(needed) else None

    def _matched(self) -> Attention:
        summing, totals, between = self._sums()
        (combined,) = summing.folds
        result, fold = self._inlined([value_of(summing), combined], lambda _, root: root in between)
        (key,) = fold.attribute[1]
        target = self.exponentials.target
        element = _only(node for node in loads_in(result) if node.attribute is target)
        at = loops_at(self.exponentials, element)
        require(key in at.values() and are_loops(at, {key, *summing.loops}))
        self.key, self.element, self.at = key, element, at
        rows = tuple(loop for loop in summing.loops if loop in at.values())
        columns = tuple(loop for loop in summing.loops if loop not in rows)
        self.rows = {*rows}
        self.count = const(extent_of(key), INDEX)
        require(fold.args[1] is self.count)
        score, largest, shift = self._scores()
        weighted, value, sum_, made = self._factors(fold, {*columns})
        (made,) = self.substitute([result], {fold: convert(made, fold.dtype)})
        position = position_of(summing)
        known: Known = {}
        total = local(summed_as(self.element.dtype), "total")
        if totals is not None:
            known = self._totals(totals, total)
        self.roots[summing] = None
        final, last = summing, self.among.last(summing)
        if last is not None:
            final, position = last.root, last.position
            self.roots[final] = None
            (made,) = self.substitute([last.value], {last.element: made})
        score, value = (self._of_operands(each) for each in (score, value))
        (made,) = self.substitute([made], known)
        needed = {node.attribute for node in loads_in(made)}
        require(needed.isdisjoint(root.target for root in self.roots))
        pairs, product = self._pairs(rows, score, value)
        found = Attention(
            roots=(*(root for root in self.roots if root is not final), final),
            statistics=(),
            pairs=pairs,
            product=product,
            values=Values(value, columns),
            score=score,
            largest=largest,
            shift=shift,
            exponential=value_of(self.exponentials).attribute,
            weight=self.element,
            weighted=weighted,
            sum=sum_,
            total=total,
            made=made,
            position=position,
            tile=self.grid.attention_tiles[-1],
        )
        return found._replace(tile=matched(tile_for(found, self.grid)))

    # -- the roots, one by one --------------------------------------------------------------------

    def _sums(self) -> tuple[Root, Root | None, set[Root]]:
        """The roots of weighted values and of the sum of weights, if any, and those in between.

        In between are normalised weights, for instance, for each query and key.
        """
        weighted: list[Root] = []
        plain: list[Root] = []
        between: set[Root] = set()
        readers = [*self.among.readers.get(self.exponentials.target, ())]
        while readers:
            root = readers.pop()
            require(is_one_expression(root) and len(root.folds) < 2)
            if not root.folds:
                require(root.loops == self.exponentials.loops and root not in between)
                between.add(root)
                readers += self.among.readers.get(root.target, ())
                continue
            term = _sum_of(root).args[0]
            if term.op == "convert":
                # half floats are accumulated in float32
                (term,) = term.args
            alone = term.op == "load" and term.attribute is self.exponentials.target
            (plain if alone else weighted).append(root)
        require(len(weighted) == 1 and len(plain) <= 1)
        return weighted[0], plain[0] if plain else None, between

    def _inlined(
        self, expressions: list[Scalar], is_inside: Callable[[Scalar, Root], bool]
    ) -> list[Scalar]:
        """Expressions in which reads of roots that the kernel computes are replaced by theirs."""
        while inside := {
            node: root
            for node in loads_in(*expressions)
            if (root := self.among.makers.get(node.attribute)) and is_inside(node, root)
        }:
            self.roots |= dict.fromkeys(inside.values())
            expressions = self.substitute(expressions, self.among.expressions(inside))
        return expressions

    def _scores(self) -> tuple[Scalar, Scalar, Scalar]:
        """A score, the largest score of a query, and the shift that is subtracted from scores."""
        difference = value_of(self.exponentials).args[0]
        score, shift = self.substitute(difference.args, self.at)
        shift = self._of_queries(shift)
        element = _only(node for node in loads_in(shift) if self._is_largest(node))
        root = self.among.makers[element.attribute]
        self.roots[root] = None
        at = loops_at(root, element)
        require(are_loops(at, self.rows))
        (fold,) = root.folds
        (counter,) = fold.attribute[1]
        require(fold.args[1] is self.count)
        (same,) = self.substitute(fold.args[:1], {**at, counter: self.key})
        score, same = self._of_pairs([score, same])
        require(same is score)
        if not folds_in(score):
            score = matched(rerolled(score, self.among.simplify))
        largest, made = self.substitute([fold, value_of(root)], at)
        self._note(root, at, made)
        (shift,) = self.substitute([shift], {element: made})
        require(folds_in(shift) == [largest] and self.key not in postorder([shift], {largest}))
        return score, largest, shift

    def _is_largest(self, element: Scalar) -> bool:
        root = self.among.makers.get(element.attribute)
        if root is None or len(root.folds) != 1:
            return False
        op, counters = root.folds[0].attribute
        return op == "max" and len(counters) == 1

    def _of_queries(self, shift: Scalar) -> Scalar:
        """The shift, without a load if it is stored for all keys."""
        (shift,) = self._inlined(
            [shift], lambda node, root: not (self._is_largest(node) or root.folds)
        )
        return shift

    def _of_pairs(self, expressions: list[Scalar]) -> list[Scalar]:
        """Expressions of queries and keys, with reads of roots that have no other reader replaced.

        Only one product may be computed in the kernel.
        """
        products: set[Root] = set()

        def is_inside(node: Scalar, root: Root) -> bool:
            leaves = {*postorder(node.args)}
            if self.key not in leaves or leaves.isdisjoint(self.rows) or not self._is_own(root):
                return False
            if root.folds and products - {root}:
                return False
            products.update([root] if root.folds else [])
            return True

        return self._inlined(expressions, is_inside)

    def _of_operands(self, expression: Scalar) -> Scalar:
        """An expression, with reads of cheap roots that have no other reader replaced.

        These are operands that a library would need in memory.
        """

        def is_cheap(_: Scalar, root: Root) -> bool:
            return not root.folds and root.node_count <= self.among.cheap and self._is_own(root)

        return self._inlined([expression], is_cheap)[0]

    def _is_own(self, root: Root) -> bool:
        """Whether only roots of the kernel read a root."""
        return not root.output and {*self.among.readers[root.target]} <= {*self.roots}

    def _factors(self, fold: Scalar, columns: Set[Scalar]) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """Values, weights, the symbol of their weighted sum, and the fold in terms of that symbol.

        A factor that does not depend on keys is applied to the sum.
        """
        wide = summed_as(fold.dtype)
        node, factors = fold.args[0], []
        while node is not self.element:
            if node.op == "convert" and node.args[0].dtype.kind == "f":
                node = node.args[0]
                continue
            require(node.op in ("mul", "div") and node.dtype.kind == "f")
            others = [side for side in node.args if self.element not in postorder([side])]
            require(len(others) == 1 and (node.op == "mul" or others[0] is node.args[1]))
            factors.append((node.op, convert(others[0], wide)))
            node = node.args[node.args[0] is others[0]]
        weighted, value = convert(self.element, wide), None
        sum_ = made = local(wide, "sum")
        for op, factor in reversed(factors):
            knows = {*postorder([factor])}
            if self.key not in knows:
                made = Scalar(op, (made, factor), wide)
            elif knows.isdisjoint(columns):
                weighted = Scalar(op, (weighted, factor), wide)
            else:
                one = const(1, wide) if value is None and op == "div" else value
                value = factor if one is None else Scalar(op, (one, factor), wide)
        return weighted, matched(value), sum_, made

    def _totals(self, root: Root, total: Scalar) -> Known:
        """The reads of sums of weights, in terms of the symbol for a query's sum."""
        fold = _sum_of(root)
        (element,) = root.loads[self.exponentials.target]
        at: Known = dict(zip(element.args, self.element.args, strict=True))
        (counter,) = fold.attribute[1]
        require(at.pop(counter, None) is self.key and fold.args[1] is self.count)
        require({*root.loops} <= {*at})
        position = self.substitute(position_of(root), at)
        moved, made = self.substitute([fold, value_of(root)], at)
        (made,) = self.substitute([made], {moved: convert(total, fold.dtype)})
        self._note(root, {loop: at[loop] for loop in root.loops}, made)
        self.roots[root] = None
        return {Scalar("load", tuple(position), made.dtype, root.target): made}

    def _note(self, root: Root, at: Known, made: Scalar) -> None:
        """Record a statistic of queries that others read, if each query has its own."""
        if len(at) == len(self.rows) and are_loops(at, self.rows):
            position = self.substitute(position_of(root), at)
            self.statistics.append(Statistic(root, tuple(position), made))

    # -- the kernel -------------------------------------------------------------------------------

    def _pairs(
        self, loops: Sequence[Scalar], score: Scalar, value: Scalar
    ) -> tuple[Pairs, PairProduct]:
        """The classified loops, and the operands of the product from which scores are computed."""
        fold = _only(folds_in(score))
        pairs = told_apart(loops, [self.key], [fold.args[0]], [value])
        require(extents(pairs.rows) >= self.grid.narrowest_product)
        return pairs, matched(pair_product(fold, pairs))


def _only(found: Iterable[Scalar]) -> Scalar:
    nodes = [*found]
    require(len(nodes) == 1)
    return nodes[0]


def _sum_of(root: Root) -> Scalar:
    """The sum over one index, of a given number of terms, in a root's expression."""
    require(is_one_expression(root) and len(root.folds) == 1)
    (fold,) = root.folds
    op, counters = fold.attribute
    require(op == "add" and len(counters) == 1 and fold.args[1].op == "const")
    require(fold.dtype.kind == "f")
    return fold
