"""Subclasses of arrays and numbers are refused where their data or operators would be lost."""

from enum import IntEnum, IntFlag

import numpy as np
import pytest

import functrans as ft
from functrans.errors import DtypeError, FunctransError
from functrans.testing import check_grads

W = np.array([1.0, 2.0, 3.0])
MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
PLACES = np.ma.array([0, 1, 2], mask=[0, 1, 0])
TRUTHS = np.ma.array([True, False, True], mask=[0, 1, 0])
MATRIX = W.reshape(1, 3).view(np.matrix)


class Quantity(np.ndarray):
    """As those of astropy and unyt."""

    unit = "km"


class Counting(np.ndarray):
    """With an arithmetic of its own."""

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        # NumPy asks the left operand first, which leaves classes that it does not know to these
        known = all(type(x) in (Counting, np.ndarray) for x in inputs)
        return ufunc.__name__ if known else NotImplemented


class Dotted(np.ndarray):
    """With operators of its own, as np.matrix."""

    def __mul__(self, other):
        return np.dot(np.asarray(self), np.asarray(other))

    __rmul__ = __mul__


class Degrees(np.ndarray):
    """With a method of its own."""

    def sum(self):
        return np.asarray(self).sum() % 360.0


class Percent(float):
    """A Python number with operators of its own."""

    def __mul__(self, other):
        return other * float(self) / 100.0

    __rmul__ = __mul__


class Decibel(np.float64):
    """A number of NumPy's with operators of its own."""

    def __add__(self, other):
        return 10.0 * np.log10(10.0 ** (float(self) / 10.0) + 10.0 ** (other / 10.0))

    __radd__ = __add__


QUANTITY = W.view(Quantity)
LOST = {
    "masked": (MASKED, "a masked array, whose mask would be lost: pass its data and its mask as "),
    "matrix": (MATRIX, "a np.matrix: pass np.asarray"),
    "quantity": (QUANTITY, "a Quantity, whose unit would be lost"),
    "ufuncs": (W.view(Counting), "a Counting, whose own __array_ufunc__ would be lost"),
    "operators": (W.view(Dotted), "a Dotted, whose own __mul__ would be lost: pass np.asarray"),
    "a method": (W.view(Degrees), "a Degrees, whose own sum would be lost: pass np.asarray"),
}


def assigned(w, index, value):
    w = w * 1.0
    w[index] = value
    return np.sum(w)


def added(w, m):
    w = w * 1.0
    w += m
    return np.sum(w)


MEETING = {
    "operator": lambda w, m: np.sum(w * m),
    "comparison": lambda w, m: np.sum(np.where(w < m, w, 0.0)),
    "in place": added,
    "ufunc": lambda w, m: np.sum(np.add(w, m)),
    "ufunc, reflected": lambda w, m: np.sum(np.hypot(m, w)),
    "namespace": lambda w, m: np.sum(ft.numpy.add(m, w)),
    "product": lambda w, m: np.dot(w, m.T),
    "sums": lambda w, m: np.einsum("i,...i", w, m),
    "stack": lambda w, m: np.sum(np.concatenate([w[None], m.reshape(1, 3)])),
    "list": lambda w, m: np.sum(np.array([w, m.reshape(3)])),
    "where": lambda w, m: np.sum(np.where(w > 1.0, w, m)),
    "weights": lambda w, m: np.average(w, weights=m.reshape(3)),
    "method": lambda w, m: np.sum(w.clip(m, None)),
    "assignment": lambda w, m: assigned(w, slice(None), m),
    "dict": lambda w, m: np.sum(ft.jit(lambda d: d["a"] * d["b"])({"a": w, "b": m})),
    "loop": lambda w, m: ft.lax.scan(lambda c, x: (c * np.sum(x), x), w[0], m)[0],
}
TRANSFORMS = {
    "grad": lambda f: ft.grad(f)(W),
    "jit": lambda f: ft.jit(f)(W),
    "vmap": lambda f: ft.vmap(f)(np.stack([W, W])),
    "jvp": lambda f: ft.jvp(f, (W,), (W,)),
}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("way", MEETING)
def test_what_a_traced_value_meets(way, kind, transform):
    array, words = LOST[kind]
    with pytest.raises(DtypeError, match=words):
        TRANSFORMS[transform](lambda w: MEETING[way](w, array))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    "function",
    [
        lambda w: np.sum(w[PLACES]),
        lambda w: np.sum(w[PLACES,]),
        lambda w: np.sum(w[TRUTHS]),
        lambda w: np.sum(np.take(w, PLACES)),
        lambda w: np.sum(np.where(TRUTHS, w, 0.0)),
        lambda w: np.sum(w, where=TRUTHS),
        lambda w: assigned(w, PLACES, 7.0),
        lambda w: assigned(w, TRUTHS, 7.0),
        lambda w: np.sum(w * np.ma.masked),
    ],
)
def test_masked_indices_and_conditions(function, transform):
    with pytest.raises(DtypeError, match="a masked array, whose mask would be lost"):
        TRANSFORMS[transform](function)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    "function",
    [
        lambda w: np.sum(MASKED * w),
        lambda w: np.ma.sum(w),
        lambda w: np.sum(np.ma.array(w, mask=[0, 1, 0])),
        lambda w: assigned(MASKED.copy(), 0, w[0]),
    ],
)
def test_functions_of_numpy_ma(function, transform):
    with pytest.raises(FunctransError, match="a masked array, whose mask would be lost"):
        TRANSFORMS[transform](function)


ARGUMENTS = {
    "grad": lambda m: ft.grad(np.sum)(m),
    "data of grad": lambda m: ft.value_and_grad(lambda w, m: np.sum(w * m))(W, m),
    "keyword of grad": lambda m: ft.grad(lambda w, m: np.sum(w * m))(W, m=m),
    "jit": lambda m: ft.jit(np.sum)(m),
    "vmap": lambda m: ft.vmap(np.sum)(m),
    "vmap, for all": lambda m: ft.vmap(lambda w, m: w * m, in_axes=(0, None))(W, m),
    "tangent": lambda m: ft.jvp(np.sin, (W,), (m,)),
    "cotangent": lambda m: ft.vjp(np.sin, W)[1](m),
    "vector": lambda m: ft.hvp(lambda w: np.sum(w**3))(W, m),
    "result of jit": lambda m: ft.jit(lambda w: (w, m))(W),
    "ravel": lambda m: ft.tree.ravel({"a": m}),
    "check": lambda m: check_grads(np.sum, (m,)),
}


@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("way", ARGUMENTS)
def test_arguments(way, kind):
    array, words = LOST[kind]
    with pytest.raises(DtypeError, match=words):
        ARGUMENTS[way](array)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_numpy_makes_of_them_outside_is_taken(transform, tmp_path):
    memmap = np.memmap(tmp_path / "numbers", float, "w+", shape=(3,))
    memmap[:] = W
    makers = [
        (lambda: MASKED.sum(), 4.0), (lambda: MASKED.filled(0.0), [1.0, 0.0, 3.0]),
        (lambda: np.asarray(MASKED), W), (lambda: np.array(QUANTITY), W), (lambda: memmap, W),
        (lambda: W.view(np.recarray), W),
    ]  # fmt: skip
    for make, plain in makers:
        expected = TRANSFORMS[transform](lambda w, plain=plain: np.sum(w * np.asarray(plain)))
        found = TRANSFORMS[transform](lambda w, make=make: np.sum(w * make()))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (Percent(5.0), "a Percent, whose own __mul__ would be lost: pass float"),
        (Decibel(5.0), "a Decibel, whose own __add__ would be lost: pass np.float64"),
    ],
)
def test_numbers_of_subclasses(number, words, transform):
    # beside a number, Python would call the subclass's reflected operator
    for function in (lambda w: np.sum(w * number), lambda w: np.sum(np.add(w, number))):
        with pytest.raises(DtypeError, match=words):
            TRANSFORMS[transform](function)


def test_an_argument_that_is_a_number_of_a_subclass():
    with pytest.raises(DtypeError, match="whose own __add__ would be lost"):
        ft.jit(lambda x: x + 3.0)(Decibel(5.0))


class Loud(np.ndarray):
    """With an attribute and a method of its own, which are no array's."""

    def __array_finalize__(self, other):
        self.level = getattr(other, "level", 11)

    def __class_getitem__(cls, item):
        return cls

    def __repr__(self):
        return "LOUD"

    def louder(self):
        return self + 1


class Tagged(float):
    """With what copies and annotations need."""

    __slots__ = ()
    tag: str

    def __getnewargs__(self):
        return (float(self),)


class Size(IntEnum):
    ONE = 1
    TWO = 2


class Sides(IntFlag):
    LEFT = 1
    RIGHT = 2


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_subclasses_that_compute_as_their_base_are_accepted(transform):
    for held in (W.view(Loud), Tagged(2.0), Size.TWO, Sides.RIGHT, np.longlong(2)):
        expected = TRANSFORMS[transform](lambda w, held=held: np.sum(w * np.asarray(held)))
        found = TRANSFORMS[transform](lambda w, held=held: np.sum(w * held))
        np.testing.assert_array_equal(found, expected)


def test_a_mask_that_changes_is_seen():
    held = MASKED.copy()
    total = ft.jit(lambda w: np.sum(held.sum() * w))
    assert total(W) == 24.0
    held[2] = np.ma.masked
    assert total(W) == 6.0
    held.data[0] = 2.0
    assert total(W) == 12.0
