"""Arrays created in a traced function stay plain until a traced value is assigned to them."""

import copy
import pickle
import sys

import numba
import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats

from functrans import grad, jacfwd, jit, lax, vmap
from functrans.errors import LeakedTracerError, MutationError, TracerConversionError
from functrans.testing import check_grads
from functrans.trace.assignable import Assignable
from functrans.trace.tracer import Tracer

X = np.array([1.0, 2.0, 3.0])


# -- programs that make an array and fill it -------------------------------------------------------


def by_element(x):
    a = np.zeros(3)
    for i in range(3):
        a[i] = x[i] ** (i + 1)
    return a


def by_slice(x):
    a = np.empty((2, 3))
    a[0] = x
    a[1, ::-1] = x**2
    return a


def by_mask(x):
    a = np.ones(4)
    a[np.array([True, False, True, True])] = x
    return a


def by_list(x):
    a = np.full((2, 2), 7.0)
    a[0] = [x[0], 1.0]
    return a


def recurrence(x):
    a = np.empty(5)
    a[0] = x[0]
    for i in range(1, 5):
        a[i] = 0.5 * a[i - 1] + x[i % 3]
    return a


def added(x):
    a = np.ones(3)
    a += x
    a *= x
    return a


def with_out(x):
    a = np.zeros((2, 3))
    np.multiply(x, 2.0, out=a[0])
    np.cumsum(x, out=a[1])
    return a


def by_functions(x):
    a = np.eye(3)
    np.fill_diagonal(a, x)
    np.copyto(a[1], x)
    np.put(a, [2, 3], x[:2])
    np.add.at(a, (0, [1, 1]), x[0])
    return a


def by_methods(x):
    a, b = np.zeros(3), np.zeros(3)
    a.fill(x[0])
    b.put([0, 2], x[:2])
    return a + b


def through_temporary_views(x):
    a = np.zeros((3, 3))
    a.reshape(9)[4] = x[2]
    a[0][1] = x[0]
    a.T[0] = x
    a[:, 2][1:] = x[:2]
    return a


def through_earlier_views(x):
    a = np.arange(12.0).reshape(3, 4)
    row, back, middle, turned = a[1], a[::-1, ::2], a[1:, 1:3][0], a.T
    column = turned[3]
    a[1, 2] = x[0]
    back[0, 1] = x[1] * x[0]
    row[0] = 5.0
    middle += x[2]
    column *= 2.0
    return [a, row, back, middle, turned, column]


def through_flat(x):
    a, b = np.zeros((2, 3)), np.eye(3)
    a.flat[1] = 7.0
    a.flat[4] = x[0]
    a.flat[2::3] = x[:2]
    b.flat[::4] = x
    b.flat = b.flat[::-1] * x[0]
    assert len(a.flat) == 6
    return [a, b, sum(a.flat), np.array([v * 2 for v in b.flat])]


def by_parts(x):
    a = np.zeros(3, complex)
    a.real = x
    a.imag[1:] = x[:2]
    a.imag *= 2.0
    return [a.real, a.imag, np.abs(a)]


def rows_of_a_loop(x):
    a = np.zeros((3, 3))
    for i, row in enumerate(a):
        row[i] = x[i]
    return a


def of_fortran_order(x):
    a = np.zeros((2, 3), order="F")
    view = a[:, 1:]
    view[1] = x[:2]
    a[0] = x
    return [a, view]


def aliased(x):
    a = b = np.zeros(3)
    a[0] = x[0]
    b[1] = x[1]
    a += 1.0
    return [a, b]


def without_axes(x):
    a = np.zeros(())
    b = a
    b[()] = x[0]
    a += x[1]
    return [a, b]


def of_arithmetic(x):
    a, b, c, d = 2.0 * np.ones(3), -np.eye(3), np.zeros(3).copy(), np.arange(3).astype(float)
    a[0], b[0, 1], c[1] = x
    d[2] = x[0]
    return [a, b, c, d]


def other_makers(x):
    w = np.linspace(0.0, 1.0, 3)
    arrays = [
        np.array([1.0, 2.0, 3.0]), np.zeros_like(w), np.full_like(w, 2.0), np.copy(w), np.array(w),
        np.identity(3)[0], np.tri(3), np.geomspace(1.0, 4.0, 3), w, np.asarray([1.0, 2.0]),
    ]  # fmt: skip
    for a in arrays:
        a[..., 0] = x[0]
    return arrays


def of_another_shape(x):
    a, b = np.arange(6.0), np.arange(6.0)
    tail = b[2:]
    a.shape = b.shape = (2, 3)
    a[0] = x[0]
    tail[1:] = x
    return [a, b, tail]


def nothing(x):
    a = np.zeros((0, 3))
    a[:] = x
    return [a, np.sum(x)]


def converted(x):
    a, b = np.zeros(3, np.float32), np.zeros(3, bool)
    a[0] = x[0]
    b[1] = x[0] > 0.0
    return [a, b]


PROGRAMS = [
    by_element, by_slice, by_mask, by_list, recurrence, added, with_out, by_functions, by_methods,
    through_temporary_views, through_earlier_views, through_flat, by_parts, rows_of_a_loop,
    of_fortran_order, aliased, without_axes, of_arithmetic, other_makers, of_another_shape, nothing,
    converted,
]  # fmt: skip


def flat(function):
    def flattened(x):
        out = function(x)
        return out if isinstance(out, list) else [out]

    return flattened


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_the_numbers_are_numpys(function):
    function = flat(function)
    expected = function(X)
    results = {
        "traced": vmap(function)(X[None]),
        "compiled": [x[None] for x in jit(function)(X)],
        "both": jit(vmap(function))(X[None]),
    }
    for found in results.values():
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            assert type(a) is np.ndarray
            np.testing.assert_allclose(a[0], b, rtol=1e-6)


@pytest.mark.parametrize("function", PROGRAMS[:-1], ids=lambda f: f.__name__)
def test_derivatives(function):
    def loss(x):
        outs = flat(function)(x)
        return sum(np.sum(np.sin(a) * np.arange(1.0, a.size + 1).reshape(a.shape)) for a in outs)

    check_grads(loss, (X,), order=1)
    np.testing.assert_allclose(jacfwd(loss)(X), grad(loss)(X))
    np.testing.assert_allclose(jit(grad(loss))(X), grad(loss)(X))
    np.testing.assert_allclose(vmap(grad(loss))(np.stack([X, X + 1]))[0], grad(loss)(X))


# -- plain uses ------------------------------------------------------------------------------------


@numba.njit
def filled_by_numba(a):
    made = np.zeros(a.size)
    for i in range(a.size):
        made[i] = a[i] + i
    return made


def test_until_then_it_is_a_plain_array():
    seen = []

    def function(x):
        a = np.zeros(3)
        a[1] = 2.0
        order = np.arange(3)
        np.random.default_rng(0).shuffle(order)
        names = dict.fromkeys(order)
        assert isinstance(a, np.ndarray)
        assert isinstance(a[0], np.float64)
        assert range(int(a[1])) == range(2)
        assert a[0] == 0.0
        assert [7, 8, 9][order[0]] in (7, 8, 9)
        assert names.keys() == {0, 1, 2}
        assert repr(a) == "array([0., 2., 0.])"
        assert a.tolist() == [0.0, 2.0, 0.0]
        for scalar in (a.sum(), np.sum(a), a.max(), np.mean(a), a @ a, np.dot(a, a), a.mean()):
            assert type(scalar) is np.float64
        assert type(np.linalg.det(np.eye(2))) is np.float64
        assert np.asarray(a) is a
        assert memoryview(a).shape == (3,)
        for copied in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a), a.copy()):
            np.testing.assert_array_equal(copied, a)
        assert type(pickle.loads(pickle.dumps(a))) is np.ndarray
        np.testing.assert_array_equal(filled_by_numba(a), [0.0, 3.0, 2.0])
        np.testing.assert_allclose(scipy.linalg.solve(2 * np.eye(3), a), a / 2)
        np.testing.assert_allclose(scipy.special.logsumexp(a), np.log(2 + np.exp(2.0)))
        seen.append(a)
        return np.sum(x[order] * a)

    np.testing.assert_array_equal(np.sort(grad(function)(X)), [0.0, 0.0, 2.0])
    for transformed, given in ((jit(function), X), (vmap(function), X[None])):
        before = len(seen)
        transformed(given)
        assert len(seen) > before  # twice as many with other threads: what it reads has changed
    np.testing.assert_array_equal(seen[0] + 1.0, [1.0, 3.0, 1.0])
    seen[0][0] = 4.0
    assert seen[0].sum() == 6.0


def test_results_and_auxiliary_data_are_plain_arrays():
    def function(x):
        a, b = np.zeros(3), np.ones(2)
        a[0] = x[0]
        return np.sum(a), (a, b)

    _, (a, b) = grad(function, has_aux=True)(X)
    assert type(a) is type(b) is np.ndarray
    assert a[0] == 1.0
    assert all(type(out) is np.ndarray for out in jit(lambda x: function(x)[1])(X))


def test_what_has_no_derivative_is_stored_as_it_is():
    def function(x):
        a = np.zeros(3, int)
        a[np.argmax(x)] = np.argmin(x) + 1
        assert type(a) is Assignable
        return x[int(a[2]) - 1]

    np.testing.assert_array_equal(grad(function)(X), [1.0, 0.0, 0.0])


# -- afterwards ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::functrans.errors.SwallowedErrorWarning")
def test_then_it_is_a_tracer_to_everybody():
    def function(x):
        a = np.zeros(3)
        a[0] = x[0]
        assert isinstance(a, np.ndarray)
        assert isinstance(a, Tracer)
        assert a.shape == (3,)
        assert len(a) == 3
        assert repr(a).startswith("Tracer(")
        for plain in (scipy.stats.anderson, lambda a: float(a[0])):
            with pytest.raises(TracerConversionError, match="its derivative would be lost"):
                plain(a)
        with pytest.raises(TracerConversionError):
            pickle.dumps(a)
        with pytest.raises(Exception, match=r"object|that Numba compiled"):
            filled_by_numba(a)
        parts = (a + 1, 1 + a, a**2, -a, a @ a, a[0], a.sum(), abs(a), [1.0, 2.0, 3.0] * a)
        assert all(isinstance(part, Tracer) for part in parts)
        assert (a > 0.5).any()
        return sum(np.sum(part) for part in parts)

    # 1 + 1 + 2 a[0] - 1 + 2 a[0] + 1 + 1 + 1 + 1
    np.testing.assert_array_equal(grad(function)(X), [9.0, 0.0, 0.0])


def test_after_the_trace_it_is_of_no_use():
    kept = []

    def function(x):
        a = np.zeros(3)
        a[0] = x[0]
        kept.append(a)
        return np.sum(a)

    grad(function)(X)
    uses = (
        lambda a: a + 1, lambda a: 1 + a, np.sum, lambda a: a[0], lambda a: a.sum(),
        lambda a: a.__setitem__(0, 1.0), lambda a: grad(lambda x: np.sum(x * a))(X),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(LeakedTracerError):
            use(kept[0])


def test_a_plain_array_that_was_kept_belongs_to_no_other_trace():
    kept = []
    grad(lambda x: kept.append(np.zeros(3)) or x.sum())(X)

    def function(x):
        kept[0][0] = x[0]
        return np.sum(kept[0])

    with pytest.raises(TracerConversionError, match=r"Begin with a copy: a = np\.array\(a\)"):
        grad(function)(X)
    np.testing.assert_array_equal(kept[0], np.zeros(3))


def view(a):
    return a.view(np.ndarray)


@pytest.mark.parametrize(
    "share", [view, lambda a: np.broadcast_to(a, (2, 3)), lambda a: a.view("i8")]
)
def test_it_cannot_become_traced_while_plain_arrays_share_its_memory(share):
    def function(x):
        a = np.zeros(3)
        other = share(a)
        a[0] = x[0]
        return np.sum(a) + other[0]

    with pytest.raises(MutationError, match="other arrays share its memory"):
        grad(function)(X)


def test_they_may_have_shared_it_before():
    def function(x):
        a = np.zeros(3)
        assert view(a).sum() == 0.0
        a[0] = x[0]
        return np.sum(a)

    np.testing.assert_array_equal(grad(function)(X), [1.0, 0.0, 0.0])


def test_memory_that_is_shared_by_a_memoryview():
    def function(x):
        a = np.zeros(3)
        memory = memoryview(a)
        a[0] = x[0]
        assert np.isnan(memory[0])
        return np.sum(a)

    if sys.version_info >= (3, 12):
        with pytest.raises(MutationError, match="other arrays share its memory"):
            grad(function)(X)
    else:  # unnoticed: Python does not ask a class in Python for its memory
        grad(function)(X)


def test_a_view_that_numpy_lets_nobody_write_to():
    def function(x):
        a = np.eye(3)
        diagonal = np.diagonal(a)
        a[0, 0] = x[0]
        with pytest.raises(MutationError, match="does not let be written to"):
            diagonal[1] = x[1]
        return np.sum(diagonal * x)

    np.testing.assert_array_equal(grad(function)(X), [2.0, 1.0, 1.0])


# -- inner functions -------------------------------------------------------------------------------


def test_an_array_of_an_enclosing_function_is_not_assigned_to():
    def function(x):
        a = np.zeros(3)

        def inner(y):
            a[0] = y
            return y * y

        return grad(inner)(x[0]) + np.sum(a)

    with pytest.raises(MutationError, match="belongs to an enclosing function"):
        grad(function)(X)


def test_arrays_of_inner_functions():
    def body(i, carry):
        a = np.zeros(3)
        a[i] = carry[0] * 0.5
        a += carry
        return a

    def branch(x):
        a = np.ones(3)
        a[1] = x[1]
        return a

    def function(x):
        looped = lax.fori_loop(0, 3, body, x)
        scanned, _ = lax.scan(lambda c, row: (body(0, c) * row, None), x, np.ones((2, 3)))
        chosen = lax.cond(x[0] > 0.0, branch, lambda x: x, x)
        return np.sum(looped * scanned * chosen) + grad(lambda y: np.sum(body(1, y) ** 2))(x)[1]

    check_grads(function, (X,), order=1)
    np.testing.assert_allclose(jit(grad(function))(X), grad(function)(X))
    np.testing.assert_allclose(vmap(grad(function))(X[None])[0], grad(function)(X))


def test_a_generator_that_makes_arrays():
    def parts(x):
        for value in x:
            a = np.zeros(2)
            a[0] = value
            yield a

    np.testing.assert_array_equal(grad(lambda x: sum(a.sum() for a in parts(x)))(X), np.ones(3))


def test_its_class_is_equal_to_that_of_arrays():
    names = {list: "list", np.ndarray: "array"}

    def function(x):
        for a in (np.array([0.0]), np.zeros(3)[1:], 2 * np.ones(2)):
            assert type(a) == np.ndarray  # noqa: E721  as users write it
            assert np.ndarray == type(a)  # noqa: E721
            assert not type(a) != np.ndarray  # noqa: E721
            assert type(a) in (float, np.ndarray)
            assert names[type(a)] == "array"
            assert type(a) != type(x)  # noqa: E721
            assert type(a) != np.memmap  # noqa: E721
        return np.sum(x)

    np.testing.assert_array_equal(grad(function)(X), np.ones(3))
    np.testing.assert_array_equal(jit(grad(function))(X), np.ones(3))
