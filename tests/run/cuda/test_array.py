"""Device arrays: attributes, and conversion to host arrays."""

import contextvars
import copy
import gc
import math
import operator
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest

import functrans
from functrans.errors import DeviceError, UnsupportedAttributeError, UnsupportedNumPyError
from functrans.run.cuda import answers, operations  # noqa: F401 (who answers is known before)
from functrans.run.cuda.array import DeviceArray, to_host

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", ml_dtypes.bfloat16,
]  # fmt: skip
SHAPES = [(), (0,), (1,), (17,), (3, 0, 2), (2, 3, 4), (300,)]


def values(shape, dtype):
    count = math.prod(shape)
    return (np.arange(count) % 5 - (dtype == "int64")).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_it_is_and_what_is_in_it(gpu, shape, dtype):
    x = values(shape, dtype)
    there = functrans.device_put(x)
    for name in ("shape", "dtype", "size", "ndim", "nbytes", "itemsize"):
        assert getattr(there, name) == getattr(x, name)
    assert there.device == "cuda:0"
    for same in (there, there.copy(), pickle.loads(pickle.dumps(there)), copy.deepcopy(there)):
        found = np.asarray(same)
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        np.testing.assert_array_equal(found, x)
    assert there.tolist() == x.tolist()


def test_the_length(gpu):
    assert len(functrans.device_put(np.ones((3, 2)))) == 3
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(functrans.device_put(1.0))


@pytest.mark.parametrize("layout", ["F", "strided", "swapped", "read-only"])
def test_arrays_of_the_host_of_any_layout(gpu, layout):
    x = np.arange(12.0).reshape(3, 4)
    x = {
        "F": np.asfortranarray(x),
        "strided": np.arange(24.0).reshape(3, 8)[:, ::2],
        "swapped": x.astype(">f8"),
        "read-only": np.broadcast_to(1.5, (3, 4)),
    }[layout]
    there = functrans.device_put(x)
    np.testing.assert_array_equal(np.asarray(there), x)
    assert there.dtype == np.float64 and there.dtype.isnative


def test_an_array_that_is_changed_afterwards_stays_what_it_was_there(gpu):
    x = np.ones(5)
    there = functrans.device_put(x)
    x[:] = 2.0
    assert there.tolist() == [1.0] * 5


def test_what_one_gets_can_be_written_to(gpu):
    there = functrans.device_put(np.ones(3))
    found = np.asarray(there)
    found[0] = 5.0
    assert there.tolist() == [1.0] * 3


# ---- one number


@pytest.mark.few(1)
@pytest.mark.parametrize("convert", [bool, int, float, complex, operator.index])
@pytest.mark.parametrize("x", [np.array(3), np.array([2]), np.array(1.5), np.array([1, 2])])
def test_numbers_are_those_of_numpy(gpu, convert, x):
    there = functrans.device_put(x)
    try:
        expected = convert(x)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)) as caught:
            convert(there)
        assert str(caught.value) == str(error)
    else:
        assert convert(there) == expected
        assert type(convert(there)) is type(expected)


def test_items(gpu):
    there = functrans.device_put(np.arange(6.0).reshape(2, 3))
    assert there.item(4) == there.item(1, 1) == 4.0
    assert type(functrans.device_put(2).item()) is int
    with pytest.raises(ValueError, match="can only convert an array of size 1"):
        there.item()


def test_it_indexes_a_list_and_is_formatted(gpu):
    assert "abc"[functrans.device_put(1)] == "b"
    assert f"{functrans.device_put(0.5):.3f}" == "0.500"
    assert f"{functrans.device_put(np.ones(1))}" == (
        "DeviceArray([1.], dtype=float64, device='cuda:0')"
    )


def test_it_has_no_hash(gpu):
    with pytest.raises(TypeError, match="unhashable"):
        hash(functrans.device_put(1.0))


# ---- as an array


def test_array_with_a_dtype_and_without_a_copy(gpu):
    there = functrans.device_put(np.array([1.5, 2.5]))
    assert np.asarray(there, np.int32).tolist() == [1, 2]
    assert np.array(there, copy=True).tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="cannot be had on the host without a copy"):
        np.asarray(there, copy=False)


def test_several_are_waited_for_at_once(gpu):
    there = functrans.device_put([np.ones(n) for n in range(5)])
    before = gpu.count("synchronize")
    assert [each.tolist() for each in to_host(there)] == [[1.0] * n for n in range(5)]
    assert gpu.count("synchronize") == before + 1


def test_block_until_ready_waits_for_the_stream_that_makes_it(gpu):
    made = []
    thread = threading.Thread(target=lambda: made.append(there.copy()))
    there = functrans.device_put(np.ones(3))
    thread.start()
    thread.join()
    assert made[0].memory.stream is not gpu.stream()
    assert made[0].block_until_ready() is made[0]
    assert gpu.calls[-1] == "synchronize"


# ---- printing


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.array(1.5), "DeviceArray(1.5, dtype=float64, device='cuda:0')"),
        (np.array([1, 2], "i4"), "DeviceArray([1, 2], dtype=int32, device='cuda:0')"),
        (np.array([True]), "DeviceArray([ True], dtype=bool, device='cuda:0')"),
        (np.ones((2, 0)), "DeviceArray([], shape=(2, 0), dtype=float64, device='cuda:0')"),
        (
            np.arange(4.0).reshape(2, 2),
            "DeviceArray([[0., 1.],\n             [2., 3.]], dtype=float64, device='cuda:0')",
        ),
        (
            np.arange(100_000.0).reshape(100, -1),
            "DeviceArray([0., 1., 2., 3., ...], shape=(100, 1000), dtype=float64, device='cuda:0')",
        ),
    ],
)
def test_how_it_is_printed(gpu, x, text):
    assert repr(functrans.device_put(x)) == text


def test_printing_a_large_array_copies_its_head(gpu, monkeypatch):
    there = functrans.device_put(np.zeros(100_000))
    copied = []
    copy_out = gpu.copy_out
    monkeypatch.setattr(
        gpu, "copy_out", lambda to, *rest: copied.append(to.nbytes) or copy_out(to, *rest)
    )
    repr(there)
    assert copied == [32]


# ---- devices


def test_from_one_gpu_to_another(gpus):
    x = np.arange(5.0)
    here = functrans.device_put(x)
    there = functrans.device_put(here, "cuda:1")
    assert there.device == "cuda:1"
    assert there.to_device("cuda:1") is there
    assert functrans.device_put(here) is here
    np.testing.assert_array_equal(there.to_device("cpu"), x)
    np.testing.assert_array_equal(np.asarray(there.to_device("cuda:0")), x)
    for found in to_host([here, there]):
        np.testing.assert_array_equal(found, x)
    with pytest.raises(DeviceError, match="there is no device"):
        here.to_device("cuda:2")


def test_a_pickle_goes_back_to_its_gpu(gpus):
    x = functrans.device_put(np.ones(3), "cuda:1")
    assert pickle.loads(pickle.dumps(x)).device == "cuda:1"


def test_it_outlives_the_thread_that_made_it(gpu):
    made, inside = [], contextvars.copy_context()
    put = lambda: made.append(functrans.device_put(np.ones(3)))  # noqa: E731
    thread = threading.Thread(target=inside.run, args=(put,))
    thread.start()
    thread.join()
    assert made.pop().tolist() == [1.0] * 3


@pytest.mark.full
def test_it_is_freed_when_putting_the_next_one_fails(gpu, monkeypatch):
    copy_in = gpu.copy_in

    def fails(address, source, stream):
        if source.size == 7 * 8:  # bytes
            raise KeyError("seven")
        copy_in(address, source, stream)

    monkeypatch.setattr(gpu, "copy_in", fails)
    with pytest.raises(KeyError, match="seven"):
        functrans.device_put([np.ones(3), np.ones(7)])
    gc.collect()
    assert gpu.used == 0


# ---- the seam for NumPy's operations


OPERATIONS = {
    "np.sin": np.sin,
    "np.add": lambda x: x + 1,
    "np.subtract": lambda x: np.ones(3) - x,
    "np.less": lambda x: x < 2,
    # NumPy 2.4 keeps the array for ever where the override of np.add.reduce raises
    "np.add.outer": lambda x: np.add.outer(x, 1),
    "np.sum": np.sum,
    "np.linalg.norm": np.linalg.norm,
    "x[...]": lambda x: x[0],
    "iteration": list,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_nothing_answers_for_is_an_error_and_no_copy(gpu, name, monkeypatch):
    for table in ("ufunc", "function"):
        monkeypatch.setattr(answers, table, [])
    monkeypatch.setattr(answers, "operators", {})
    there = functrans.device_put(np.ones(3))
    before = gpu.count("copy_out")
    with pytest.raises(UnsupportedNumPyError) as caught:
        OPERATIONS[name](there)
    assert str(caught.value).startswith(
        f"{name} is not supported on device arrays at test_array.py"
    )
    assert "np.asarray(x) copies x to the host" in str(caught.value)
    assert gpu.count("copy_out") == before


def test_iterating_a_number(gpu):
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(functrans.device_put(1.0))


def test_answers_are_asked(gpu, monkeypatch):
    asked = []
    monkeypatch.setattr(answers, "ufunc", [lambda *args: asked.append(args) or "ufunc"])
    monkeypatch.setattr(answers, "function", [lambda *args: asked.append(args) or "function"])
    monkeypatch.setitem(answers.operators, "__getitem__", lambda x, i: ("item", i))
    monkeypatch.setitem(answers.methods, "double", lambda x, by=2: ("method", x.shape, by))
    monkeypatch.setitem(answers.attributes, "T", lambda x: ("T", x.shape))
    there = functrans.device_put(np.ones(3))
    assert there + 1 == "ufunc"
    assert asked.pop()[:2] == (np.add, "__call__")
    assert np.sum(there, axis=0) == "function"
    function, arguments, keywords = asked.pop()
    assert function is np.sum and arguments[0] is there and keywords == {"axis": 0}
    assert there[1:] == ("item", slice(1, None))
    assert there.double(by=3) == ("method", (3,), 3)
    assert there.T == ("T", (3,))


def test_attributes_that_are_not_there(gpu, monkeypatch):
    for table in ("methods", "attributes"):
        monkeypatch.setattr(answers, table, {"transpose": None})
    there = functrans.device_put(np.ones(3))
    assert not hasattr(there, "real")
    assert not hasattr(there, "__array_interface__")
    with pytest.raises(
        UnsupportedAttributeError, match=r"ndarray\.real is not supported on device"
    ):
        _ = there.real
    with pytest.raises(AttributeError, match="has no attribute 'transpos'; did you mean transpose"):
        _ = there.transpos


def test_it_is_a_leaf(gpu):
    there = functrans.device_put({"a": np.ones(2), "b": (1, [2.0])})
    assert all(type(each) is DeviceArray for each in functrans.tree.leaves(there))
    assert functrans.tree.structure(there) == functrans.tree.structure({"a": 0, "b": (1, [2])})
