"""Symbolic sizes: which constants become arguments, on statements written by hand."""

import numpy as np

from functrans.loop.nodes import INDEX, bounded, index
from functrans.loop.scalar import const, convert, idiv
from functrans.loop.statements import For, Kernel, Store, buffer, load, size
from functrans.loop.text import text
from functrans.lower.kernel.symbolic_sizes import parametrise
from functrans.lower.nest.bodies import Nest
from tests.loop.evaluate import Memory, evaluate
from tests.lower.by_hand import done_by

F8 = np.dtype(float)
ZERO = const(0, INDEX)


def number(n):
    return const(n, INDEX)


def copied(n, shift=0, scale=2.0):
    """``y[i] = scale * x[i + shift]`` for n elements."""
    x, y = buffer("x", F8, (n + shift,)), buffer("y", F8, (n,))
    i = index("i", n)
    body = Store(y, (i,), load(x, (i + shift,)) * scale)
    return [For(i, ZERO, number(n), (body,))], (x, y)


def kernel_of(body, scratch=(), homes=None):
    return done_by(parametrise, Nest(tuple(body), tuple(scratch)), homes or {}, {})


def printed(kernel):
    return "".join(c for c in text(kernel) if not c.isdigit())


def test_one_kernel_serves_many_sizes():
    texts, sizes = [], []
    for n in (100, 2000):
        body, buffers = copied(n)
        kernel, arguments, given = kernel_of(body)
        assert set(arguments) == set(buffers)
        texts.append(printed(kernel))
        sizes.append(given)
    assert texts[0] == texts[1]
    assert sizes == [[100], [2000]]


def test_it_does_what_the_statements_do():
    body, (x, y) = copied(100, shift=30)
    kernel, arguments, sizes = kernel_of(body)
    a = np.arange(130.0)
    memory = {x: Memory(a, True), y: Memory(np.zeros(100), False)}
    evaluate(kernel, [memory[one] for one in arguments], sizes)
    np.testing.assert_array_equal(memory[y].array, a[30:] * 2)


def test_small_numbers_stay():
    kernel, _, sizes = kernel_of(copied(16)[0])
    assert sizes == []
    assert kernel.body[0].stop is number(16)
    assert kernel_of(copied(17)[0])[2] == [17]


def test_positions_from_the_end_are_an_extent_and_a_small_number():
    x, y = buffer("x", F8, (101,)), buffer("y", F8, (2, 100))
    i = index("i", 100)
    stores = [Store(y, (number(k), i), load(x, (i * -1 + (99 + k),))) for k in range(2)]
    kernel, arguments, sizes = kernel_of([For(i, ZERO, number(100), tuple(stores))])
    assert sizes == [100]
    a, out = np.arange(101.0), np.zeros((2, 100))
    memory = {x: Memory(a, True), y: Memory(out, False)}
    evaluate(kernel, [memory[one] for one in arguments], sizes)
    np.testing.assert_array_equal(memory[y].array[0], a[:-1][::-1])
    np.testing.assert_array_equal(memory[y].array[1], a[1:][::-1])


def test_extents_that_lie_close_together_are_arguments_each():
    x, y = buffer("x", F8, (300,)), buffer("y", F8, (110,))
    loops = []
    for n in (100, 110):
        i = index("i", n)
        loops.append(For(i, ZERO, number(n), (Store(y, (i,), load(x, (i + n,))),)))
    assert sorted(kernel_of(loops)[2]) == [100, 110]
    # a small number stays, however close to an extent it is
    assert "+ 9" in text(kernel_of(copied(20, shift=9)[0])[0])


def test_equal_numbers_are_one_argument():
    assert kernel_of(copied(100, shift=100)[0])[2] == [100]
    assert sorted(kernel_of(copied(100, shift=50)[0])[2]) == [50, 100]


def test_numbers_that_are_data_stay():
    x, y = buffer("x", INDEX, (100,)), buffer("y", INDEX, (100,))
    i = index("i", 100)
    value = load(x, (i,)) + number(100)
    kernel, _, sizes = kernel_of([For(i, ZERO, number(100), (Store(y, (i,), value),))])
    assert sizes == [100]
    assert number(100) in kernel.body[0].body[0].value.args


def test_an_index_from_data_is_held_by_the_size_that_it_is_of():
    """What is compared with an extent and what is taken then are one expression."""
    x, y, at = buffer("x", F8, (1000,)), buffer("y", F8, (100,)), buffer("at", INDEX, (100,))
    i = index("i", 100)
    place = bounded(load(at, (i,)) * number(500) + idiv(i, number(7)), 1000, "clip")
    kernel, _, _ = kernel_of([For(i, ZERO, number(100), (Store(y, (i,), load(x, (place,))),))])
    (held,) = kernel.body[0].body[0].value.args
    below, taken, _ = held.args
    assert below.args[0] is taken
    assert below.args[1].op == "size"


def test_a_number_that_is_converted_is_an_argument():
    y, i = buffer("y", F8, (100,)), index("i", 100)
    values = [
        convert(i, F8) / convert(number(steps), F8) + convert(number(9), F8) for steps in (100, 700)
    ]
    found = [kernel_of([For(i, ZERO, number(100), (Store(y, (i,), x),))]) for x in values]
    assert [sizes for _, _, sizes in found] == [[100], [100, 700]]
    kernel, arguments, sizes = found[1]
    memory = [Memory(np.zeros(100), False) for _ in arguments]
    evaluate(kernel, memory, sizes)
    np.testing.assert_array_equal(memory[0].array, np.arange(100) / 700 + 9)


def test_divisors_stay():
    x, y = buffer("x", F8, (100,)), buffer("y", F8, (5000,))
    i = index("i", 5000)
    value = load(x, (idiv(i, number(50)),))
    kernel, _, sizes = kernel_of([For(i, ZERO, number(5000), (Store(y, (i,), value),))])
    assert sizes == [5000]
    assert number(50) in kernel.body[0].body[0].value.args[0].args


def test_the_first_extent_takes_no_part():
    """Where an element is, follows from the others."""
    x, y = buffer("x", F8, (300, 40)), buffer("y", F8, (300, 40))
    i, j = index("i", 20), index("j", 40)
    body = Store(y, (i, j), load(x, (i, j)))
    loops = For(i, ZERO, number(20), (For(j, ZERO, number(40), (body,)),))
    kernel, _, sizes = kernel_of([loops])
    assert sorted(sizes) == [20, 40]
    assert all(one.shape[0] is ZERO and one.shape[1].op == "size" for one in kernel.buffers)


def test_rows_on_the_stack_are_the_kernels_own():
    row, y = buffer("row", F8, (100,)), buffer("y", F8, (100,))
    i = index("i", 100)
    body = [
        For(i, ZERO, number(100), (Store(row, (i,), const(1.0, F8)),)),
        For(i, ZERO, number(100), (Store(y, (i,), load(row, (i,))),)),
    ]
    kernel, arguments, _ = kernel_of(body, [row])
    assert arguments == [y]
    assert [one.name for one in kernel.scratch] == ["row"]
    assert kernel.scratch[0].shape == (size(0),)


def test_a_buffer_that_lives_in_another_is_that_one():
    body, (x, y) = copied(100)
    kernel, arguments, _ = kernel_of(body, (), homes={y: x})
    assert arguments == [x]
    assert isinstance(kernel, Kernel) and len(kernel.buffers) == 1
