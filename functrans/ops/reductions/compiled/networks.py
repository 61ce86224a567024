"""Batcher's sorting networks: sequences of comparisons that do not depend on the keys.

Odd-even merging ("Sorting networks and their applications", 1968) needs fewer comparisons than
bitonic merging. There are no branches, so the lanes of a vector sort as many rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from functrans.loop.statements import Let, Statement, local
from functrans.ops.reductions.compiled.sort_keys import Words, in_order

Comparison = tuple[int, int]


def sorting(count: int) -> list[Comparison]:
    """The comparisons that sort ``count`` keys; the lesser key always goes to the lower number."""
    length = 1 << max(count - 1, 0).bit_length()
    return [pair for pair in _sorting(0, length) if pair[1] < count]


def cleaning(count: int, length: int) -> list[Comparison]:
    """The last steps of a bitonic merge, within the first of ``length`` keys, a power of two."""
    steps = [length >> n for n in range(1, length.bit_length())]
    pairs = ((i, i + step) for step in steps for i in range(count) if not i & step)
    return [(low, high) for low, high in pairs if high < count]


def compared(keys: Sequence[Words], comparisons: Iterable[Comparison]) -> list[Words]:
    """Keys after a sequence of comparisons and exchanges."""
    found = list(keys)
    for i, j in comparisons:
        found[i], found[j] = in_order(found[i], found[j])
    return found


def through(
    values: Sequence[Words], network: Sequence[Comparison]
) -> tuple[list[Words], tuple[Statement, ...]]:
    """Keys sorted by a network, and the statements that sort them."""
    given, take = named(values)
    found, compare = named(compared(given, network))
    return found, (take, compare)


def named(values: Sequence[Words]) -> tuple[list[Words], Let]:
    """Bind keys to locals."""
    names = [tuple(local(word.dtype, "key") for word in key) for key in values]
    targets, words = ([word for key in keys for word in key] for keys in (names, values))
    return names, Let(tuple(targets), tuple(words))


def _sorting(start: int, count: int) -> Iterator[Comparison]:
    if count < 2:
        return
    half = count // 2
    yield from _sorting(start, half)
    yield from _sorting(start + half, half)
    yield from _merging(start, count, 1)


def _merging(start: int, count: int, step: int) -> Iterator[Comparison]:
    """Merge every ``step``-th of ``count`` keys, whose two halves are sorted."""
    if 2 * step >= count:
        yield start, start + step
        return
    yield from _merging(start, count, 2 * step)
    yield from _merging(start + step, count, 2 * step)
    for i in range(start + step, start + count - step, 2 * step):
        yield i, i + step
