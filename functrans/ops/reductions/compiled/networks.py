"""Batcher's sorting networks: which keys are compared, whatever they are.

A network that merges even and odd keys ("Sorting networks and their applications", 1968) has fewer
comparisons than a bitonic one. Nothing in it branches, so lanes of vectors sort as many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from functrans.loop.statements import Let, Statement, local
from functrans.ops.reductions.compiled.sort_keys import Words, in_order

Comparison = tuple[int, int]


def sorting(count: int) -> list[Comparison]:
    """The comparisons that sort so many keys, the lesser one always to the lower number."""
    length = 1 << max(count - 1, 0).bit_length()
    return [pair for pair in _sorting(0, length) if pair[1] < count]


def compared(keys: Sequence[Words], comparisons: Iterable[Comparison]) -> list[Words]:
    """Keys, of which pairs have been put in order."""
    found = list(keys)
    for i, j in comparisons:
        found[i], found[j] = in_order(found[i], found[j])
    return found


def through(
    values: Sequence[Words], network: Sequence[Comparison]
) -> tuple[list[Words], tuple[Statement, ...]]:
    """Keys that have been through a network, and the statements for that."""
    given, take = named(values)
    found, compare = named(compared(given, network))
    return found, (take, compare)


def named(values: Sequence[Words]) -> tuple[list[Words], Let]:
    """Keys in locals of a thread."""
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
    """Merge every ``step``-th of so many keys, whose halves are in order."""
    if 2 * step >= count:
        yield start, start + step
        return
    yield from _merging(start, count, 2 * step)
    yield from _merging(start + step, count, 2 * step)
    for i in range(start + step, start + count - step, 2 * step):
        yield i, i + step
