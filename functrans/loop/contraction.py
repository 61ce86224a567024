"""Contraction: a product that is used by a single sum becomes a fused multiply-add.

Expects the expression of a function of parameters. Leaves it with `fma` for such sums, which takes
one operation instead of two. Nothing else is contracted: the sums and products of a program are
each rounded, as in NumPy. Whether a product has another reader depends on fusion, so that the same
expression would give different bits in two kernels; and the difference of two equal squares, only
one of which is rounded, would not be zero (W. Kahan, "Lecture Notes on the Status of IEEE Standard
754", 1997). The expression of a function is the same wherever it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from functrans.loop.scalar import Scalar, fma, postorder

SHORTEST = 4
"""The least number of bytes: the machine has no fused multiply-add for half floats."""


def contracted(result: Scalar) -> Scalar:
    """The expression with fused multiply-adds."""
    nodes = postorder([result])
    uses = Counter(arg for node in nodes for arg in node.args)
    done: dict[Scalar, Scalar] = {}
    for node in nodes:
        done[node] = _fused(node, done, uses)
    return done[result]


def _fused(node: Scalar, done: Mapping[Scalar, Scalar], uses: Mapping[Scalar, int]) -> Scalar:
    args = tuple([done[arg] for arg in node.args])
    if node.op in ("add", "sub") and node.dtype.kind == "f" and node.dtype.itemsize >= SHORTEST:
        first, second = args
        own = [arg.op == "mul" and uses[arg] == 1 for arg in node.args]
        if own[0]:
            x, y = (done[arg] for arg in node.args[0].args)
            return fma(x, y, second if node.op == "add" else -second)
        if own[1]:
            x, y = (done[arg] for arg in node.args[1].args)
            return fma(x if node.op == "add" else -x, y, first)
    return node if args == node.args else Scalar(node.op, args, node.dtype, node.attribute)
