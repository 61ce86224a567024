"""The functions as machine code: equal to evaluation with NumPy, and vectorised."""

import ctypes

import numpy as np
import pytest

from functrans import config, vecmath
from functrans.emit.llvm.kernel import ENTRY, emit
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For, Kernel, Store, buffer, load
from functrans.run.code import loading, native
from tests.vecmath.reference import DTYPES, apply, random_bits

BINARY = ("atan2", "atan2_derivative", "hypot", "logaddexp", "logaddexp2", "power", "xlogy")
BINARY += ("beta", "betaln", "boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p", "kl_div")
BINARY += ("log_poisson",)
BINARY += ("lgamma_difference", "polygamma_difference", "powm1", "pseudo_huber", "rel_entr")
FAMILIES = {
    "atan2_derivative": {"n": 1},
    "bessel_i": {"n": 2, "scaled": True},
    "bessel_j": {"n": 2},
    "bessel_k": {"n": 2, "scaled": True},
    "bessel_y": {"n": 2},
    "exprel_derivative": {"n": 1},
    "log1prel_derivative": {"n": 1},
    "polygamma": {"n": 1},
    "polygamma_difference": {"n": 0},
}
"""Functions with parameters, and those that are tried."""
COUNT = 1024


def kernel(name, dtype, arity):
    """``result[i] = function(operand[i], ...)`` in full vectors."""
    operands = [buffer(f"x{k}", dtype, [COUNT]) for k in range(arity)]
    result = buffer("result", dtype, [COUNT])
    index = Scalar("index", (), np.dtype(np.int64), ("i", 0))
    elements = (load(operand, [index]) for operand in operands)
    value = getattr(vecmath, name)(*elements, **FAMILIES.get(name, {}))
    zero, count = const(0, np.int64), const(COUNT, np.int64)
    lanes = native.vector_bytes() // np.dtype(dtype).itemsize
    body = (For(index, zero, count, (Store(result, (index,), value),), lanes=lanes),)
    return Kernel((*operands, result), 0, body)


def call(text, arrays):
    code = loading.link(native.compile_object(text), ENTRY, {})
    flag = ctypes.c_int64(0)
    words = [ctypes.addressof(flag), *(array.ctypes.data for array in arrays)]
    data = (ctypes.c_int64 * len(words))(*words)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    signature(code.address)(0, COUNT, data)
    assert flag.value == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", vecmath.__all__)
@pytest.mark.parametrize(
    "cpu", [None, *(pytest.param(f"x86-64-v{i}", marks=pytest.mark.slow) for i in (2, 3))]
)
def test_machine_code(cpu, name, dtype, monkeypatch):
    monkeypatch.setattr(config, "cpu", cpu)
    arity = 2 if name in BINARY else 1
    rng = np.random.default_rng(0)
    moderate = [rng.standard_normal(COUNT // 2).astype(dtype) * 3 for _ in range(arity)]
    operands = [np.concatenate([x, random_bits(rng, dtype, COUNT // 2)]) for x in moderate]
    result = np.empty(COUNT, dtype)
    text = emit(kernel(name, dtype, arity), native.instructions())
    call(text, [*operands, result])
    expected = apply(name, *operands, **FAMILIES.get(name, {}))
    # the compiler may fuse a product and a sum that NumPy rounds separately; where two large
    # numbers cancel (a logarithm near its root) that shows
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=4 * eps, atol=4 * eps)
    assembly = native.assembly(text)
    if "rip" in assembly:  # x86
        registers = {16: ("xmm",), 32: ("ymm",), 64: ("ymm", "zmm")}[native.vector_bytes()]
        assert any(each in assembly for each in registers)
