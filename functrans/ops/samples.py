"""Drawing operands for the tests that are generated from the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functrans.ir.primitive import Sample, Samples
from functrans.ir.types import Shape
from functrans.records import NamedTuple


class Domain(NamedTuple):
    """A set of numbers to draw from: ``draw(rng, shape)`` gives an array of them."""

    draw: Callable[[np.random.Generator, Shape], np.ndarray[Any, Any]]


def reals(low: float, high: float) -> Domain:
    """Floats between two bounds, none closer than 1e-3 of the range to its ends."""
    margin = 1e-3 * (high - low)
    return Domain(lambda rng, shape: rng.uniform(low + margin, high - margin, shape))


def complexes(low: float, high: float) -> Domain:
    """Complex numbers whose absolute values are between two bounds, in all directions."""

    def draw(rng: np.random.Generator, shape: Shape) -> Any:
        turns = rng.uniform(0, 2 * np.pi, shape)
        return rng.uniform(low, high, shape) * np.exp(1j * turns)

    return Domain(draw)


def away_from_integers(low: float, high: float) -> Domain:
    """Floats at which rounding does not jump, even if they move a little."""
    return Domain(
        lambda rng, shape: (
            rng.integers(int(low), int(high), shape) + rng.uniform(-0.4, 0.4, shape) + 0.0
        )
    )


def integers(low: int, high: int) -> Domain:
    """Integers in ``[low, high)``."""
    return Domain(lambda rng, shape: rng.integers(low, high, shape))


def whole(low: int, high: int) -> Domain:
    """Floats that are integers, in ``[low, high)``."""
    return Domain(lambda rng, shape: rng.integers(low, high, shape) + 0.0)


def booleans() -> Domain:
    return Domain(lambda rng, shape: rng.integers(0, 2, shape).astype(bool))


_SHAPES: dict[int, tuple[tuple[Shape, ...], ...]] = {
    1: (((),), ((3,),), ((2, 3),), ((0, 2),)),
    2: (((), ()), ((3,), (3,)), ((2, 1), (3,)), ((), (2, 3)), ((2, 0), (1,))),
    3: (
        ((), (), ()), ((3,), (3,), (3,)), ((2, 1), (3,), ()), ((2, 3), (1, 3), (2, 1)),
        ((2, 0), (), (1,)),
    ),
    4: (
        ((), (), (), ()), ((3,), (3,), (3,), (3,)), ((2, 1), (3,), (), (2, 3)),
        ((2, 0), (), (1,), ()),
    ),
    5: (((),) * 5, ((3,),) * 5, ((2,), (), (2, 1), (), (2,)), ((0,), (), (2, 1), (), (1,))),
}  # fmt: skip


def broadcasting(
    *domains: Domain, params: Sequence[Mapping[str, Any]] = ({},), brief: bool = False
) -> Samples:
    """Samples for an elementwise primitive: operands from their domains, in shapes that broadcast.

    Each of the ``params`` is tried. With ``brief``, there is one combination of shapes, and one
    with empty arrays only.
    """
    combinations = _SHAPES[len(domains)]
    if brief:
        combinations = (combinations[min(len(domains), 2)], combinations[-1])

    def draw(rng: np.random.Generator) -> Iterator[Sample]:
        for tried in params:
            for shapes in combinations:
                operands = (d.draw(rng, shape) for d, shape in zip(domains, shapes, strict=True))
                yield Sample(tuple(operands), dict(tried))

    return draw


def cases(*rows: tuple[Any, ...]) -> Samples:
    """Samples given one by one, each ``(shape or domain or array, ..., {params})``.

    A shape stands for normally distributed floats, a ``(domain, shape)`` pair for numbers of that
    domain, an array for itself.
    """

    def draw(rng: np.random.Generator) -> Iterator[Sample]:
        for *operands, params in rows:
            yield Sample(tuple(_operand(rng, x) for x in operands), params)

    return draw


SQUARES = (3, 3), (2, 2, 2), (1, 1), (0, 0)


def stacks(domain: Domain, *shapes: Shape) -> Samples:
    """Samples that are one stack of matrices each, of these shapes."""
    return cases(*(((domain, n) if 0 not in n else np.zeros(n), {}) for n in shapes))


def _operand(rng: np.random.Generator, what: Any) -> Any:
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], Domain):
        return what[0].draw(rng, what[1])
    if isinstance(what, tuple):
        return rng.normal(size=what)
    return np.asarray(what)
