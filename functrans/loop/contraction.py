"""Contraction: a product that is used by a single sum becomes a fused multiply-add.

Expects the expression of a function of parameters. Leaves it with `fma` for such sums, which takes
one operation instead of two. Nothing else is contracted: a program's own sums and products are
rounded as NumPy rounds them, each on its own. Whether a product has another reader depends on what
is fused with what, so the same expression would come out differently in two kernels; and of two
equal squares, one of them rounded and the other not, the difference is not zero (W. Kahan, "Lecture
Notes on the Status of IEEE Standard 754", 1997). A function is the same wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from functrans.loop.scalar import Scalar, fma, postorder

SHORTEST = 4
"""Bytes of a number: the machine has no such operation for half floats."""


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
