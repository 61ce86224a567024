"""Arrays created in a traced function, indexed by traced values and assigned to."""

import numpy as np
import pytest
from numpy import concatenate, dot, outer

from functrans import config, grad, jit, value_and_grad, vmap
from functrans.errors import MutationError, TracerConversionError
from functrans.trace.tracer import Tracer

OUTSIDE = np.arange(12.0).reshape(4, 3)

# -- read at places that are traced ----------------------------------------------------------------


def one_hot(i):
    return np.eye(4)[i]


def a_row_to_write_to(i):
    a = np.arange(12.0).reshape(4, 3)
    row = a[i]
    row[0] = 100.0
    return a


def updated(i):
    a = np.arange(12.0).reshape(4, 3)
    a[i] += 1
    a[i, 1] += 5
    a[i, :] = a[i, ::-1] * 2
    return a


def a_window(i):
    a = np.arange(12.0)
    a[i : i + 3] *= 2
    a[i : i + 2] = 7.0
    return [a[i + 1 : i + 4], a]


def counted(i):
    counts = np.zeros(5)
    counts[np.array([i, i, 2])] += 1.0
    np.add.at(counts, np.array([i, i]), 1.0)
    return counts


def masked(i):
    a = np.arange(5.0)
    a[a < i] += 10.0
    upper = a > i
    a[upper] = a[upper] * 2
    return a


def by_methods(i):
    a = np.arange(6.0)
    return [
        a.take(i),
        OUTSIDE.clip(i, 5),
        a.repeat(2).clip(i, 4),
        a.searchsorted(i + 0.5),
        a.dot(np.full(6, i)),
    ]


READING = [
    one_hot, a_row_to_write_to, updated, a_window, counted, masked, by_methods,
]  # fmt: skip


@pytest.mark.parametrize("function", READING, ids=lambda f: f.__name__)
def test_places_that_are_traced(function):
    lanes = [x[0] for x in listed(vmap(function)(np.array([1, 2])))]
    for found in (listed(jit(function)(1)), lanes):
        for a, b in zip(found, listed(function(1)), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)


def listed(x):
    return x if isinstance(x, list) else [x]


def test_an_inner_function_reads_what_the_outer_one_has_made():
    def function(i):
        table = np.square(OUTSIDE)
        return vmap(lambda j: table[j] * 2.0)(i + np.arange(2))

    np.testing.assert_array_equal(jit(function)(1), 2.0 * OUTSIDE[1:3] ** 2)


def test_what_is_read_in_an_inner_function_belongs_to_the_outer_one():
    def function(i):
        table = np.zeros((4, 3))

        def inner(j):
            row = table[j]
            row[0] = 1.0
            return row

        return vmap(inner)(i + np.arange(2))

    with pytest.raises(MutationError, match="an array of an enclosing function"):
        jit(function)(0)


def test_places_that_are_known_leave_it_plain():
    def function(x):
        a = np.arange(3.0)
        assert type(a[np.argmax(x)]) is np.float64
        assert not isinstance(a, Tracer)
        return x[0] * a[2]

    np.testing.assert_array_equal(grad(function)(np.array([1.0, 2.0, 3.0])), [2.0, 0.0, 0.0])


# -- made of arrays that are not traced ------------------------------------------------------------


def by_a_list(x, data):
    a = np.zeros(4)
    a[[0, 2]] += x
    return a


def by_a_mesh(x, data):
    a = np.zeros((4, 4))
    for i in range(3):
        a[np.ix_([i, i + 1], [i, i + 1])] += x * np.array([[1, -1], [-1, 1]])
    return a


def by_a_mask(x, data):
    a = np.zeros(4)
    a[a == 0] += x
    return a


def taken(x, data):
    a = np.arange(4.0)[[3, 1]]
    a[0] = x
    b = np.ones((2, 3)).sum(axis=0)
    b[1] *= x
    c = np.arange(6.0).reshape(2, 3).T.flatten()
    c[2] = x
    return [a, b, c]


def copied(x, data):
    a = data.copy()
    a[0, 1] = x
    return a


def computed(x, data):
    a, b, c, d, e = data * 2, data[0] + 1, np.exp(data), data[:, 1].astype(int), data @ data.T
    a[1] += x
    b[0], c[0, 0], e[0] = x, x, x
    return [a, b, c, d, e]


def of_functions(x, data):
    arrays = [
        np.where(OUTSIDE > 1, OUTSIDE, 0.0), np.sort(OUTSIDE), np.cumsum(OUTSIDE),
        np.concatenate([OUTSIDE, OUTSIDE]), np.sqrt(OUTSIDE), np.dot(OUTSIDE, np.ones(3)),
        np.linalg.inv(np.eye(3)),
    ]  # fmt: skip
    for a in arrays:
        a[0] = x
    return arrays


def by_rows(x, data):
    total = 0.0
    for row in data:
        row = row.copy()
        row[0] = x
        total = total + row.sum() * row[1]
    return total


def by_names_of_their_own(x, data):
    weights, a = np.full(3, 2.0), np.zeros((3, 2))
    a[0] = x
    return [dot(weights, a), concatenate([weights, a[:, 0]]), outer(weights, a[:, 1])]


MAKING = [
    by_names_of_their_own,
    by_a_list,
    by_a_mesh,
    by_a_mask,
    taken,
    copied,
    computed,
    of_functions,
    by_rows,
]


@pytest.mark.parametrize("function", MAKING, ids=lambda f: f.__name__)
def test_what_is_made_of_plain_arrays_can_be_assigned_to(function):
    data = OUTSIDE.copy()

    def loss(x, data):
        return sum(np.sum(np.sin(a)) for a in listed(function(x, data)))

    expected = loss(2.0, data)
    slope = (loss(2.0 + 1e-6, data) - loss(2.0 - 1e-6, data)) / 2e-6
    value, derivative = value_and_grad(loss)(2.0, data)
    np.testing.assert_allclose([value, jit(loss)(2.0, data)], expected)
    np.testing.assert_allclose([derivative, jit(grad(loss))(2.0, data)], slope, rtol=1e-6)
    np.testing.assert_allclose(vmap(loss, in_axes=(0, None))(np.array([2.0]), data), [expected])
    np.testing.assert_array_equal(data, OUTSIDE)


def test_an_argument_that_is_not_differentiated_stays_as_it_is():
    data = np.ones(3)

    def function(x, data, write):
        assert isinstance(data, np.ndarray)
        write(data, x)
        return x * data.sum()

    def store(data, x):
        data[0] = x

    with pytest.raises(TracerConversionError, match=r"Begin with a copy: a = np\.array\(a\)"):
        grad(function)(1.0, data, store)
    with pytest.raises(ValueError, match="read-only"):
        grad(function)(1.0, data, lambda data, x: data.fill(2.0))
    np.testing.assert_array_equal(data, np.ones(3))
    assert grad(function)(1.0, data, lambda data, x: None) == 3.0


def test_arrays_of_arguments_are_plain_without_the_patch():
    def function(x, data):
        assert type(data) is np.ndarray
        return x * data.sum()

    config.patch_numpy = False
    try:
        assert grad(function)(1.0, np.ones(3)) == 3.0
    finally:
        config.patch_numpy = True
