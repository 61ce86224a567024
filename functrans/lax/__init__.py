"""Control flow as operations: loops and branches that are traced once and compile to machine loops.

Python's own ``for``, ``while`` and ``if`` work in traced functions too, as far as their conditions
are known; a ``for`` loop is then recorded step by step. What is here is recorded as one operation,
whatever the number of steps.
"""

from functrans.lax.associative import associative_scan, cumlogsumexp
from functrans.lax.branches import cond, select, switch
from functrans.lax.implicit import custom_linear_solve, custom_root
from functrans.lax.loops import fori_loop, map, scan, while_loop

__all__ = [
    "associative_scan",
    "cond",
    "cumlogsumexp",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "map",
    "scan",
    "select",
    "switch",
    "while_loop",
]
