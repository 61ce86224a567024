"""Strip-mining of a program over the rows that products share, with products of stacks inside.

The densities of a mixture are products for each component, combined over all components of a point.
Nest by nest, transformed points pass through memory between one product and the next. Executed for
a block of points at a time, with all components inside, they stay in the cache. What sums over
points (the gradients of the components) is accumulated from block to block.

Unlike `functrans.lower.product.streaming`, whose outermost loop goes over a stack, this applies to
whole roots, whichever of their loops goes over the rows. The roots are written for the rows of a
block, then fused and generated like any others, as the body of a loop of the program.

Expects roots in order. Leaves those before the blocks, those of a block, and those after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from math import prod

from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, postorder, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, buffer, load
from functrans.loop.target import Target
from functrans.lower.nest.bodies import Nest
from functrans.lower.product.bands import ALL, Band, band_read
from functrans.lower.select.root import Contraction, Elements, Root, extent_of
from functrans.ops.compiled.elements import Index
from functrans.records import NamedTuple, dataclass


class RowBlocks(NamedTuple):
    """Thresholds of strip-mining over rows.

    Measured: `fewest_rows` and `most_rows` (mixtures: on one thread, 32 to 256 rows are equally
    fast; two threads share the nests of a block, and take 0.6 to 0.75 of the time with 256 rows
    that they take with 32), `most_others` (0.6 to 0.9 of the time at 1.6 to 3.3 MB, 1.2 at 6.6 MB).
    """

    least_bytes: int = 4 << 20
    """The fewest bytes of spared memory."""
    block_bytes: int = 400_000
    """The approximate bytes of the spared values of a block: less than half of a second-level
    cache."""
    fewest_rows: int = 256
    """The fewest rows of a block: for each block, the other operands are read, and sums added."""
    most_rows: int = 512
    most_terms: int = 400
    """The most terms of products for each number that is spared, as for streams."""
    multiple: int = 8
    """The number of rows of a block is a multiple of this."""
    most_others: int = 4 << 20
    """The most bytes of a product's other operand, which each block reads, or of its sums."""


@dataclass
class Rows:
    """The roots that are computed for a block of rows, those before, and those after.

    Parameters
    ----------
    extent : int
        The number of rows.
    readers : dict
        All roots that read a buffer.
    """

    extent: int
    readers: Mapping[Buffer, Sequence[Root]]
    before: list[Root] = field(default_factory=list)
    after: list[Root] = field(default_factory=list)
    members: dict[Elements, Scalar] = field(default_factory=dict)
    """The roots of a block, and the index of each over the rows."""
    axes: dict[Buffer, int] = field(default_factory=dict)
    """The axis of rows of each buffer that a block computes."""
    sums: set[Buffer] = field(default_factory=set)
    late: set[Buffer] = field(default_factory=set)
    used: set[Buffer] = field(default_factory=set)
    """The buffers that a block, or what follows the blocks, reads or writes."""

    def add(self, root: Root) -> None:
        """Assign a root to one of the three parts."""
        sources, written = root.loads.keys(), {root.target, *root.also_written}
        if self.late.isdisjoint(sources):
            if not self.axes.keys().isdisjoint(sources):
                if isinstance(root, Elements) and self._takes(root):
                    self.used.update(sources, written)
                    return
            elif self.used.isdisjoint(written):
                self.before.append(root)
                return
        self.after.append(root)
        self.late |= written
        self.used.update(sources, written)

    def begin(self, root: Contraction, row: Scalar) -> None:
        """The first member."""
        self._computes(root, row)
        self.used.update(root.loads, (root.target,))

    def _takes(self, root: Elements) -> bool:
        """Add a root to a block, if it can be computed there."""
        if root.part or root.instead:
            return False
        loads = [x for one in self.axes for x in root.loads.get(one, ())]
        rows = {x.args[self.axes[x.attribute]] for x in loads}
        if len(rows) != 1:
            return False
        (row,) = rows
        others = [arg for x in loads for i, arg in enumerate(x.args) if i != self.axes[x.attribute]]
        if row.op != "index" or row.attribute[2] != self.extent or row in postorder(others):
            return False
        if row in root.loops:
            return self._computes(root, row)
        return self._sums(root, row)

    def _computes(self, root: Elements, row: Scalar) -> bool:
        if isinstance(root, Contraction) and (root.symmetric or root.shared_rows):
            return False
        if any(row in fold.attribute[1] for fold in root.folds):
            return False
        self.members[root] = row
        self.axes[root.target] = root.axes[root.loops.index(row)]
        return True

    def _sums(self, root: Elements, row: Scalar) -> bool:
        """Whether a root is a sum over all rows, and nothing else."""
        if isinstance(root, Contraction):
            is_sum = row is root.counter and not root.symmetric and not root.shared_rows
        else:
            values = [value for _, value in root.elements]
            is_sum = all(
                value.op == "fold" and value.attribute[0] == "add" and row in value.attribute[1]
                for value in values
            ) and len(root.folds) == len({*values})
        if is_sum:
            self.members[root] = row
            self.sums.add(root.target)
            self.late.add(root.target)
        return is_sum

    @property
    def passing(self) -> list[Buffer]:
        """The buffers that only roots of a block read."""
        return [
            root.target
            for root in self.members
            if root.target in self.axes
            and not root.output
            and all(reader in self.members for reader in self.readers.get(root.target, ()))
        ]

    @property
    def spared(self) -> int:
        """The bytes that need not be in memory."""
        return sum(one.nbytes for one in self.passing)

    def is_worth_it(self, limits: RowBlocks) -> bool:
        """Whether there are several blocks, which spare much memory, and read little again."""
        products = [root for root in self.members if isinstance(root, Contraction)]
        if len(products) < 2 or self.spared < limits.least_bytes:
            return False
        # without a stack, streams of products decide
        if not all(root.sides[0] for root in products):
            return False
        terms = sum(root.work for root in products) // 2
        if terms > limits.most_terms * sum(one.count for one in self.passing):
            return False
        again = max(map(self._read_again, products))
        return again <= limits.most_others and self.extent >= 2 * self.height(limits)

    def _read_again(self, product: Contraction) -> int:
        """The bytes of what each block reads: the operand without rows, or the sums."""
        row, (batch, *sides) = self.members[product], product.sides
        others = [loop for side in sides if row not in side for loop in side]
        if product.counter is not None and row is not product.counter:
            others.append(product.counter)
        count = 0 if row in batch else prod(map(extent_of, (*batch, *others)))
        return count * product.target.dtype.itemsize

    def height(self, limits: RowBlocks) -> int:
        """The rows of a block: a divisor of their number, if there is one that fits."""
        wide, multiple = max(self.spared // self.extent, 1), limits.multiple
        most = min(max(limits.block_bytes // wide, limits.fewest_rows), limits.most_rows)
        most = max(most // multiple, 1) * multiple
        divisors = range(most, most // 2, -multiple)
        return next((n for n in divisors if self.extent % n == 0), most)

    def of_block(self, start: Scalar, count: int, simplify: Simplifier) -> Iterator[Elements]:
        """The roots of a block, which has its own buffers; then sums and kept values are stored."""
        indices: dict[Scalar, Scalar] = {}
        blocks: dict[Buffer, Buffer] = {}
        passing = {*self.passing}
        for root, row in self.members.items():
            own = indices.setdefault(row, index(row.attribute[0], count))
            values = {row: simplify(start + own)}
            for one in self.axes.keys() & root.loads.keys():
                for x in root.loads[one]:
                    values[x] = load(blocks[one], [own if i is row else i for i in x.args])
            target = root.target
            shape = [count if i == self.axes.get(target) else n for i, n in enumerate(target.shape)]
            blocks[target] = buffer(f"{target.name}_rows", target.dtype, shape)
            made = _of_rows(replace(root, target=blocks[target]), row, own, values, simplify)
            yield made
            value = partial(load, blocks[target])
            if target in self.sums:
                read = ALL
                if isinstance(root, Contraction):
                    read = band_read(root, self.readers.get(target, ()), simplify)
                yield _stored(root, made, partial(_added, target, value, read))
            elif target not in passing:
                kept = _stored(root, made, value)
                places = [simplify.substitute(at, {own: values[row]}) for at, _ in kept.elements]
                elements = zip(map(tuple, places), (x for _, x in kept.elements), strict=True)
                yield replace(kept, elements=tuple(elements), part=True)

    def zeros(self) -> Iterator[Elements]:
        """The roots that clear the sums."""
        for root in self.members:
            if root.target in self.sums:
                yield _stored(root, root, partial(_zero, root.target))


def _zero(one: Buffer, at: Index) -> Scalar:
    return const(0, one.dtype)


def _added(one: Buffer, value: Callable[[Index], Scalar], read: Band, at: Index) -> Scalar:
    """The sum of an element so far, and that of a block; 0 where it is not read."""
    total = load(one, at) + value(at)
    for bound, sign in zip(read, (1, -1), strict=True):
        if bound is not None:
            inside = sign * (at[-2] + bound) <= sign * at[-1]
            total = where(inside, total, const(0, one.dtype))
    return total


def _of_rows(
    root: Elements, row: Scalar, own: Scalar, values: Mapping[Scalar, Scalar], simplify: Simplifier
) -> Elements:
    """A root whose index over all rows is replaced by its ``own`` index over those of a block."""

    def renamed(loops: Iterable[Scalar]) -> tuple[Scalar, ...]:
        return tuple(own if loop is row else loop for loop in loops)

    def moved(value: Scalar) -> Scalar:
        if value.op != "fold" or row not in value.attribute[1]:
            return simplify.substitute([value], values)[0]
        op, over = value.attribute
        (term,) = simplify.substitute(value.args[:1], values)
        extents = [
            as_index(extent_of(own)) if i is row else n
            for i, n in zip(over, value.args[1:], strict=True)
        ]
        return Scalar("fold", (term, *extents), value.dtype, (op, renamed(over)))

    elements = tuple((renamed(at), moved(value)) for at, value in root.elements)
    made = replace(root, loops=renamed(root.loops), elements=elements, output=False)
    if isinstance(made, Contraction):
        assert made.counter is not None
        (counter,), sides = renamed([made.counter]), tuple(map(renamed, made.sides))
        factors = tuple(map(moved, made.factors))
        return replace(made, sides=sides, counter=counter, factors=factors)
    return made


def _stored(root: Elements, made: Elements, value: Callable[[Index], Scalar]) -> Elements:
    """The root that stores a value for each element of another, in the target of a root."""
    loops = dict(zip(made.axes, made.loops, strict=True))
    whole = tuple(loops.get(axis, ZERO) for axis in range(len(root.target.shape)))
    places = [at for at, _ in made.elements] or [whole]
    elements = tuple((at, value(at)) for at in places)
    return Elements(root.target, made.loops, made.axes, elements, output=True)


def rows_of(
    roots: Sequence[Root], readers: Mapping[Buffer, Sequence[Root]], target: Target
) -> Rows | None:
    """The roots by parts, if it is worthwhile to compute some of them block by block."""
    limits = target[RowBlocks]
    for number, root in enumerate(roots):
        if not isinstance(root, Contraction) or root.symmetric or root.shared_rows:
            continue
        row = max(chain(*root.sides[1:]), key=extent_of)
        found = Rows(extent_of(row), readers, before=[*roots[:number]])
        found.begin(root, row)
        for each in roots[number + 1 :]:
            found.add(each)
        if found.is_worth_it(limits):
            return found
    return None


def row_block_nests(
    found: Rows,
    generate: Callable[[Sequence[Root]], Sequence[Nest]],
    target: Target,
    simplify: Simplifier,
) -> list[Nest]:
    """The nests of the blocks: sums are cleared, then each block adds to them."""
    height = found.height(target[RowBlocks])
    block = index("block", found.extent // height)
    inside = generate([*found.of_block(simplify(block * height), height, simplify)])
    loop = For(
        block,
        ZERO,
        const(found.extent // height, INDEX),
        tuple(each for nest in inside for each in nest.body),
    )
    scratch = tuple(row for nest in inside for row in nest.scratch)
    largest = max(nest.largest_constant for nest in inside)
    blocks = Nest((loop,), scratch, largest_constant=largest, in_phases=True)
    rest = found.extent % height
    start = const(found.extent - rest, INDEX)
    after = generate([*found.of_block(start, rest, simplify)]) if rest else ()
    return [*generate([*found.zeros()]), blocks, *after]
