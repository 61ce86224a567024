"""Arrays of other packages: zero-copy exchange, with synchronisation of both streams."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import functrans
from functrans.errors import DtypeError, ShapeError
from functrans.run.cuda import dlpack
from functrans.run.cuda.foreign import from_foreign, is_foreign
from functrans.run.cuda.memory import allocate, give_back


class Foreign:
    """An array on the stub's GPU, of somebody else: on a stream of theirs, freed by them."""

    def __init__(self, gpu, x, strides=None, stream=None):
        self.gpu = gpu
        self.x = np.asarray(x)
        gpu.stream()
        self.stream = gpu._new_stream("theirs") if stream is None else stream
        self.memory = allocate(gpu, max(self.x.nbytes, 1), self.stream)
        self.strides = strides
        if self.x.nbytes:
            gpu.copy_in(self.memory.address, np.ascontiguousarray(self.x), self.stream)


class LikeCupy(Foreign):
    """``__cuda_array_interface__`` alone, as Numba has it."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.x.shape,
            "typestr": self.x.dtype.str,
            "data": (self.memory.address if self.x.size else 0, False),
            "strides": self.strides,
            "version": 3,
            "stream": self.stream.handle,
        }


class Slice(LikeCupy):
    """All but the first element."""

    @property
    def __cuda_array_interface__(self):
        whole = super().__cuda_array_interface__
        address, read_only = whole["data"]
        first = {"shape": (self.x.size - 1,), "data": (address + self.x.itemsize, read_only)}
        return whole | first


class LikePytorch(Foreign):
    """DLPack: the consumer's stream is made to wait."""

    versions = True

    def __dlpack_device__(self):
        return dlpack.CUDA, self.gpu.ordinal

    def __dlpack__(self, *, stream, max_version):
        consumer = self.gpu.foreign_stream(stream)
        self.gpu.wait(consumer, self.gpu.record(self.stream))
        return dlpack.capsule(
            self.memory.address,
            self.x.shape,
            self.x.dtype,
            self.__dlpack_device__(),
            self,
            versioned=self.versions,
        )


class LikeOldPytorch(LikePytorch):
    versions = False

    def __dlpack__(self, *, stream):
        return super().__dlpack__(stream=stream, max_version=None)


KINDS = [LikeCupy, LikePytorch, LikeOldPytorch]
DTYPES = ["?", "i1", "i8", "u2", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_taken_without_a_copy(gpu, kind, dtype):
    for shape in ((), (3,), (2, 3), (0, 2)):
        x = (np.arange(np.prod(shape)) % 2).reshape(shape).astype(dtype)
        theirs = kind(gpu, x)
        assert is_foreign(theirs)
        ours = functrans.device_put(theirs)
        assert (ours.shape, ours.dtype) == (x.shape, x.dtype)
        if x.size:
            assert ours.memory.address == theirs.memory.address
        # the stub raises where our stream has not waited for theirs
        np.testing.assert_array_equal(np.asarray(ours), x)


def test_bfloat16_by_dlpack(gpu):
    x = np.ones(3, ml_dtypes.bfloat16)
    assert functrans.device_put(LikePytorch(gpu, x)).dtype == x.dtype


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_kept_as_long_as_our_streams_use_it(gpu, kind):
    gpu.delayed_events = True
    theirs = kind(gpu, np.arange(3.0))
    alive = weakref.ref(theirs)
    ours = functrans.device_put(theirs)
    address = ours.memory.address
    del theirs
    gc.collect()
    assert ours.tolist() == [0.0, 1.0, 2.0]
    target = allocate(gpu, 24, gpu.stream())
    gpu.copy(target.address, address, 24, gpu.stream())
    del ours
    gc.collect()
    assert alive() is not None  # the copy may still be running
    gpu.synchronize(gpu.stream())
    give_back()
    assert alive() is None


@pytest.mark.parametrize("kind", KINDS)
def test_on_another_gpu_it_is_copied(gpus, kind):
    theirs = kind(gpus[1], np.arange(3.0))
    stays = functrans.device_put(theirs, "cuda:1")
    assert stays.memory.address == theirs.memory.address
    moved = functrans.device_put(theirs, "cuda:0")
    assert moved.device == "cuda:0"
    assert moved.tolist() == [0.0, 1.0, 2.0]
    assert functrans.device_put(theirs, "cpu").tolist() == [0.0, 1.0, 2.0]


# byte strides of a 2 x 3 array of float64
STRIDES = [(8, 16), (48, 8), (24, 16), (0, 8), (-24, 8), (12, 8)]


@pytest.mark.parametrize("strides", STRIDES)
def test_what_is_not_contiguous_is_refused(gpu, strides):
    with pytest.raises(ShapeError) as caught:
        functrans.device_put(LikeCupy(gpu, np.ones((2, 3)), strides))
    assert str(caught.value) == (
        f"a LikeCupy of shape (2, 3) is not C-contiguous in memory (its strides, in bytes, are "
        f"{strides}): pass x.contiguous() (PyTorch), or cupy.ascontiguousarray(x)"
    )


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 3), (24, 8)), ((1, 3), (8, 8)), ((3, 1), (8, 1000)), ((0, 3), (1, 1)), ((1,), (-8,))],
)
def test_strides_that_do_not_count(gpu, shape, strides):
    ours = functrans.device_put(LikeCupy(gpu, np.ones(shape), strides))
    np.testing.assert_array_equal(np.asarray(ours), np.ones(shape))


@pytest.mark.parametrize("typestr", [">f8", "|V8", "<M8[s]", "<f16"])
def test_dtypes_that_arrays_do_not_have(gpu, typestr):
    theirs = LikeCupy(gpu, np.zeros(2, typestr))
    with pytest.raises(DtypeError, match="LikeCupy"):
        functrans.device_put(theirs)


def test_a_masked_array(gpu):
    class Masked(LikeCupy):
        @property
        def __cuda_array_interface__(self):
            return super().__cuda_array_interface__ | {"mask": self}

    with pytest.raises(DtypeError, match="a masked Masked is not supported: fill in"):
        functrans.device_put(Masked(gpu, np.ones(2)))


def test_arrays_of_the_host_are_none(gpu):
    class Host:
        def __init__(self):
            self.x = np.ones(3)
            self.__array__ = self.x.__array__
            self.__dlpack__ = self.x.__dlpack__
            self.__dlpack_device__ = self.x.__dlpack_device__

    for x in (np.ones(3), np.float64(1.0), 1.0, Host(), [1.0]):
        assert not is_foreign(x)


# ---- ours, handed over


def test_the_cuda_array_interface(gpu):
    x = functrans.device_put(np.arange(6.0).reshape(2, 3))
    said = x.__cuda_array_interface__
    assert said == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<f8",
        "data": (x.memory.address, False),
        "strides": None,
        "stream": gpu.stream().handle,
    }
    assert functrans.device_put(np.ones((0, 2))).__cuda_array_interface__["data"] == (0, False)


def test_bfloat16_has_no_cuda_array_interface(gpu):
    x = functrans.device_put(np.ones(3, ml_dtypes.bfloat16))
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=r"torch\.from_dlpack"):
        _ = x.__cuda_array_interface__


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 2)])
def test_a_capsule_of_ours(gpu, version):
    x = functrans.device_put(np.arange(3.0))
    assert x.__dlpack_device__() == (dlpack.CUDA, 0)
    held = x.__dlpack__(max_version=version)
    assert ("versioned" in repr(held)) == (version is not None and version[0] >= 1)
    found = dlpack.taken(held)
    assert found[:3] == (x.memory.address, (3,), np.dtype(float))
    del x, held
    assert gpu.used == 24
    del found
    assert gpu.used == 0


def test_the_default_stream_is_waited_for_by_events(gpu):
    """PyTorch's: memory that it has read is freed without waiting for the device."""
    x = functrans.device_put(np.arange(3.0))
    held = x.__dlpack__()
    legacy = gpu.foreign_stream(1)
    gpu.copy_out(np.empty(3), x.memory.address, legacy)
    before = gpu.count("synchronize")
    del x, held
    assert gpu.used == 0
    assert gpu.count("synchronize") == before


@pytest.mark.parametrize("stream", ["theirs", 2, -1])
def test_for_other_streams_memory_waits_until_somebody_waits_for_the_device(gpu, stream):
    x = functrans.device_put(np.arange(3.0))
    theirs = gpu._new_stream("theirs") if stream == "theirs" else None
    held = x.__dlpack__(stream=theirs.handle if theirs else stream)
    if theirs:
        gpu.copy_out(np.empty(3), x.memory.address, theirs)
    before = gpu.count("synchronize")
    del x, held
    assert gpu.used == 24
    assert gpu.count("synchronize") == before
    functrans.clear_caches()
    assert gpu.used == gpu.kept == 0
    assert gpu.count("synchronize") == before + 1


def test_what_dlpack_refuses(gpus):
    x = functrans.device_put(np.ones(3))
    with pytest.raises(BufferError, match="stream=0"):
        x.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="cannot be handed over on"):
        x.__dlpack__(dl_device=(dlpack.CUDA, 1))
    with pytest.raises(BufferError, match="not on the host without a copy"):
        x.__dlpack__(dl_device=(dlpack.CPU, 0), copy=False)


def test_a_copy_by_dlpack(gpu):
    x = functrans.device_put(np.arange(3.0))
    found = dlpack.taken(x.__dlpack__(copy=True, max_version=(1, 0)))
    assert found.address != x.memory.address
    assert found.owner._managed.flags == dlpack.COPIED
    assert np.from_dlpack(x, device="cpu").tolist() == [0.0, 1.0, 2.0]


def test_round_trip(gpu):
    """Ours, taken by them, computed on, and taken back."""
    x = functrans.device_put(np.arange(3.0))
    tensor = LikePytorch(gpu, np.asarray(x))
    taken = dlpack.taken(x.__dlpack__(stream=tensor.stream.handle))
    gpu.copy(tensor.memory.address, taken.address, 24, tensor.stream)
    back = from_foreign(tensor)
    del x, taken
    assert back.tolist() == [0.0, 1.0, 2.0]


def test_what_kernels_cannot_load_at_once_is_copied(gpu):
    x = np.arange(9, dtype=np.float32)
    theirs = Slice(gpu, x)
    taken = from_foreign(theirs)
    assert taken.memory.address % 16 == 0
    np.testing.assert_array_equal(np.asarray(taken), x[1:])
    whole = LikeCupy(gpu, x)
    assert from_foreign(whole).memory.address == whole.memory.address
