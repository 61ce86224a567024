"""Communication bucketing: small sums over processes become one message, of contiguous slices.

A message takes some microseconds however short it is, and gradients come one for each weight. Sums
along the same axis that do not depend on each other are combined into one message. (PyTorch's
DistributedDataParallel has such buckets, too: Li et al., "PyTorch Distributed", VLDB 2020.)
"""

from __future__ import annotations

from functrans.ir.graph import Graph
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.records import NamedTuple

# loaded only for graphs with messages
_along_first_axis = lazy("functrans.optimise.machine.exchanges:along_first_axis")
_bucketed = lazy("functrans.optimise.machine.exchanges:bucketed")


class Buckets(NamedTuple):
    """Which sums over processes share a message.

    Measured: `small` (two processes of one machine: four arrays of 128 KiB take 79 us for 95, of
    1 MiB a tenth longer than by themselves).
    """

    small: int = 1 << 17
    """The largest array, in bytes, that is put into a bucket: copying a larger one takes longer
    than a message."""
    largest: int = 25 << 20
    """The largest size of a bucket in bytes."""


def send_along_first_axis(graph: Graph, target: Target) -> Graph:
    """Make collectives exchange slices of the first axis, which are contiguous in memory.

    Expects collectives along any axis.
    Leaves collectives along the axis 0, and transpositions.
    """
    return _along_first_axis(graph)


def bucket_sums(graph: Graph, target: Target) -> Graph:
    """Delay sums over processes until they are read, and combine small ones into one message.

    Expects sums as they were traced.
    Leaves sums that depend on each other, or are large.
    """
    return _bucketed(graph, target[Buckets])
