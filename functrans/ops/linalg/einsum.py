"""einsum: Einstein summation by pairwise contractions, in the order that opt_einsum finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import ShapeError
from functrans.ir.types import Shape
from functrans.locks import importing
from functrans.ops.arrays.shape import asarray
from functrans.ops.arrays.structural import broadcast_to, reduce_sum, transpose
from functrans.ops.indexing.index import setitem
from functrans.ops.indexing.views import copy, diagonal_of
from functrans.ops.linalg.contraction import contract_labelled
from functrans.records import NamedTuple
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import make_view


class Step(NamedTuple):
    """Remove one or two operands from the list, and append their product.

    The letters of ``inputs`` name each operand's axes, those of ``output`` the product's.
    """

    positions: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str


def einsum(*operands: Any) -> Any:
    """``einsum("ij,jk->ik", x, y)``, or ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.

    Repeated letters take diagonals, letters that the output lacks are summed over, and ``...``
    stands for axes that are broadcast. As in NumPy, the result for one operand without a sum is a
    view: ``einsum("ii->i", x)[...] = 0.0`` sets a diagonal.
    """
    text, arrays = _by_letters(operands)
    try:
        steps = _steps(text, tuple(x.shape for x in arrays))
    except (ValueError, KeyError) as error:
        # opt_einsum, as NumPy, exchanges the sizes of the operand and of previous ones
        words = re.sub(r"\((\d+)\)(.*)\((\d+)\)", r"(\3)\2(\1)", str(error))
        raise ShapeError(f"einsum: {words}{here()}") from None
    x, first = arrays[0], steps[0]
    if len(arrays) == 1 and set(*first.inputs) == set(first.output) and isinstance(x, Tracer):
        return _view(x, first)
    for step in steps:
        wanted = _wanted(step, [arrays[i].shape for i in step.positions])
        taken = [
            _diagonals_and_sums(arrays[i], labels, needed)
            for i, labels, needed in zip(step.positions, step.inputs, wanted, strict=True)
        ]
        for i in sorted(step.positions, reverse=True):
            del arrays[i]
        arrays.append(_product(taken, step.output))
    (result,) = arrays
    return copy(result) if any(result is each for each in operands) else result


def _view(x: Tracer, step: Step) -> Any:
    """The axes of an array in another order, or diagonals of it, which can be assigned to."""
    labels = (*step.inputs, step.output)

    def read(base: Any) -> Any:
        return copy(_product([_diagonals_and_sums(base, labels[0], set(labels[1]))], labels[1]))

    def write(base: Any, new: Any) -> Any:
        places = np.einsum("->".join(labels), np.arange(base.size).reshape(base.shape))
        return setitem(base.reshape(-1), places, new).reshape(base.shape)

    return make_view(read(x), x, read, write, "einsum")


def multiplications(text: str, shapes: tuple[Shape, ...]) -> int:
    """The number of multiplications of `einsum` for operands of these shapes."""
    extents = {
        label: extent
        for labels, shape in zip(text.split("->")[0].split(","), shapes, strict=True)
        for label, extent in zip(labels, shape, strict=True)
    }
    together = [{*step.output}.union(*step.inputs) for step in _steps(text, shapes)]
    return sum(prod(extents[label] for label in labels) for labels in together)


def _by_letters(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """The subscripts as text, and the arrays."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [asarray(x) for x in operands[1:]]
    pairs = len(operands) // 2
    terms = [_term(operands[2 * i + 1]) for i in range(pairs)]
    text = ",".join(terms) + (f"->{_term(operands[-1])}" if len(operands) % 2 else "")
    return text, [asarray(x) for x in operands[: 2 * pairs : 2]]


def _term(sublist: Sequence[Any]) -> str:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if not all(label is Ellipsis or 0 <= label < len(letters) for label in sublist):
        raise ValueError(f"subscript is not within the valid range [0, {len(letters)})")
    return "".join("..." if label is Ellipsis else letters[label] for label in sublist)


@cached(1024)
def _steps(text: str, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
    with importing:
        import opt_einsum

    terms, _, output = text.partition("->")
    if "->" in text and "..." not in output:
        for term, shape in zip(terms.split(","), shapes, strict=False):
            if "..." in term and len(shape) > len(term) - len("..."):
                # NumPy refuses them, and opt_einsum would add them up
                raise ValueError(f"the output lacks '...', which stands for axes in {term!r}")
    _, path = opt_einsum.contract_path(text, *shapes, shapes=True, einsum_call=True)
    waiting, extents = _labelled(path[0], shapes)
    steps = []
    for contraction in path:
        positions, output = sorted(contraction[0]), contraction[2].split("->")[1]
        if len(waiting) > len(positions):
            # an operand of a later step, whose axes may have any order: those of the larger operand
            # come first, so that its rows are those of the product, and need not be transposed
            positions.sort(key=lambda i: -prod(extents[label] for label in waiting[i]))
            labels = "".join(waiting[i] for i in positions)
            output = "".join(label for label in dict.fromkeys(labels) if label in output)
        steps.append(Step(tuple(positions), tuple(waiting[i] for i in positions), output))
        waiting = [x for i, x in enumerate(waiting) if i not in positions] + [output]
    return tuple(steps)


def _labelled(first: Any, shapes: tuple[Shape, ...]) -> tuple[list[str], dict[str, int]]:
    """The letters of each operand before the first contraction of a path, and their extents."""
    inputs = dict(zip(first[0], first[2].split("->")[0].split(","), strict=True))
    others = iter(first[3])
    labels = [inputs[i] if i in inputs else next(others) for i in range(len(shapes))]
    extents: dict[str, int] = {}
    for own, shape in zip(labels, shapes, strict=True):
        for label, extent in zip(own, shape, strict=True):
            extents[label] = max(extent, extents.get(label, 1))
    return labels, extents


def _wanted(step: Step, shapes: Sequence[Shape]) -> list[set[str]]:
    """The letters that each operand's axes are needed for after its own diagonals and sums.

    If only one operand has several elements along a letter, it is summed there separately.
    """
    extents = [
        {
            label: max(n for a, n in zip(labels, shape, strict=True) if a == label)
            for label in labels
        }
        for labels, shape in zip(step.inputs, shapes, strict=True)
    ]
    full = [
        {label for label, n in own.items() if n == max(x.get(label, n) for x in extents)}
        for own in extents
    ]
    return [
        {*step.output}.union(*(own & other for k, other in enumerate(full) if k != i))
        for i, own in enumerate(full)
    ]


def _diagonals_and_sums(x: Any, labels: str, wanted: set[str]) -> tuple[Any, str]:
    """An operand with exactly one axis for each wanted letter."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = _equal_sizes(x, first, second)
            x = diagonal_of(x, 0, first, second)
            labels = "".join(a for i, a in enumerate(labels) if i not in (first, second)) + label
    summed = tuple(i for i, label in enumerate(labels) if label not in wanted)
    if summed:
        x = reduce_sum(x, axes=summed)
    return x, "".join(label for label in labels if label in wanted)


def _equal_sizes(x: Any, first: int, second: int) -> Any:
    """Two axes of one letter, of which one may have size 1, broadcast to the same size."""
    sizes = list(x.shape)
    sizes[first] = sizes[second] = max(x.shape[first], x.shape[second])
    return broadcast_to(x, shape=tuple(sizes))


def _product(operands: list[tuple[Any, str]], output: str) -> Any:
    while len(operands) > 2:
        (x, x_labels), (y, y_labels), *rest = operands
        together = "".join(dict.fromkeys(x_labels + y_labels))
        product = contract_labelled(x, (*x_labels,), y, (*y_labels,), (*together,))
        operands = [(product, together), *rest]
    if len(operands) == 2:
        (x, x_labels), (y, y_labels) = operands
        return contract_labelled(x, (*x_labels,), y, (*y_labels,), (*output,))
    ((x, labels),) = operands
    return transpose(x, permutation=tuple(labels.index(label) for label in output))
