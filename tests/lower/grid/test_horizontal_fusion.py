"""Horizontal fusion: small independent kernels become one."""

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Store, buffer, load
from functrans.lower.grid.horizontal_fusion import side_by_side
from functrans.lower.grid.target import CUDA
from functrans.lower.nest.bodies import Nest
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid

F8 = np.dtype(np.float64)
SHAPES = {"a": (7,), "b": (3, 5), "c": (2, 3, 4), "d": (40,)}
GIVEN = {name: buffer(name, F8, shape) for name, shape in SHAPES.items()}
MADE = {name: buffer(f"{name}2", F8, shape) for name, shape in SHAPES.items()}


def nest(source, target, turns=()):
    """A kernel that doubles an array."""
    counters = [index("i", extent) for extent in target.extents]
    body = (Store(target, tuple(counters), load(source, counters) * 2.0),)
    for counter in reversed(counters):
        body = (For(counter, ZERO, const(counter.attribute[2], INDEX), body, parallel=True),)
    return Nest(body, (), turns=turns)


def doubled(*names):
    return [nest(GIVEN[name], MADE[name]) for name in names]


def fused(nests, homes=()):
    return list(side_by_side(nests, dict(homes), CUDA))


def test_each_element_is_made_once():
    (made,) = fused(doubled(*SHAPES))
    (loop,) = made.body
    assert loop.index.attribute[2] == 7 + 15 + 24 + 40
    arrays = {name: np.random.default_rng(0).normal(size=shape) for name, shape in SHAPES.items()}
    memory = [Memory(arrays[name], True) for name in SHAPES]
    memory += [Memory(np.zeros(shape), False) for shape in SHAPES.values()]
    kernel = Kernel((*GIVEN.values(), *MADE.values()), 0, made.body, (), 1)
    assert evaluate_grid(kernel, memory, (), np.random.default_rng(1).permutation) == 0
    for name, one in zip(SHAPES, memory[len(SHAPES) :], strict=True):
        np.testing.assert_array_equal(one.array, arrays[name] * 2)


def test_what_needs_another_comes_after_it():
    again = nest(MADE["a"], GIVEN["a"])
    nests = [*doubled("a"), again, *doubled("b", "d")]
    first, second = fused(nests)
    assert first.body[0].index.attribute[2] == 7 + 15 + 40
    assert second is again


def test_what_overtakes_must_not_need_what_it_overtakes():
    other = nest(MADE["b"], GIVEN["b"])
    again = nest(MADE["a"], MADE["b"])
    nests = [*doubled("a"), again, other]
    assert fused(nests) == nests


def test_what_lives_in_an_input_is_that_input():
    nests = [*doubled("a"), nest(GIVEN["d"], MADE["d"])]
    assert len(fused(nests)) == 1
    assert len(fused(nests, {MADE["d"]: GIVEN["a"]})) == 2


def test_turns_are_not_mixed():
    turn = index("t", 3)
    nests = [*doubled("a"), nest(GIVEN["b"], MADE["b"], (turn,))]
    assert fused(nests) == nests


def test_large_kernels_stay_alone():
    x, y = (buffer(name, F8, (1 << 25,)) for name in "xy")
    nests = [nest(x, y), *doubled("a")]
    assert sorted(map(id, fused(nests))) == sorted(map(id, nests))
