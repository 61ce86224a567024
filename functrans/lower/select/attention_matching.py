"""Attention among roots: which of them are one softmax-weighted sum together.

Expects the roots of a program. Leaves what `functrans.lower.select.attention` describes, where only
its result is kept. Several roots make it, of which the first have an element for each query and
each key. What is matched are expressions of the loop language: scaling, masking, biases and the
like may stand anywhere in the scores, and whether weights or results are divided, or by what, makes
no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from functrans import vecmath
from functrans.caches import cached
from functrans.loop.functions import Function
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, convert, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, local
from functrans.loop.target import Target
from functrans.lower.select.attention import Attention, tile_for
from functrans.lower.select.products import HALF, extents, operands_of
from functrans.lower.select.rerolling import rerolled
from functrans.lower.select.root import Root, extent_of

Values = dict[Scalar, Scalar]


def attentions(roots: Sequence[Root], target: Target, simplify: Simplifier) -> list[Attention]:
    """All attention among the roots of a program that is worth a kernel of its own."""
    grid = target.grid
    if grid is None or not grid.attention_tiles:
        return []
    among = _Among(roots, simplify, target.materialisation.cheap)
    found = (_Match(root, among, grid).attention() for root in roots if _is_exponential(root))
    return [each for each in found if each is not None]


class _Among:
    """The roots of a program: who makes what, and who reads it."""

    def __init__(self, roots: Sequence[Root], simplify: Simplifier, cheap: int) -> None:
        self.simplify = simplify
        self.cheap = cheap
        self.readers: dict[Buffer, list[Root]] = {}
        self.makers: dict[Buffer, Root] = {}
        for root in roots:
            for source in root.loads:
                self.readers.setdefault(source, []).append(root)
            if _is_one_expression(root):
                self.makers[root.target] = root


def _is_one_expression(root: Root) -> bool:
    return not (root.call or root.part) and len(root.elements) == 1


def _value(root: Root) -> Scalar:
    ((_, value),) = root.elements
    return value


def _position(root: Root) -> tuple[Scalar, ...]:
    ((position, _),) = root.elements
    return position


def _at(root: Root, element: Scalar) -> Values:
    """What the loops of a root are where an element of it is read."""
    return {loop: element.args[axis] for loop, axis in zip(root.loops, root.axes, strict=True)}


def _is_exponential(root: Root) -> bool:
    """Whether a root is the exponential of a difference, element by element."""
    if not _is_one_expression(root):
        return False
    value = _value(root)
    return value.op == "apply" and value.args[0].op == "sub" and _is_exp(value.attribute)


@cached(16)
def _is_exp(function: Function) -> bool:
    """Whether a function is that of which a difference becomes a quotient."""
    if len(function.parameters) != 1:
        return False
    return function.result is Simplifier()(vecmath.exp(*function.parameters))


class _Mismatch(Exception):
    """It is something else."""


def _require(condition: bool) -> None:
    if not condition:
        raise _Mismatch


class _Match:
    """Matches the roots around one of exponentials.

    Parameters
    ----------
    exponentials : Root
    among : _Among
    grid : Grid
    """

    def __init__(self, exponentials: Root, among: _Among, grid: Grid) -> None:
        self.exponentials = exponentials
        self.among = among
        self.substitute = among.simplify.substitute
        self.grid = grid
        self.roots: dict[Root, None] = {exponentials: None}

    def attention(self) -> Attention | None:
        """The attention that these are the weights of, if that is what they are."""
        try:
            found = self._matched()
        except _Mismatch:
            return None
        inside = {*found.roots}
        for root in found.roots[:-1]:
            if root.output or not inside.issuperset(self.among.readers[root.target]):
                return None
        return found

    def _matched(self) -> Attention:
        summing, totals, between = self._sums()
        (combined,) = summing.folds
        result, fold = self._read_through([_value(summing), combined], between)
        (key,) = fold.attribute[1]
        target = self.exponentials.target
        element = _only(node for node in _loads(result) if node.attribute is target)
        at = _at(self.exponentials, element)
        _require(key in at.values() and _are_loops(at, {key, *summing.loops}))
        self.key, self.element, self.at = key, element, at
        rows = tuple(loop for loop in summing.loops if loop in at.values())
        columns = tuple(loop for loop in summing.loops if loop not in rows)
        self.rows = {*rows}
        self.count = const(extent_of(key), INDEX)
        _require(fold.args[1] is self.count)
        score, largest, shift = self._scores()
        weighted, value, sum_, made = self._factors(fold, {*columns})
        (made,) = self.substitute([result], {fold: convert(made, fold.dtype)})
        position = _position(summing)
        known: Values = {}
        total = local(_wide(self.element.dtype), "total")
        if totals is not None:
            known = self._totals(totals, total)
        self.roots[summing] = None
        last = self._last(summing)
        if last is not None:
            self.roots[last] = None
            (element,) = last.loads[summing.target]
            own = {here: there for there, here in _at(summing, element).items()}
            position = tuple(self.substitute(_position(last), own))
            (moved,) = self.substitute([_value(last)], own)
            (element,) = self.substitute([element], own)
            (made,) = self.substitute([moved], {element: made})
        final = summing if last is None else last
        score, value = (self._of_operands(each) for each in (score, value))
        (made,) = self.substitute([made], known)
        needed = {node.attribute for node in _loads(made)}
        _require(needed.isdisjoint(root.target for root in self.roots))
        return self._attention(
            Attention(
                roots=(*(root for root in self.roots if root is not final), final),
                batch=(),
                queries=rows,
                columns=columns,
                key=key,
                product=_only(_folds(score)),
                left=(),
                right=(),
                term=score,
                score=score,
                largest=largest,
                shift=shift,
                exponential=_value(self.exponentials).attribute,
                weight=self.element,
                weighted=weighted,
                value=value,
                sum=sum_,
                total=total,
                made=made,
                position=position,
                tile=self.grid.attention_tiles[-1],
            )
        )

    # -- the roots, one after the other -----------------------------------------------------------

    def _sums(self) -> tuple[Root, Root | None, set[Root]]:
        """The root of weighted values, that of weights if there is one, and what is in between.

        That are weights that have been divided, or the like, for each query and key.
        """
        weighted: list[Root] = []
        plain: list[Root] = []
        between: set[Root] = set()
        readers = [*self.among.readers.get(self.exponentials.target, ())]
        while readers:
            root = readers.pop()
            _require(_is_one_expression(root) and len(root.folds) < 2)
            if not root.folds:
                _require(root.loops == self.exponentials.loops and root not in between)
                between.add(root)
                readers += self.among.readers.get(root.target, ())
                continue
            fold = _sum_of(root)
            _require(fold is not None)
            assert fold is not None
            term = fold.args[0]
            if term.op == "convert":
                # half floats are added up as float32
                (term,) = term.args
            alone = term.op == "load" and term.attribute is self.exponentials.target
            (plain if alone else weighted).append(root)
        _require(len(weighted) == 1 and len(plain) <= 1)
        return weighted[0], plain[0] if plain else None, between

    def _read_through(self, values: list[Scalar], between: set[Root]) -> list[Scalar]:
        """Expressions, without reading what is in between."""
        while True:
            makers = {node: self.among.makers.get(node.attribute) for node in _loads(values[0])}
            inside = {node: root for node, root in makers.items() if root in between}
            if not inside:
                return values
            values = self.substitute(values, self._expressions(inside))

    def _scores(self) -> tuple[Scalar, Scalar, Scalar]:
        """A score, the largest of a query's, and what is subtracted from scores."""
        difference = _value(self.exponentials).args[0]
        score, shift = self.substitute(difference.args, self.at)
        shift = self._of_queries(shift)
        element = _only(node for node in _loads(shift) if self._is_largest(node))
        root = self.among.makers[element.attribute]
        self.roots[root] = None
        at = _at(root, element)
        _require(_are_loops(at, self.rows))
        (fold,) = root.folds
        (counter,) = fold.attribute[1]
        _require(fold.args[1] is self.count)
        (same,) = self.substitute(fold.args[:1], {**at, counter: self.key})
        score, same = self._of_pairs([score, same])
        _require(same is score)
        if not _folds(score):
            written_out = rerolled(score, self.among.simplify)
            _require(written_out is not None)
            assert written_out is not None
            score = written_out
        largest, made = self.substitute([fold, _value(root)], at)
        (shift,) = self.substitute([shift], {element: made})
        _require(_folds(shift) == [largest] and self.key not in postorder([shift], {largest}))
        return score, largest, shift

    def _is_largest(self, element: Scalar) -> bool:
        root = self.among.makers.get(element.attribute)
        if root is None or len(root.folds) != 1:
            return False
        op, counters = root.folds[0].attribute
        return op == "max" and len(counters) == 1

    def _of_queries(self, shift: Scalar) -> Scalar:
        """What is subtracted, without reading it where it is kept for all keys."""
        while True:
            read = [node for node in _loads(shift) if not self._is_largest(node)]
            known = {node: self.among.makers.get(node.attribute) for node in read}
            inside = {node: root for node, root in known.items() if root and not root.folds}
            if not inside:
                return shift
            (shift,) = self.substitute([shift], self._expressions(inside))

    def _of_pairs(self, expressions: list[Scalar]) -> list[Scalar]:
        """Expressions of queries and keys, without reading what nobody else reads.

        Of products only one is computed here.
        """
        product: Root | None = None
        while True:
            inside: dict[Scalar, Root] = {}
            for node in _loads(*expressions):
                root = self.among.makers.get(node.attribute)
                leaves = {*postorder(node.args)}
                if root is None or self.key not in leaves or leaves.isdisjoint(self.rows):
                    continue
                others = {*self.among.readers[root.target]} - {*self.roots}
                if root.output or others or (root.folds and product not in (None, root)):
                    continue
                product = root if root.folds else product
                inside[node] = root
            if not inside:
                return expressions
            expressions = self.substitute(expressions, self._expressions(inside))

    def _of_operands(self, expression: Scalar) -> Scalar:
        """An expression, without reading what is made for it alone and is rather done than kept.

        That are operands that a library would have had in memory.
        """
        while True:
            known = {node: self.among.makers.get(node.attribute) for node in _loads(expression)}
            inside = {node: root for node, root in known.items() if root and self._is_cheap(root)}
            if not inside:
                return expression
            (expression,) = self.substitute([expression], self._expressions(inside))

    def _is_cheap(self, root: Root) -> bool:
        others = {*self.among.readers[root.target]} - {*self.roots}
        is_less = not root.folds and root.node_count <= self.among.cheap
        return is_less and not root.output and not others

    def _expressions(self, read: Mapping[Scalar, Root]) -> Values:
        """What is read, as expressions; it is computed here."""
        self.roots |= dict.fromkeys(read.values())
        return {
            node: self.substitute([_value(root)], _at(root, node))[0] for node, root in read.items()
        }

    def _factors(self, fold: Scalar, columns: Set[Scalar]) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """What is weighted by what, what stands for their sum, and what the fold is, made of it.

        A factor that knows no key can as well be multiplied with the sum.
        """
        wide = _wide(fold.dtype)
        node, factors = fold.args[0], []
        while node is not self.element:
            if node.op == "convert" and node.args[0].dtype.kind == "f":
                node = node.args[0]
                continue
            _require(node.op in ("mul", "div") and node.dtype.kind == "f")
            others = [side for side in node.args if self.element not in postorder([side])]
            _require(len(others) == 1 and (node.op == "mul" or others[0] is node.args[1]))
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
        _require(value is not None)
        assert value is not None
        return weighted, value, sum_, made

    def _totals(self, root: Root, total: Scalar) -> Values:
        """What is read of sums of weights, made of what stands for that of a query."""
        fold = _sum_of(root)
        assert fold is not None
        (element,) = root.loads[self.exponentials.target]
        at: Values = dict(zip(element.args, self.element.args, strict=True))
        (counter,) = fold.attribute[1]
        _require(at.pop(counter, None) is self.key and fold.args[1] is self.count)
        _require({*root.loops} <= {*at})
        position = self.substitute(_position(root), at)
        moved, made = self.substitute([fold, _value(root)], at)
        (made,) = self.substitute([made], {moved: convert(total, fold.dtype)})
        self.roots[root] = None
        return {Scalar("load", tuple(position), made.dtype, root.target): made}

    def _last(self, summing: Root) -> Root | None:
        """What is made of the elements of the sum, one by one, if that is all that they are for."""
        readers = self.among.readers.get(summing.target, [])
        if summing.output or len(readers) != 1:
            return None
        (root,) = readers
        if not _is_one_expression(root) or root.folds:
            return None
        element, *others = root.loads[summing.target]
        at = _at(summing, element)
        if others or not _are_loops(at, {*root.loops}) or len(at) != len(root.loops):
            return None
        return root

    # -- the kernel that it can be ----------------------------------------------------------------

    def _attention(self, found: Attention) -> Attention:
        """The same with its loops and operands told apart, and a tile for it."""
        value, *counts = found.product.args
        _require(all(count.op == "const" for count in counts))
        near = [node for node in _loads(value) if self.key in postorder(node.args)]
        shared = {*postorder([*near, found.value])}
        batch = tuple(loop for loop in found.queries if loop in shared)
        queries = tuple(loop for loop in found.queries if loop not in shared)
        _require(extents(queries) >= self.grid.narrowest_product)
        operands = operands_of(value, {*queries}, {self.key})
        _require(operands is not None)
        assert operands is not None
        left, right = operands
        found = found._replace(
            batch=batch, queries=queries, left=tuple(left), right=tuple(right), term=value
        )
        tile = tile_for(found, self.grid)
        _require(tile is not None)
        assert tile is not None
        return found._replace(tile=tile)


def _loads(*expressions: Scalar) -> list[Scalar]:
    return [node for node in postorder(expressions) if node.op == "load"]


def _folds(expression: Scalar) -> list[Scalar]:
    return [node for node in postorder([expression]) if node.op == "fold"]


def _only(found: Iterable[Scalar]) -> Scalar:
    nodes = [*found]
    _require(len(nodes) == 1)
    return nodes[0]


def _are_loops(at: Values, loops: Set[Scalar]) -> bool:
    """Whether an element is read at some of the loops, each along one axis."""
    return {*at.values()} <= loops and len({*at.values()}) == len(at)


def _sum_of(root: Root) -> Scalar | None:
    """The sum over one index, of so many terms as it says, that is in a root's expression."""
    if not _is_one_expression(root) or len(root.folds) != 1:
        return None
    (fold,) = root.folds
    op, counters = fold.attribute
    plain = op == "add" and len(counters) == 1 and fold.args[1].op == "const"
    return fold if plain and fold.dtype.kind == "f" else None


def _wide(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """What numbers are added up as."""
    return np.dtype(np.float32) if dtype == HALF else dtype
