"""Loop fusion into streams: consecutive nests of products over the same rows, block by block.

Expects nests in order. Leaves them in a valid order, some of them grouped into streams, each of
which `functrans.lower.product.streaming` turns into one nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Contraction, Elements, Readers, extent_of
from functrans.records import NamedTuple, dataclass


class Streaming(NamedTuple):
    """Thresholds of the fusion of products over blocks of rows.

    Measured: `least_shared_bytes` and `most_terms`.
    """

    fewest_matrices: int = 4
    """The fewest matrices of a stack that are divided among threads; of fewer, the rows of each are
    divided, if there are as many shares."""
    least_bytes: int = 1 << 20
    """The fewest bytes of spared memory: fewer are in the cache anyway."""
    least_shared_bytes: int = 8 << 20
    """The same if threads share rows, and no mask skips columns."""
    most_terms: int = 400
    """The most terms of products for each number that need not be in memory: with more, writing and
    reading it takes a negligible time."""
    block_bytes: int = 600_000
    """The approximate bytes of all values of a block of rows."""
    most_rows: int = 48
    """The most rows of a block; their number is a multiple of `multiple`."""
    multiple: int = 8
    most_parts: int = 16
    """The most threads with their own blocks, and their own sums over rows."""
    tile: int = 32
    """The columns of a tile, which are skipped together if all are masked."""
    fewest_tiles: int = 4
    """The fewest tiles for which a mask is inspected."""


class Cut(NamedTuple):
    """The division of the rows of each matrix."""

    rows: int  # the rows of a block
    shares: int  # the number of shares, each of which has as many blocks, spread over all rows


@dataclass
class Stream:
    """Nests over the same rows, and the buffers that they compute."""

    batch: tuple[Scalar, ...]  # the loops over a stack
    row: Scalar  # the loop over rows
    members: list[Loop] = field(default_factory=list)
    # the root that computes each buffer with these loops
    made: dict[Buffer, Elements] = field(default_factory=dict)
    # products that are sums over all rows, by their buffers
    sums: dict[Buffer, Contraction] = field(default_factory=dict)

    @property
    def around(self) -> tuple[Scalar, ...]:
        """The common loops of all members."""
        return (*self.batch, self.row)

    @property
    def roots(self) -> Iterator[Elements]:
        """The roots of all members."""
        for root in (root for loop in self.members for root in loop.roots):
            assert isinstance(root, Elements)
            yield root

    def takes(self, loop: Loop) -> bool:
        """Add a nest as a member, if it can be executed block by block; whether it can."""
        roots = [root for root in loop.roots if isinstance(root, Elements)]
        if len(roots) != len(loop.roots) or not self.sums.keys().isdisjoint(loop.sources):
            return False
        if len(roots) == 1 and self._is_sum(roots[0]):
            assert isinstance(roots[0], Contraction)
            self.sums[roots[0].target] = roots[0]
        elif all(self._is_of_rows(root) for root in roots):
            self.made.update((root.target, root) for root in roots)
        else:
            return False
        self.members.append(loop)
        return True

    def _is_of_rows(self, root: Elements) -> bool:
        """Whether a root computes a row from these rows only."""
        if root.loops[: len(self.around)] != self.around or root.part:
            return False
        if not isinstance(root, Contraction):
            return self._is_read_at(root, self.around)
        _, right = root.factors
        rows = root.sides[1] == (self.row,)
        return rows and not self._reads(right) and self._is_read_at(root, self.around)

    def _is_sum(self, root: Elements) -> bool:
        """Whether a product is a sum over all rows of values of the stream."""
        if not isinstance(root, Contraction) or root.sides[0] != self.batch:
            return False
        counter = root.counter
        assert counter is not None
        whole = extent_of(counter) == extent_of(self.row)
        reads = any(self._reads(factor) for factor in root.factors)
        return whole and reads and self._is_read_at(root, (*self.batch, counter))

    def _reads(self, factor: Scalar) -> bool:
        return any(
            node.op == "load" and node.attribute in self.made for node in postorder([factor])
        )

    def _is_read_at(self, root: Elements, loops: Sequence[Scalar]) -> bool:
        """Whether a root reads values of the stream at these indices only."""
        own = {root.target: root} if root.loops[: len(self.around)] == self.around else {}
        for source, loads in root.loads.items():
            maker = (self.made | own).get(source)
            if maker is None:
                continue
            axes = maker.axes[: len(loops)]
            if any(
                x.args[axis] is not loop
                for x in loads
                for axis, loop in zip(axes, loops, strict=True)
            ):
                return False
        return True

    def passing(self, readers: Readers) -> dict[Buffer, Elements]:
        """The buffers that are computed here and read nowhere else."""
        inside = {root for loop in self.members for root in loop.roots}
        return {
            one: root
            for one, root in self.made.items()
            if not root.output and all(each in inside for each in readers.get(one, ()))
        }


def streams(loops: Sequence[Loop], readers: Readers, target: Target) -> Iterator[Stream | Loop]:
    """Nests in a valid order, some of them grouped into streams."""
    rest = list(loops)
    while rest:
        stream, taken, moved = _begun(rest)
        if stream is None or not _is_worth_it(stream, readers, target):
            yield rest.pop(0)
            continue
        # nests that do not depend on the stream come before it
        yield from moved
        yield stream
        rest = rest[taken:]


def _begun(loops: Sequence[Loop]) -> tuple[Stream | None, int, list[Loop]]:
    """The longest stream that starts with the first nest, its end, and the nests in between."""
    first = next(iter(loops[0].roots))
    if not isinstance(first, Contraction) or len(first.sides[1]) != 1:
        return None, 0, []
    stream = Stream(first.sides[0], first.sides[1][0])
    if not stream.takes(loops[0]):
        return None, 0, []
    taken, moved, between = 1, [], []
    for number, loop in enumerate(loops[1:], 1):
        made = stream.made.keys() | stream.sums.keys()
        if made.isdisjoint(loop.sources):
            between.append(loop)
        elif stream.takes(loop):
            taken, moved = number + 1, [*between]
        else:
            break
    return stream, taken, moved


def spared(stream: Stream, readers: Readers) -> int:
    """The bytes of values that need not be in memory."""
    return sum(one.nbytes for one in stream.passing(readers))


def cut_of(stream: Stream, readers: Readers, target: Target) -> Cut:
    """As many rows as fit into the cache with all their values; shares if matrices are few.

    The shares' own buffers take no more memory than is spared.
    """
    limits = target[Streaming]
    count, extent = prod(map(extent_of, stream.batch)), extent_of(stream.row)
    passing = spared(stream, readers)
    wide = max(passing // (count * extent), 1)
    rows = min(limits.block_bytes // wide, limits.most_rows, extent)
    rows = max(rows // limits.multiple, 1) * limits.multiple
    if count >= limits.fewest_matrices:
        return Cut(rows, 1)
    # products pack about as much again
    own = 2 * rows * wide + sum(one.nbytes for one in stream.sums) // count
    most = min(min(limits.most_parts, passing // own) // count, -(-extent // rows))
    # equally many blocks for each thread
    return Cut(rows, 1 << max(most, 1).bit_length() - 1)


def _is_worth_it(stream: Stream, readers: Readers, target: Target) -> bool:
    limits = target[Streaming]
    products = [root for root in stream.roots if isinstance(root, Contraction)]
    if len(products) < 2 or spared(stream, readers) < limits.least_bytes:
        return False
    parts = prod(map(extent_of, stream.batch)) * cut_of(stream, readers, target).shares
    terms = sum(root.work for root in products) // 2
    few = limits.most_terms * sum(one.count for one in stream.passing(readers))
    return parts >= limits.fewest_matrices and terms <= few
