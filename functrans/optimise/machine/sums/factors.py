"""Factors of sums of products, found by following equations backwards.

A sum is linear in a contraction that it multiplies with single numbers, which is then multiplied
out. Of two contractions that are multiplied with each other none is: their product may be a small
difference of large terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from string import ascii_letters
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Atom, Eqn
from functrans.ir.primitive import Primitive
from functrans.ops.arrays.structural import broadcast_to_p, reduce_sum, reshape_p, transpose_p
from functrans.ops.elementwise.arithmetic import divide, multiply
from functrans.ops.elementwise.power import square
from functrans.ops.linalg.compiled.blas import sides
from functrans.ops.linalg.contraction import dot_general


class Factoring(NamedTuple):
    """Sums that are taken apart into factors. Not measured."""

    worth_factoring: int = 4096
    """Operations of a sum, from which on it is taken apart into factors."""


DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""A sum of other numbers is taken as it is written."""

DEEPEST = 12
"""The longest chain of equations through which factors are looked for."""

MOST_FACTORS = 8
"""Orders of more factors take long to compare."""

Label = int
Labels = tuple[Label | None, ...]
"""Of each axis of an array; None for one of a single element."""

Names = tuple[Label, ...]
"""Of the axes of more elements, as they are when all of them are known."""


# -- what a sum is made of -------------------------------------------------------------------------


class Scaling(NamedTuple):
    """A multiplier or divisor of a factor, along some of its axes."""

    combine: Primitive
    atom: Atom
    labels: Labels


class Factor(NamedTuple):
    """An array, the names of its axes, what scales it, and the outer product that it is of."""

    atom: Atom
    labels: Labels
    scalings: tuple[Scaling, ...] = ()
    outer: Eqn | None = None


class Product(NamedTuple):
    """The factors of an array, and the equations that are not needed if these are known.

    Parameters
    ----------
    factors : tuple of Factor
    opened : tuple of Eqn
    contracted : bool
        Whether it is a sum of such products, over the labels that the array has not.
    """

    factors: tuple[Factor, ...]
    opened: tuple[Eqn, ...] = ()
    contracted: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether it is no more than an array that is scaled."""
        return len(self.factors) == 1


class Axes:
    """The names of axes, their extents, and those that a reshape has made one axis of."""

    def __init__(self) -> None:
        self.extents: dict[Label, int] = {}
        self.split: dict[Label, Labels] = {}

    def named(self, shape: Sequence[int]) -> Labels:
        """New names for the axes of an array."""
        labels: list[Label | None] = []
        for extent in shape:
            labels.append(None if extent == 1 else len(self.extents))
            if extent != 1:
                self.extents[len(self.extents)] = extent
        return tuple(labels)

    def parts(self, label: Label | None, shape: Sequence[int]) -> Labels | None:
        """The names of the axes that one axis is made of; None if it is made of others, too."""
        if label not in self.split:
            assert label is not None
            self.split[label] = self.named(shape)
        labels = self.split[label]
        return labels if self.shape(labels) == tuple(shape) else None

    def whole(self, labels: Labels) -> Names:
        """The names that there are after all splitting."""
        found: list[Label] = []
        for label in labels:
            if label in self.split:
                found += self.whole(self.split[label])
            elif label is not None:
                found.append(label)
        return tuple(found)

    def shape(self, labels: Labels) -> tuple[int, ...]:
        return tuple(1 if label is None else self.extents[label] for label in labels)

    def size(self, labels: Labels) -> int:
        return prod(self.shape(labels))


class Sum(NamedTuple):
    """A sum of products, over all labels of its factors that are not its own."""

    labels: Labels
    product: Product
    axes: Axes

    def outer_products(self) -> list[tuple[int, int]]:
        """The places of the two factors of each outer product."""
        found = [i for i, factor in enumerate(self.product.factors) if factor.outer is not None]
        return list(zip(found[::2], found[1::2], strict=True))

    @property
    def is_balanced(self) -> bool:
        """Whether factors of one outer product meet those of another."""
        return len(self.outer_products()) > 1

    def alone(self, factor: Factor) -> Names:
        """The axes that no other factor has, nor the sum: they can be summed over at once."""
        if self.is_balanced:
            return ()
        others = [each.labels for each in self.product.factors if each is not factor]
        taken = {name for labels in (*others, self.labels) for name in self.axes.whole(labels)}
        return tuple(name for name in self.axes.whole(factor.labels) if name not in taken)

    @property
    def can_be_written(self) -> bool:
        """Whether there are letters for all axes, each of them one of some factor's."""
        named = {name for f in self.product.factors for name in self.axes.whole(f.labels)}
        everything = self.axes.whole(tuple(self.axes.extents))
        return named == {*everything} and len(self.axes.extents) <= len(ascii_letters)

    def text(self) -> str:
        """The subscripts for `einsum`, of factors that are summed over the axes `alone`."""
        operands = [self.written(factor) for factor in self.product.factors]
        out = "".join(ascii_letters[label] for label in self.axes.whole(self.labels))
        return f"{','.join(operands)}->{out}"

    def written(self, factor: Factor) -> str:
        """The subscripts of a factor."""
        alone = self.alone(factor)
        names = (name for name in self.axes.whole(factor.labels) if name not in alone)
        return "".join(ascii_letters[name] for name in names)

    def shape(self, factor: Factor) -> tuple[int, ...]:
        """The shape of a factor after that."""
        alone = self.alone(factor)
        names = (name for name in self.axes.whole(factor.labels) if name not in alone)
        return self.axes.shape(tuple(names))


# -- finding the factors ---------------------------------------------------------------------------


class Search(NamedTuple):
    """The search for the factors of a sum: def-use chains and named axes."""

    producers: Mapping[Atom, Eqn]
    axes: Axes
    sums_up: bool = False
    """Whether it is for a sum, and not for a contraction."""

    def product(self, atom: Atom, labels: Labels, depth: int = 0) -> Product:
        """The factors of an array."""
        maker = self.producers.get(atom)
        rule = RULES.get(maker.primitive) if maker is not None and depth < DEEPEST else None
        found = None
        if maker is not None and rule is not None:
            found = rule(maker, labels, self, depth + 1)
        if maker is None or found is None or len(found.factors) > MOST_FACTORS:
            return Product((Factor(atom, labels),))
        return found._replace(opened=(*found.opened, maker))

    def operands(self, eqn: Eqn, labels: Labels, depth: int) -> list[Product]:
        """The operands of an elementwise operation, whose axes are aligned at the last one."""
        return [self.product(x, _aligned(x, labels), depth) for x in eqn.inputs]


Rule = Callable[[Eqn, Labels, Search, int], Product | None]
"""Gives the factors of an equation's result; None if it is better left as it is."""


def _aligned(x: Atom, labels: Labels) -> Labels:
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
    """The product of two; a sum is not multiplied out."""
    if x.is_linear or y.is_linear or x.contracted or y.contracted:
        return None
    return Product((*x.factors, *y.factors), (*x.opened, *y.opened))


def _scaled(x: Product, combine: Primitive, y: Product, axes: Axes) -> Product | None:
    """The product with the smallest of its factors scaled that has the axes for it."""
    ((atom, labels, *_),) = y.factors
    names = {*axes.whole(labels)}
    wide = [i for i, f in enumerate(x.factors) if names <= {*axes.whole(f.labels)}]
    if not wide and x.contracted and combine is multiply:
        # (a weight of each term, as of the experts that a mixture adds up)
        return x._replace(factors=(*x.factors, *y.factors), opened=(*x.opened, *y.opened))
    if x.is_linear or not wide:
        return None
    # by its place: the factors of a square are there twice
    place = min(wide, key=lambda i: x.factors[i].atom.aval.size)
    least = x.factors[place]
    scaled = least._replace(scalings=(*least.scalings, Scaling(combine, atom, labels)))
    factors = (*x.factors[:place], scaled, *x.factors[place + 1 :])
    return x._replace(factors=factors, opened=(*x.opened, *y.opened))


def _outer(eqn: Eqn, x: Product, y: Product, axes: Axes) -> Product | None:
    """The outer product of two arrays, each of which has axes that the other one has not."""
    factors = (*x.factors, *y.factors)
    names = [{*axes.whole(factor.labels)} for factor in factors]
    if names[0] <= names[1] or names[1] <= names[0]:
        return None
    return Product(tuple(f._replace(outer=eqn) for f in factors), (*x.opened, *y.opened))


def is_contracted(eqn: Eqn) -> bool:
    """Whether it is a contraction that adds up anything."""
    return eqn.primitive is dot_general and bool(eqn.params["contract"][0])


def _contracted(eqn: Eqn, labels: Labels, search: Search, depth: int) -> Product | None:
    """An outer product, or a sum of such that is summed up or is larger than its operands.

    The order of other chains of products is the user's own.
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
    """Names for the axes of a contraction's operands, whose result has the given ones."""
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
    """Through axes of one element, and to the axes that were made one axis."""
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
    return search.product(eqn.inputs[0], _aligned(eqn.inputs[0], labels), depth)


RULES: dict[Primitive, Rule] = {
    multiply: _multiplied,
    divide: _divided,
    square: _squared,
    dot_general: _contracted,
    transpose_p: _turned,
    reshape_p: _reshaped,
    broadcast_to_p: _broadcast,
}
"""Through which equations factors are found."""


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
    """The factors of a contraction; of its operands, one sum at most is multiplied out."""
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
