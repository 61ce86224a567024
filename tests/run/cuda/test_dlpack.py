"""DLPack: exported and imported capsules, against NumPy's independent implementation."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from functrans.errors import DtypeError
from functrans.run.cuda import dlpack

DTYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
]  # fmt: skip
SHAPES = [(), (0,), (1,), (3,), (2, 0, 3), (2, 3, 4)]


class Exporter:
    """Memory of the host, handed over by a capsule of ours."""

    def __init__(self, x, versioned):
        self.x, self.versioned = x, versioned

    def __dlpack_device__(self):
        return dlpack.CPU, 0

    def __dlpack__(self, **keywords):
        return dlpack.capsule(
            self.x.ctypes.data, self.x.shape, self.x.dtype, (dlpack.CPU, 0), self, self.versioned
        )


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy_takes_what_we_hand_over(shape, dtype, versioned):
    x = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(dtype)
    found = np.from_dlpack(Exporter(x, versioned))
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(found, x)
    if x.size:
        assert np.shares_memory(found, x)


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_we_take_what_numpy_hands_over(dtype, version):
    x = (np.arange(24) % 3).reshape(2, 3, 4).astype(dtype)
    for y in (x, x[1], x[:, 1:, ::2], x.T, x[:0], x[0, 0, 0:1].reshape(())):
        found = dlpack.taken(y.__dlpack__(max_version=version))
        assert (found.shape, found.dtype) == (y.shape, y.dtype)
        assert found.address == y.ctypes.data
        strides = y.strides if found.strides is None else found.strides
        assert all(
            a == b for n, a, b in zip(y.shape, strides, y.strides, strict=True) if n > 1 and y.size
        )


def test_bfloat16():
    x = np.ones(3, ml_dtypes.bfloat16)
    held = Exporter(x, True).__dlpack__()
    assert dlpack.taken(held).dtype == x.dtype


@pytest.mark.parametrize("versioned", [False, True])
def test_the_owner_lives_as_long_as_the_tensor(versioned):
    owner = Exporter(np.ones(3), versioned)
    alive = weakref.ref(owner)
    found = np.from_dlpack(owner)
    del owner
    gc.collect()
    assert alive() is not None
    assert found.tolist() == [1.0] * 3
    del found
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_that_nobody_takes_lets_its_owner_go(versioned):
    owner = Exporter(np.ones(3), versioned)
    alive, held = weakref.ref(owner), owner.__dlpack__()
    del owner
    assert alive() is not None
    del held
    assert alive() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_what_we_take_is_let_go_once(versioned):
    owner = Exporter(np.ones(3), versioned)
    alive, held = weakref.ref(owner), owner.__dlpack__()
    found = dlpack.taken(held)
    del owner, held
    assert alive() is not None
    del found
    assert alive() is None


def test_what_we_take_of_numpys_is_let_go():
    x = np.ones(3)
    found = dlpack.taken(x.__dlpack__())
    alive = weakref.ref(x)
    del x
    assert alive() is not None
    del found
    assert alive() is None


def test_a_capsule_is_taken_once():
    held = np.ones(3).__dlpack__()
    dlpack.taken(held)
    for none in (held, np.ones(3), None):
        with pytest.raises(ValueError, match="expected a capsule of DLPack's that nobody has used"):
            dlpack.taken(none)


def test_a_newer_dlpack_is_refused_and_let_go(monkeypatch):
    x = np.ones(3)
    held = x.__dlpack__(max_version=(1, 0))
    address = dlpack._pointer(held, b"dltensor_versioned")
    dlpack._Versioned.from_address(address).major = 2
    alive = weakref.ref(x)
    with pytest.raises(ValueError, match=r"expected DLPack 1, found DLPack 2\."):
        dlpack.taken(held)
    del x, held
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("code", "bits", "lanes"), [(2, 8, 1), (0, 4, 1), (2, 32, 4), (7, 8, 1), (2, 128, 1), (6, 1, 1)]
)
def test_types_that_numpy_does_not_have(code, bits, lanes):
    held = np.ones(4, np.float32).__dlpack__()
    managed = dlpack._Managed.from_address(dlpack._pointer(held, b"dltensor"))
    kept = managed.tensor.dtype.code, managed.tensor.dtype.bits
    managed.tensor.dtype = dlpack._DataType(code, bits, lanes)
    with pytest.raises(DtypeError, match=f"DLPack's type {code}, {lanes} lanes of {bits} bits"):
        dlpack.taken(held)
    assert kept == (2, 32)
