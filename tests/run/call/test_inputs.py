"""Arguments of every layout and kind; results never share memory with arguments or each other."""

import enum
from fractions import Fraction

import numpy as np
import optree
import pytest

from functrans import grad, hessian, jacfwd, jacrev, jit, trace
from functrans.errors import DtypeError
from functrans.run.call.jitted import program

BASE = np.arange(24.0).reshape(4, 6) - 7


@jit
def affine(x):
    return 2.0 * x + 1.0


def misaligned(values):
    memory = np.zeros(values.nbytes + 1, np.uint8)
    array = memory[1:].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


class Subclass(np.ndarray):
    """An array that would notice if anybody computed with it."""

    def __array_wrap__(self, *arguments):
        raise AssertionError("compiled code takes the memory, and nothing else")


LAYOUTS = {
    "contiguous": BASE,
    "transposed": BASE.T,
    "fortran": np.asfortranarray(BASE),
    "strided": BASE[::2, 1::3],
    "reversed": BASE[::-1, ::-1],
    "column": BASE[:, 2],
    "broadcast": np.broadcast_to(BASE[0], (4, 6)),
    "new_axis": BASE[:, None, :],
    "misaligned": misaligned(BASE),
    "swapped": BASE.astype(BASE.dtype.newbyteorder()),
    "swapped_column": BASE.astype(BASE.dtype.newbyteorder())[:, 1],
    "read_only": read_only(BASE),
    "metadata": BASE.astype(np.dtype(np.float64, metadata={"unit": "m"})),
    "single": BASE.astype(np.float32)[:, ::2],
    "half": BASE.astype(np.float16),
    "recarray": BASE.view(np.recarray),
    "subclass": BASE.view(Subclass),
    "empty": np.zeros((0, 3)),
    "empty_rows": np.zeros((3, 0)),
    "one": np.ones((1, 1, 1)),
    "no_axes": np.array(1.5),
    "no_axes_swapped": np.array(1.5, np.dtype(np.float64).newbyteorder()),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout(name):
    x = LAYOUTS[name]
    plain = np.asarray(x).astype(x.dtype.newbyteorder("="))
    before = plain.copy()
    for _ in range(2):  # traced, and then found
        result = affine(x)
        assert type(result) is (np.ndarray if x.ndim else plain.dtype.type)
        assert result.dtype == plain.dtype
        assert result.dtype.isnative
        np.testing.assert_array_equal(result, 2 * before + 1)
    np.testing.assert_array_equal(np.asarray(x), before)


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_after_a_plain_one(name):
    x = LAYOUTS[name]
    plain = np.array(np.asarray(x).astype(x.dtype.newbyteorder("=")), order="C")
    function = jit(lambda x: np.sin(x))
    np.testing.assert_array_equal(function(plain), function(x))


def test_memory_mapped_files(tmp_path):
    path = tmp_path / "numbers"
    BASE.tofile(path)
    for mode in ("r", "c", "r+"):
        x = np.memmap(path, np.float64, mode, shape=BASE.shape)
        result = affine(x)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, 2 * BASE + 1)


class Level(enum.IntEnum):
    HIGH = 3


class Length(float):
    pass


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (3.0, np.float64),
        (3, np.float64),
        (True, np.float64),
        (np.float64(3), np.float64),
        (np.float32(3), np.float32),
        (np.int8(3), np.float64),
        (np.bool_(True), np.float64),
    ],
    ids=str,
)
def test_numbers(x, dtype):
    result = affine(x)
    assert type(result) is dtype
    assert result == 2 * float(x) + 1


def test_numbers_for_an_array_without_axes_and_back():
    total = jit(lambda x, y: x + y)
    for one in (1.5, np.float64(1.5), np.array(1.5)):
        for other in (2.5, np.float64(2.5), np.array(2.5)):
            assert total(one, other) == 4.0


def test_a_number_that_does_not_fit_is_refused():
    double = jit(lambda n: 2 * n)
    assert double(2**61) == 2**62
    with pytest.raises(OverflowError):
        double(2**63)


@pytest.mark.parametrize(
    "x",
    [
        BASE.astype(object),
        np.array(["text"]),
        np.zeros(2, "M8[s]"),
        np.zeros(2, [("a", float)]),
        np.ma.masked_array(BASE, BASE > 0),
        "text",
        Fraction(1, 3),
    ],
    ids=lambda x: f"{type(x).__name__}-{getattr(x, 'dtype', '')}",
)
def test_what_has_no_place_in_a_graph_is_refused(x):
    affine(BASE)  # the same shape, and a kind that could be mistaken for it
    with pytest.raises(DtypeError, match="argument 0"):
        affine(x)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="it is a double here")
def test_floats_that_the_machine_code_has_not_are_refused():
    with pytest.raises(DtypeError, match=r"is ndarray float.*, whose dtype is not supported"):
        affine(np.ones(3, np.longdouble))


def test_complex_numbers_of_the_same_shape_are_another_type():
    affine(BASE)
    np.testing.assert_array_equal(affine(1j * BASE), 2j * BASE + 1)
    assert affine(1j) == 1 + 2j


def test_shapes_without_elements_take_no_time():
    x = np.zeros((2**40, 0))
    assert affine(x).shape == x.shape
    assert jit(lambda x: np.sum(x, axis=0))(x).shape == (0,)
    assert jit(np.sum)(x) == 0.0
    assert jit(grad(lambda x: np.sum(np.sin(x))))(x).shape == x.shape


def test_huge_shapes_with_few_elements():
    x = np.broadcast_to(np.float64(0.5), (1, 1 << 20))
    np.testing.assert_array_equal(jit(lambda x: np.sum(x, axis=1))(x), [2.0**19])
    x = np.zeros((1,) * 32)
    assert affine(x).shape == x.shape


def test_results_share_memory_with_nothing():
    constant = np.arange(6.0)

    @jit
    def function(x, y):
        return x, x, x[0], x.T, x.reshape(-1), y, constant, constant + y, (x, [y])

    x, y = BASE.copy(), np.ones(6)
    results = function(x, y)
    arrays = [*results[:-1], results[-1][0], results[-1][1][0]]
    for i, one in enumerate(arrays):
        assert one.flags.writeable
        for other in (*arrays[:i], x, y, constant):
            assert not np.shares_memory(one, other)
    arrays[0][...] = np.nan
    again = function(x, y)
    np.testing.assert_array_equal(again[0], BASE)
    np.testing.assert_array_equal(again[6], np.arange(6.0))


def test_the_same_array_twice_and_overlapping_ones():
    x = np.arange(10.0)
    function = jit(lambda a, b: (a * b, a - b))
    product, difference = function(x, x)
    np.testing.assert_array_equal(product, x * x)
    np.testing.assert_array_equal(difference, np.zeros(10))
    product, difference = function(x[:-1], x[1:])
    np.testing.assert_array_equal(product, x[:-1] * x[1:])


def test_containers():
    function = jit(lambda p: p["w"] * p["x"][0] + p["x"][1])
    assert function({"w": 2, "x": [1.5, np.float32(1)]}) == 4.0
    np.testing.assert_array_equal(function({"w": BASE, "x": (1.0, 0)}), BASE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "1 inputs: this program takes 2"),
        ((0, np.zeros(3), 1), "3 inputs: this program takes 2"),
        ((0, np.zeros(4)), r"input 1 is float64 of shape \(4,\): .* float64 of shape \(3,\)"),
        ((0, 1.0), r"input 1 is float64 of shape \(\)"),
        ((0.5, np.zeros(3)), "input 0 is float64 of shape .* compiled for int64"),
        ((0, np.zeros(3, complex)), "input 1 is complex128"),
    ],
)
def test_a_program_called_wrongly_says_so(arguments, words):
    compiled = program(trace(lambda i, x: x[i])(0, np.zeros(3)))
    with pytest.raises(TypeError, match=words):
        compiled(*arguments)
    assert compiled(2, np.array([1, 2, 3])) == (3.0,)


@pytest.mark.parametrize("transform", [jacfwd, jacrev, hessian], ids=lambda f: f.__name__)
def test_the_blocks_of_a_derivative_share_no_memory(transform):
    def function(x, y):
        return x, (x, [y])

    results = transform(function, argnums=(0, 1))(np.ones(3), np.ones(3))
    arrays = [each for each in optree.tree_leaves(results) if each.ndim]
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])
