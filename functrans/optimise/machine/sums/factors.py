"""Factors of sums of products, found by following equations backwards.

A sum is linear in a contraction that occurs once as a factor, and such a contraction is multiplied
out. If two contractions are multiplied by each other, neither is: their product may be a small
difference of large terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from string import ascii_letters
from typing import TypeVar

import numpy as np

from functrans.ir.graph import Atom, Eqn
from functrans.ir.primitive import Primitive
from functrans.ops.arrays.structural import broadcast_to_p, reduce_sum, reshape_p, transpose_p
from functrans.ops.elementwise.arithmetic import divide, multiply
from functrans.ops.elementwise.power import square
from functrans.ops.linalg.compiled.blas import sides
from functrans.ops.linalg.contraction import dot_general
from functrans.records import NamedTuple

T = TypeVar("T")


class Factoring(NamedTuple):
    """Which sums are decomposed into factors. Not measured."""

    worth_factoring: int = 4096
    """The fewest operations of a sum for which decomposing it is profitable."""


DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""Sums of other dtypes are not decomposed."""

DEEPEST = 12
"""The longest chain of equations through which factors are searched."""

MOST_FACTORS = 8
"""The most factors, since comparing the orders of more takes too long."""

Label = int
Labels = tuple[Label | None, ...]
"""The labels of an array's axes; None for an axis with one element."""

Names = tuple[Label, ...]
"""The labels of the axes with more than one element, after all splitting."""


# -- sums of products ------------------------------------------------------------------------------


class Scaling(NamedTuple):
    """A multiplier or divisor of a factor, along some of its axes."""

    combine: Primitive
    atom: Atom
    labels: Labels


class Factor(NamedTuple):
    """An array, the labels of its axes, its scalings, and the outer product that it belongs to."""

    atom: Atom
    labels: Labels
    scalings: tuple[Scaling, ...] = ()
    outer: Eqn | None = None


class Product(NamedTuple):
    """The factors of an array, and the equations that are not needed if the factors are known."""

    factors: tuple[Factor, ...]
    opened: tuple[Eqn, ...] = ()
    # whether the array is a sum of such products, over the labels that it does not have
    contracted: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether it is a single array with scalings."""
        return len(self.factors) == 1


class Axes:
    """The labels of axes, their extents, and the axes that a reshape has merged into one."""

    def __init__(self) -> None:
        self.extents: dict[Label, int] = {}
        self.split: dict[Label, Labels] = {}

    def named(self, shape: Sequence[int]) -> Labels:
        """New labels for the axes of an array."""
        labels: list[Label | None] = []
        for extent in shape:
            labels.append(None if extent == 1 else len(self.extents))
            if extent != 1:
                self.extents[len(self.extents)] = extent
        return tuple(labels)

    def parts(self, label: Label | None, shape: Sequence[int]) -> Labels | None:
        """The labels of the axes merged into one; None if it was split otherwise before."""
        if label not in self.split:
            assert label is not None
            self.split[label] = self.named(shape)
        labels = self.split[label]
        return labels if self.shape(labels) == tuple(shape) else None

    def whole(self, labels: Labels) -> Names:
        """The labels after all splitting."""
        found: list[Label] = []
        for label in labels:
            if label in self.split:
                found += self.whole(self.split[label])
            elif label is not None:
                found.append(label)
        return tuple(found)

    def shape(self, labels: Labels) -> tuple[int, ...]:
        return tuple(1 if label is None else self.extents[label] for label in labels)


class Sum(NamedTuple):
    """A sum of products, over all labels of the factors that the result does not have."""

    labels: Labels
    product: Product
    axes: Axes

    def outer_products(self) -> list[tuple[int, int]]:
        """The positions of the two factors of each outer product."""
        found = [i for i, factor in enumerate(self.product.factors) if factor.outer is not None]
        return list(zip(found[::2], found[1::2], strict=True))

    @property
    def is_balanced(self) -> bool:
        """Whether there are several outer products, whose factors have to be scaled."""
        return len(self.outer_products()) > 1

    def alone(self, factor: Factor) -> Names:
        """The axes that neither result nor other factors have, which can be summed first."""
        if self.is_balanced:
            return ()
        others = [each.labels for each in self.product.factors if each is not factor]
        taken = {name for labels in (*others, self.labels) for name in self.axes.whole(labels)}
        return tuple(name for name in self.axes.whole(factor.labels) if name not in taken)

    @property
    def can_be_written(self) -> bool:
        """Whether there are enough letters for all axes, and each axis belongs to a factor."""
        named = {name for f in self.product.factors for name in self.axes.whole(f.labels)}
        everything = self.axes.whole(tuple(self.axes.extents))
        return named == {*everything} and len(self.axes.extents) <= len(ascii_letters)

    def text(self) -> str:
        """The subscripts for `einsum`; the factors have been summed over the axes `alone`."""
        operands = [self.written(factor) for factor in self.product.factors]
        out = "".join(ascii_letters[label] for label in self.axes.whole(self.labels))
        return f"{','.join(operands)}->{out}"

    def written(self, factor: Factor) -> str:
        """The subscripts of a factor."""
        alone = self.alone(factor)
        names = (name for name in self.axes.whole(factor.labels) if name not in alone)
        return "".join(ascii_letters[name] for name in names)

    def shape(self, factor: Factor) -> tuple[int, ...]:
        """The shape of a factor after it is summed over the axes `alone`."""
        alone = self.alone(factor)
        names = (name for name in self.axes.whole(factor.labels) if name not in alone)
        return self.axes.shape(tuple(names))


# -- search ----------------------------------------------------------------------------------------


class Search(NamedTuple):
    """The search for the factors of a sum: def-use chains and labelled axes."""

    producers: Mapping[Atom, Eqn]
    axes: Axes
    sums_up: bool = False  # whether the search is for a sum, and not for a contraction

    def product(self, atom: Atom, labels: Labels, depth: int = 0) -> Product:
        """The factors of an array with given labels."""
        maker = self.producers.get(atom)
        rule = RULES.get(maker.primitive) if maker is not None and depth < DEEPEST else None
        found = None
        if maker is not None and rule is not None:
            found = rule(maker, labels, self, depth + 1)
        if maker is None or found is None or len(found.factors) > MOST_FACTORS:
            return Product((Factor(atom, labels),))
        return found._replace(opened=(*found.opened, maker))

    def operands(self, eqn: Eqn, labels: Labels, depth: int) -> list[Product]:
        """The factors of an elementwise equation's operands, which are aligned at the last axis."""
        return [self.product(x, aligned(x, labels), depth) for x in eqn.inputs]


Rule = Callable[[Eqn, Labels, Search, int], Product | None]
"""Returns the factors of an equation's result; None if it is not to be decomposed."""


def aligned(x: Atom, labels: tuple[T | None, ...]) -> tuple[T | None, ...]:
    """The labels of the axes of an operand that is broadcast."""
    own = labels[len(labels) - len(x.aval.shape) :]
    return tuple(None if n == 1 else label for n, label in zip(x.aval.shape, own, strict=True))


def _multiplied(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    x, y = search.operands(eqn, labels, depth)
    if x.is_linear and y.is_linear:
        return _outer(eqn, x, y, search.axes)
    if x.is_linear:
        return _scaled(y, multiply, x, search.axes)
    if y.is_linear:
        return _scaled(x, multiply, y, search.axes)
    return _both(x, y)


def _divided(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    x, y = search.operands(eqn, labels, depth)
    return _scaled(x, divide, y, search.axes) if y.is_linear else None


def _squared(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    (x,) = search.operands(eqn, labels, depth)
    return _both(x, x)


def _both(x: Product, y: Product) -> Product | None:
    """The product of two; None for sums and single arrays, which are not multiplied out."""
    if x.is_linear or y.is_linear or x.contracted or y.contracted:
        return None
    return Product((*x.factors, *y.factors), (*x.opened, *y.opened))


def _scaled(x: Product, combine: Primitive, y: Product, axes: Axes) -> Product | None:
    """The product ``x``, its smallest factor with the axes of ``y`` scaled by ``y``."""
    ((atom, labels, *_),) = y.factors
    names = {*axes.whole(labels)}
    wide = [i for i, f in enumerate(x.factors) if names <= {*axes.whole(f.labels)}]
    if not wide and x.contracted and combine is multiply:
        # (a weight of each term, as of the experts that a mixture adds up)
        return x._replace(factors=(*x.factors, *y.factors), opened=(*x.opened, *y.opened))
    if x.is_linear or not wide:
        return None
    # found by position, because the factors of a square occur twice
    place = min(wide, key=lambda i: x.factors[i].atom.aval.size)
    least = x.factors[place]
    scaled = least._replace(scalings=(*least.scalings, Scaling(combine, atom, labels)))
    factors = (*x.factors[:place], scaled, *x.factors[place + 1 :])
    return x._replace(factors=factors, opened=(*x.opened, *y.opened))


def _outer(eqn: Eqn, x: Product, y: Product, axes: Axes) -> Product | None:
    """The outer product of two arrays, each of which has axes that the other does not have."""
    factors = (*x.factors, *y.factors)
    names = [{*axes.whole(factor.labels)} for factor in factors]
    if names[0] <= names[1] or names[1] <= names[0]:
        return None
    return Product(tuple(f._replace(outer=eqn) for f in factors), (*x.opened, *y.opened))


def is_contracted(eqn: Eqn) -> bool:
    """Whether an equation is a contraction that sums over an axis."""
    return eqn.primitive is dot_general and bool(eqn.params["contract"][0])


def _contracted(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    """An outer product, or a sum of these that is summed further or exceeds its operands.

    The order of other chains of products is left to the user.
    """
    own = _labels_of_operands(eqn, labels, search.axes)
    x, y = (Product((Factor(*each),)) for each in zip(eqn.inputs, own, strict=True))
    if not is_contracted(eqn):
        return _outer(eqn, x, y, search.axes)
    largest = max(operand.aval.size for operand in eqn.inputs)
    if eqn.outputs[0].aval.size <= largest and not search.sums_up:
        return None
    return Product((*x.factors, *y.factors), contracted=True)


def _labels_of_operands(eqn: Eqn, labels: Labels, axes: Axes) -> tuple[Labels, Labels]:
    """Labels for the axes of a contraction's operands; those of the result are given."""
    x, y = sides(eqn)
    shape = eqn.inputs[0].aval.shape
    summed = axes.named([shape[i] for i in x.contract])
    first, second = len(x.batch), len(x.batch) + len(x.free)
    batch, x_free, y_free = labels[:first], labels[first:second], labels[second:]
    found = []
    for own, free in ((x, x_free), (y, y_free)):
        places = (*own.batch, *own.free, *own.contract)
        named = dict(zip(places, (*batch, *free, *summed), strict=True))
        found.append(tuple(named[i] for i in range(len(named))))
    return found[0], found[1]


def _turned(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    permutation = eqn.params["permutation"]
    own = tuple(labels[permutation.index(axis)] for axis in range(len(labels)))
    return search.product(eqn.inputs[0], own, depth)


def _reshaped(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    """The factors of a reshape's operand: axes of one element drop out, merged ones are split."""
    shape = eqn.inputs[0].aval.shape
    own: list[Label | None] = [None] * len(shape)
    axis = 0
    for label in labels:
        if label is None:
            continue
        extent = search.axes.extents[label]
        begin = axis = next(i for i in range(axis, len(shape)) if shape[i] != 1)
        while prod(shape[begin:axis]) < extent:
            axis += 1
        together = shape[begin:axis]
        if prod(together) != extent:
            return None
        parts = (label,) if together == (extent,) else search.axes.parts(label, together)
        if parts is None:
            return None
        own[begin:axis] = parts
    return search.product(eqn.inputs[0], tuple(own), depth)


def _broadcast(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    return search.product(eqn.inputs[0], aligned(eqn.inputs[0], labels), depth)


RULES: dict[Primitive, Rule] = {
    multiply: _multiplied,
    divide: _divided,
    square: _squared,
    dot_general: _contracted,
    transpose_p: _turned,
    reshape_p: _reshaped,
    broadcast_to_p: _broadcast,
}
"""The rules for the equations through which factors are searched."""


def sum_of(eqn: Eqn, producers: Mapping[Atom, Eqn]) -> Sum | None:
    """The sum of products that an equation computes, if it does."""
    if eqn.primitive not in (reduce_sum, dot_general):
        return None
    if eqn.outputs[0].aval.dtype not in DTYPES:
        return None
    if any(x.aval.size == 0 for x in eqn.inputs):
        return None
    search = Search(producers, Axes(), eqn.primitive is reduce_sum)
    if eqn.primitive is reduce_sum:
        (x,) = eqn.inputs
        own = search.axes.named(x.aval.shape)
        labels = tuple(own[i] for i in range(len(own)) if i not in eqn.params["axes"])
        product = search.product(x, own)
    else:
        labels = search.axes.named(eqn.outputs[0].aval.shape)
        product = _of_contraction(eqn, labels, search)
    found = Sum(labels, product, search.axes)
    return None if product.is_linear or not found.can_be_written else found


def _of_contraction(eqn: Eqn, labels: Labels, search: Search) -> Product:
    """The factors of a contraction; at most one operand that is a sum is multiplied out."""
    own = _labels_of_operands(eqn, labels, search.axes)
    x, y = (search.product(each, named) for each, named in zip(eqn.inputs, own, strict=True))
    if x.is_linear and y.is_linear:
        return Product((Factor(eqn.inputs[0], own[0]),))
    if not x.is_linear and not y.is_linear:
        both = _both(x, y)
        if both is not None:
            return both
    number = max((0, 1), key=lambda i: (not (x, y)[i].is_linear, eqn.inputs[i].aval.size))
    kept = Factor(eqn.inputs[1 - number], own[1 - number])
    opened = (x, y)[number]
    return opened._replace(factors=(*opened.factors, kept))
