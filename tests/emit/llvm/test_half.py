"""Half floats are rounded once, on CPUs with and without instructions for them."""

from dataclasses import replace

import numpy as np
import pytest

from functrans import jit
from functrans.run.code import machine, native

with np.errstate(all="ignore"):
    HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)
    FINITE = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float64))


def to_half(x):
    return x.astype(np.float16)


def test_a_double_is_rounded_once():
    middle = (FINITE[1:] + FINITE[:-1]) / 2
    above, below = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
    edges = [65519.99999, 65520.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 5e-324, -5e-324, -0.0]
    with np.errstate(all="ignore"):
        for x in (FINITE, middle, above, below, np.array(edges)):
            compiled, numpy = jit(to_half)(x), to_half(x)
            np.testing.assert_array_equal(compiled, numpy)
            np.testing.assert_array_equal(np.signbit(compiled), np.signbit(numpy))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u8", "i1", "?"])
def test_a_half_float_becomes_another_number(dtype):
    x = HALVES if dtype[0] == "f" else HALVES[np.isfinite(HALVES) & (HALVES >= 0)]
    np.testing.assert_array_equal(jit(lambda x: x.astype(dtype))(x), x.astype(dtype))


def test_an_integer_is_rounded_as_by_numpy():
    x = np.random.default_rng(0).integers(-70000, 70000, 3000)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(jit(to_half)(x), to_half(x))


def test_quotients_and_extrema():
    x = np.array([-1.5, 0.0, -0.0, 7.0, -65504.0], np.float16)[:, None]
    y = np.array([2.998e-5, -0.0, 0.0, -2.0, 3.0], np.float16)
    with np.errstate(all="ignore"):
        for f in (np.floor_divide, np.remainder, np.maximum, np.minimum):
            compiled, numpy = jit(f)(x, y), f(x, y)
            np.testing.assert_array_equal(compiled, numpy)
            np.testing.assert_array_equal(
                np.signbit(compiled)[~np.isnan(numpy)], np.signbit(numpy)[~np.isnan(numpy)]
            )


def test_no_cpu_needs_a_library_for_it(monkeypatch):
    half_in_registers = replace(
        machine.host(), cpu="", features=machine.host().features.replace("+avx512fp16,", "")
    )
    monkeypatch.setattr(machine, "current", lambda: half_in_registers)
    for x in (np.ones(40), np.arange(40), np.ones(40, np.float32)):
        assert "hf2" not in native.assembly(jit(to_half).lower(x).llvm())
