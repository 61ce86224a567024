"""Comparisons of what is computed twice: whether both computations round alike.

The derivative of a maximum compares each number with the largest one. If the numbers are made again
for that, in another kernel, one of them has to be equal to the largest to the last bit. The same
operations give the same bits, but that a compiler makes one operation of a product and a sum, or
not: of `a * b + c * d` it may take either product, and one that a loop has been rid of is none.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrans.loop.scalar import Scalar, postorder

_COMPARISONS = frozenset({"eq", "ne", "lt", "le"})


def compares_alike(expressions: Iterable[Scalar]) -> bool:
    """Whether what expressions compare is the same wherever it is made of the same folds."""
    nodes = postorder(expressions)
    of_folds: set[Scalar] = set()
    for node in nodes:
        if node.op == "fold" or not of_folds.isdisjoint(node.args):
            of_folds.add(node)
    compared = [x for node in nodes if node.op in _COMPARISONS for x in node.args if x in of_folds]
    folds = {node for node in nodes if node.op == "fold"}
    inside = postorder(compared, folds)
    return not any(
        node.op in ("add", "sub") and node.dtype.kind == "f" and _is_open(node, of_folds)
        for node in inside
    )


def _is_open(total: Scalar, of_folds: set[Scalar]) -> bool:
    """Whether a sum may be rounded in several ways, depending on what is around it."""
    products = [x for x in map(_without_sign, total.args) if _is_product(x)]
    return len(products) == 2 or any(x not in of_folds for x in products)


def _without_sign(x: Scalar) -> Scalar:
    return x.args[0] if x.op == "neg" else x


def _is_product(x: Scalar) -> bool:
    # a quotient by a power of two is one as well
    return x.op == "mul" or (x.op == "div" and x.args[1].op == "const")
