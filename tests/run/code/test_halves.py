"""Half floats on CPUs without conversion instructions: LLVM's library calls resolve to ours."""

import ctypes

import numpy as np
import pytest

from functrans import config, jit
from functrans.run.code import cache

CONVERSION = """
define void @convert(ptr %x, ptr %y) {{
  %a = load {source}, ptr %x
  %b = {operation} {source} %a to {result}
  store {result} %b, ptr %y
  ret void
}}
"""

LLVMS = {np.float16: "half", np.float32: "float", np.float64: "double"}


def converted(x, dtype):
    """Numbers converted one by one, by machine code of one instruction of LLVM's."""
    wider = np.dtype(dtype).itemsize > x.dtype.itemsize
    text = CONVERSION.format(
        source=LLVMS[x.dtype.type], result=LLVMS[dtype], operation="fpext" if wider else "fptrunc"
    )
    code = cache.load(text, "convert", {})
    convert = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)
    found = np.empty(x.shape, dtype)
    for i in range(x.size):
        convert(x[i:].ctypes.data, found[i:].ctypes.data)
    return found


def hard():
    """Float64 numbers: halves, the ties between them, their neighbours, and what is at the ends."""
    halves = np.arange(0, 31744, 37, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves[1:] + np.nextafter(halves[1:].astype(np.float16), np.float16(np.inf))) / 2
    near = [np.nextafter(ties, to) for to in (0, np.inf)]
    ends = [0.0, 65519.999, 65520.0, 1e300, np.inf, np.nan, 5e-324, 2.0**-25, 2.0**-24 * 1.5]
    found = np.concatenate([halves, ties, *near, ends])
    return np.concatenate([found, -found])


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", None])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_conversions_round_once(monkeypatch, cpu, source):
    monkeypatch.setattr(config, "cpu", cpu)
    with np.errstate(over="ignore"):
        x = hard().astype(source)
        np.testing.assert_array_equal(converted(x, np.float16), x.astype(np.float16))


@pytest.mark.parametrize("shape", [(), (1,), (17,)])
@pytest.mark.parametrize("function", [np.tanh, lambda x: np.copysign(np.float32(2), x)])
def test_the_sign_of_a_float64_that_is_rounded_twice(function, shape):
    x = np.linspace(-2.0, 2.0, 17)[: int(np.prod(shape))].reshape(shape)
    found = jit(lambda x: function(x.astype(np.float32)).astype(np.float16))(x)
    np.testing.assert_allclose(found, function(x.astype(np.float32)), rtol=2e-3)
