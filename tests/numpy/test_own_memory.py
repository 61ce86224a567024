"""Assignments in place: what NumPy copies, what it shares, and what is a number and no array."""

import sys

import numpy as np
import pytest

from functrans import grad, jit, jvp, linearize, vjp, vmap
from functrans.errors import TracerConversionError, UnsupportedNumPyError

COPIES = {
    "power": lambda y: y**1,
    "an index without axes": lambda y: y[np.array(0)],
    "an index without axes, and a slice": lambda y: y[np.array(0), 1:],
    "vectorize": np.vectorize(lambda v: v),
}
SHARED = {
    "astype": lambda y: np.astype(y, y.dtype, copy=False),
    "array": lambda y: np.array(y, copy=None, ndmin=3),
    "diff": lambda y: np.diff(y, n=0),
    "polyder": lambda y: np.polyder(y, 0),
    "polyint": lambda y: np.polyint(y, 0),
    "matrix_power": lambda y: np.linalg.matrix_power(y, 1),
    "apply_over_axes": lambda y: np.apply_over_axes(np.sum, y, []),
}


@pytest.mark.parametrize("make", [*COPIES.values(), *SHARED.values()], ids=[*COPIES, *SHARED])
@pytest.mark.parametrize("written", [0, 1])
def test_memory_is_shared_as_in_numpy(make, written):
    def changed(x):
        y = x.copy()
        both = y, make(y)
        both[written][...] = 7.0
        return both

    x = np.arange(4.0).reshape(2, 2)
    for expected, found in zip(changed(x), jit(changed)(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_integers_without_nan_are_copied():
    def changed(x):
        y = x.copy()
        z = np.nan_to_num(y)
        z += 1
        return y

    np.testing.assert_array_equal(jit(changed)(np.arange(3)), np.arange(3))


ARRAYS_OF_NUMBERS = {
    "atleast_1d": np.atleast_1d,
    "ravel": np.ravel,
    "expand_dims": lambda s: np.expand_dims(s, 0),
    "new axis": lambda s: s[None],
    "ellipsis": lambda s: s[...],
    "reshape": lambda s: s.reshape(1, 1),
    "ndmin": lambda s: np.array(s, copy=None, ndmin=2),
    "asarray": lambda s: np.asarray(s),
}


@pytest.mark.parametrize("make", ARRAYS_OF_NUMBERS.values(), ids=ARRAYS_OF_NUMBERS)
def test_a_number_keeps_its_value_when_an_array_of_it_is_assigned_to(make):
    def product(x):
        total = x.sum()
        array = make(total)
        array *= 3.0
        return total * np.sum(array)

    np.testing.assert_allclose(grad(product)(np.ones(2)), [12.0, 12.0])
    np.testing.assert_allclose(jit(product)(np.ones(2)), product(np.ones(2)))


ARRAYS = {
    "array": lambda s: np.array(s),
    "asarray": lambda s: np.asarray(s),
    "full": lambda s: np.full((), s),
    "zeros_like": np.zeros_like,
    "where": lambda s: np.where(s > 0.0, s, 0.0),
    "tensordot": lambda s: np.tensordot(s, 1.0, 0),
    "copy of an array": lambda s: np.array(s).copy(),
    "astype": lambda s: np.array(s).astype(np.float32),
    "vectorize": np.vectorize(lambda v: v),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_an_array_without_axes_is_changed_in_place(make):
    def add(accumulator, x):
        accumulator += x

    def through_a_function(x):
        array = make(x[0])
        add(array, x[1])
        assert isinstance(array, np.ndarray)
        return array * x[0]

    x = np.array([2.0, 3.0])
    found = jit(through_a_function)(x)
    np.testing.assert_allclose(found, through_a_function(x))
    assert grad(through_a_function)(x)[1] == 2.0


def test_a_number_and_its_copy_are_not_changed_in_place():
    def separate(x):
        number = x[0]
        other, copied = number, number.copy()
        again = copied
        number += 1.0
        copied += 2.0
        return number, other, copied, again

    x = np.array([2.0])
    assert jit(separate)(x) == separate(x) == (3.0, 2.0, 4.0, 2.0)


def test_the_element_of_an_array_without_axes_is_a_number():
    def kept(x):
        y = np.zeros(())
        y[()] = x
        number = y[()]
        y[()] = 5.0
        return number

    assert jit(kept)(2.0) == kept(2.0) == 2.0


RESULTS = {
    "vmap": vmap(lambda v: v),
    "jvp": lambda y: jvp(lambda v: v, (np.zeros(2),), (y,))[1],
    "vjp": lambda y: vjp(lambda v: v, np.zeros(2))[1](y)[0],
    "linearize": lambda y: linearize(lambda v: v, y)[0],
    "grad": lambda y: grad(lambda v: (v.sum(), v), has_aux=True)(y)[1],
    "Polynomial": lambda y: np.polynomial.Polynomial(y).coef,
    "polyder": lambda y: np.polynomial.polynomial.polyder(y, 0),
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_results_of_transforms_and_series_have_memory_of_their_own(result):
    def changed(x):
        y = x.copy()
        z = result(y)
        z += 1.0
        return y

    np.testing.assert_array_equal(changed(np.ones(2)), np.ones(2))
    np.testing.assert_array_equal(jit(changed)(np.ones(2)), np.ones(2))


READERS = {"frombuffer": lambda y: np.frombuffer(y)}
if sys.version_info >= (3, 12):  # before, Python does not ask a class in Python for its memory
    READERS["memoryview"] = lambda y: np.array(memoryview(y).cast("B").cast("d"))
    READERS["ndarray"] = lambda y: np.ndarray((3,), float, y)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_nobody_reads_the_memory_of_a_traced_array(read):
    def total(x):
        y = np.zeros(3)
        y[...] = x
        return np.sum(read(y))

    with pytest.raises((TracerConversionError, UnsupportedNumPyError)):
        jit(total)(np.ones(3))


def test_nobody_writes_to_the_memory_of_a_traced_array():
    def overwritten(x):
        y = np.zeros(3)
        y[...] = x
        memory = memoryview(y)
        assert memory.readonly
        return np.sum(y)

    if sys.version_info < (3, 12):
        assert jit(overwritten)(np.ones(3)) == 3.0
