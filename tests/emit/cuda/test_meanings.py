"""Reference semantics of device functions, against NumPy and the C library, for special values."""

import ctypes
import ctypes.util

import numpy as np
import pytest

from functrans.emit import names as cpu_names
from functrans.emit.cuda.names import FLOATS, INTEGERS, NAMES, NUMBERS, SIZED
from functrans.loop.failures import OUT_OF_BOUNDS
from tests.emit.cuda.meanings import MEANINGS
from tests.emit.cuda.special import assert_same, pairs, values


def mapped(name, *columns):
    with np.errstate(all="ignore"):
        return np.array([MEANINGS[name](*row) for row in zip(*columns, strict=True)])


def test_all_of_them_have_device_code():
    assert {*MEANINGS} <= NAMES


def test_every_name_of_the_cpu_is_one_here():
    # (addresses are for calls of libraries, which kernels do not make)
    assert cpu_names.NAMES - {"address"} <= NAMES


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("name", "reference"), [("min", np.minimum), ("max", np.maximum)])
def test_the_lesser_and_the_greater(name, reference, dtype):
    x, y = pairs(dtype)
    assert_same(mapped(name, x, y), [reference(a, b) for a, b in zip(x, y, strict=True)])


@pytest.mark.parametrize(
    ("name", "reference"), [("half_min", np.minimum), ("half_max", np.maximum)]
)
def test_of_half_floats_they_are_numpys(name, reference):
    x, y = pairs(np.float16)
    found = mapped(name, x.astype(np.float32), y.astype(np.float32))
    expected = np.array([reference(a, b) for a, b in zip(x, y, strict=True)])
    assert_same(found, expected.astype(np.float32))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_quotients_and_remainders_are_truncated(dtype):
    x, y = pairs(dtype)
    x, y = x[y != 0], y[y != 0]
    fits = ~((x == np.iinfo(dtype).min) & (y.astype(object) == -1))
    x, y = x[fits], y[fits]
    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
    assert_same(mapped("irem", x, y), rest)
    quotient = (x.astype(object) - rest.astype(object)) // y.astype(object)
    assert_same(mapped("idiv", x, y), quotient.astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_are_numpys(dtype):
    x, y = pairs(dtype)
    assert_same(mapped("shl", x, y), np.left_shift(x, y))
    assert_same(mapped("shr", x, y), np.right_shift(x, y))
    unsigned = dtype.replace("uint", "int").replace("int", "uint")
    shifted = np.right_shift(x.view(unsigned), y.view(unsigned))
    assert_same(mapped("lshr", x, y), shifted.view(dtype))
    bits = 8 * x.dtype.itemsize
    pattern, amount = x.view(unsigned).astype(object), y.astype(object) % bits
    rotated = (pattern << amount | pattern >> (bits - amount)) % 2**bits
    assert_same(mapped("rotl", x, y), rotated.astype(unsigned).view(dtype))


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("as_int32", -(2**31), 2**31 - 1), ("as_int64", -(2**63), 2**63 - 1)],
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_out_of_range_is_the_least_integer(name, least, most, dtype):
    x = values(dtype)
    whole = [int(each) if np.isfinite(each) else least for each in x]
    expected = np.array([each if least <= each <= most else least for each in whole])
    assert_same(mapped(name, x), expected.astype(name.removeprefix("as_")))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_as_an_unsigned_integer(dtype):
    x = values(dtype)
    x = x[(x > -(2.0**63)) & (x < 2.0**64)]
    assert_same(mapped("as_uint64", x), np.array([int(each) % 2**64 for each in x], np.uint64))


def test_half_floats_are_numpys():
    bits = np.arange(2**16, dtype=np.uint16)
    every = bits.view(np.float16)
    assert_same(mapped("half", bits), every.astype(np.float32))
    fine = ~np.isnan(every)
    assert_same(mapped("half_bits", every[fine].astype(np.float32)), bits[fine])


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"), [("as_half", np.float32), ("half_of_double", np.float64)]
)
def test_rounding_to_half_floats_is_numpys(name, dtype):
    middle = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(dtype)
    middle = (middle[1:] + middle[:-1]) / 2
    x = np.concatenate([values(dtype), middle, np.nextafter(middle, dtype(9)), -middle])
    with np.errstate(over="ignore"):
        assert_same(mapped(name, x), x.astype(np.float16).astype(np.float32))


_LIBRARY = ctypes.util.find_library("m")


@pytest.mark.skipif(_LIBRARY is None, reason="C's library of mathematics is not found")
@pytest.mark.parametrize(
    ("dtype", "kind", "symbol"),
    [("float32", ctypes.c_float, "fmaf"), ("float64", ctypes.c_double, "fma")],
)
def test_fma_is_rounded_once(dtype, kind, symbol):
    reference = getattr(ctypes.CDLL(_LIBRARY), symbol)
    reference.restype, reference.argtypes = kind, [kind] * 3
    draw = np.random.default_rng(7)
    scale = np.exp2(draw.integers(-40, 40, (3, 500)))
    x, y, z = (draw.standard_normal((3, 500)) * scale).astype(dtype)
    z[::2] = (-x * y)[::2] * (1 + np.finfo(dtype).eps)  # what cancels
    first, second = pairs(dtype)
    columns = (
        np.concatenate([x, first, first]),
        np.concatenate([y, second, second]),
        np.concatenate([z, second, first]),
    )
    expected = [reference(*map(float, row)) for row in zip(*columns, strict=True)]
    assert_same(mapped("fma", *columns), np.array(expected, dtype))


@pytest.mark.parametrize("target", SIZED)
def test_bits_are_reinterpreted(target):
    for source in SIZED:
        if np.dtype(source).itemsize == np.dtype(target).itemsize:
            x = values(source)
            assert_same(mapped(f"bits_as_{target}", x), x.view(target))


def test_an_index_out_of_bounds_raises_the_flag():
    flag = np.zeros(1, np.int64)
    checked = MEANINGS["checked"]
    assert checked(np.int64(2), np.int64(3), flag) == 2
    assert flag[0] == 0
    for position in (3, -1):
        assert checked(np.int64(position), np.int64(3), flag) == 0
        assert flag[0] == OUT_OF_BOUNDS
        flag[0] = 0
    assert MEANINGS["required"](np.bool_(False), 7.0, np.int64(5), flag) == 7.0
    assert flag[0] == 5


def test_where_sqrt_and_copysign():
    x, y = pairs(np.float32)
    assert_same(mapped("where", x < y, x, y), np.where(x < y, x, y))
    assert_same(mapped("copysign", x, y), np.copysign(x, y))
    with np.errstate(invalid="ignore"):
        assert_same(mapped("sqrt", x), np.sqrt(x))
