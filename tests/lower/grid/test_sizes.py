"""Size arguments of kernels: slots are renumbered, and constants become products of sizes."""

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For, Kernel, Store, buffer, load, size
from functrans.lower.grid.sizes import Sizes, called, with_leaves, with_places
from functrans.lower.plan import Step
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid

F8 = np.dtype(np.float64)
X, Y = buffer("x", F8, (0,)), buffer("y", F8, (0,))


def plus(*terms):
    total = terms[0]
    for term in terms[1:]:
        total = Scalar("add", (total, term), INDEX)
    return total


def shifted(source, shift, stop):
    """``y[i] = x[i + shift]`` for all i below a stop."""
    i = index("i", 100)
    store = Store(Y, (i,), load(X, (plus(i, source, shift),)))
    return Kernel((X, Y), 4, (For(i, ZERO, stop, (store,), parallel=True),), team=1)


def run(kernel, sizes, count):
    memory = [Memory(np.arange(100.0), True), Memory(np.zeros(count), False)]
    evaluate_grid(kernel, memory, sizes)
    return memory[1].array


def test_slots_that_go_around_are_replaced_once():
    kernel = shifted(size(1), size(3), size(2))
    sizes = (90, 20, 5, 3)
    expected = np.arange(23.0, 28.0)
    np.testing.assert_array_equal(run(kernel, sizes, 5), expected)
    turned = with_leaves(kernel, {size(1): size(0), size(2): size(1), size(3): size(2)})
    np.testing.assert_array_equal(run(turned, sizes[1:], 5), expected)


def test_what_a_kernel_does_not_use_it_is_not_given():
    kernel = shifted(size(1), size(3), size(2))
    step = called(Step(kernel, (X, Y), (90, 20, 5, 3), 5, 1), kernel, (90, 20, 5, 3))
    assert (step.sizes, step.kernel.sizes, step.extent) == ((20, 5, 3), 3, 5)
    np.testing.assert_array_equal(run(step.kernel, step.sizes, 5), np.arange(23.0, 28.0))


def test_places_by_products():
    kernel = shifted(const(0, INDEX), size(0), size(1))
    doubled = Scalar("mul", (size(2), const(2, INDEX)), INDEX)
    made = with_places(kernel, {size(0): doubled})
    np.testing.assert_array_equal(run(made, (99, 5, 10, 0), 5), np.arange(20.0, 25.0))


def test_small_numbers_are_constants_and_others_have_one_slot():
    sizes = Sizes((20, 30), 16)
    assert sizes.of(16) is const(16, INDEX)
    assert sizes.of(30) is size(1)
    assert sizes.of(17) is size(2) is sizes.of(17)
    assert sizes.value(Scalar("mul", (size(0), size(2)), INDEX)) == 340
