"""Control flow as operations: loops and branches that are traced once and compile to machine loops.

Besides: parts of arrays at traced places, and sums over segments.

Python's own ``for``, ``while`` and ``if`` work in traced functions too, as far as their conditions
are known; a ``for`` loop is then recorded step by step. What is here is recorded as one operation,
whatever the number of steps.
"""

from functrans.lax.associative import associative_scan, cumlogsumexp
from functrans.lax.branches import cond, select, switch
from functrans.lax.implicit import custom_linear_solve, custom_root
from functrans.lax.loops import fori_loop, map, scan, while_loop
from functrans.lax.slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    segment_max,
    segment_min,
    segment_prod,
    segment_sum,
)

__all__ = [
    "associative_scan",
    "cond",
    "cumlogsumexp",
    "custom_linear_solve",
    "custom_root",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "fori_loop",
    "map",
    "scan",
    "segment_max",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "select",
    "switch",
    "while_loop",
]
