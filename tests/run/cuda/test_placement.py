"""Placement of pytrees on a device."""

import gc
import threading

import numpy as np
import pytest

import functrans
from functrans.errors import DeviceError, DeviceMemoryError, DtypeError, TracerConversionError
from functrans.run.cuda import driver
from functrans.run.cuda.array import DeviceArray
from tests.run.cuda.stub import stubs


def test_a_pytree_keeps_its_structure(gpu):
    x = {"w": np.ones((2, 3)), "b": [1, 2.5, None], "flags": (np.array([True]),)}
    there = functrans.device_put(x)
    back = functrans.device_put(there, "cpu")
    assert functrans.tree.structure(back) == functrans.tree.structure(x)
    for found, given in zip(functrans.tree.leaves(back), functrans.tree.leaves(x), strict=True):
        assert type(found) is np.ndarray
        assert found.dtype == np.asarray(given).dtype
        np.testing.assert_array_equal(found, given)


def test_nothing_to_put(gpu):
    assert functrans.device_put([]) == []
    assert functrans.device_put({"a": None}) == {"a": None}
    assert gpu.count("synchronize") == 0


def test_many_leaves_are_not_waited_for(gpu):
    functrans.device_put([np.ones(n) for n in range(10)])
    assert gpu.count("synchronize") == gpu.count("reach") == 0


def test_to_the_host_needs_no_gpu():
    with driver.using():
        assert functrans.devices() == ("cpu",)
        x = np.ones(3)
        assert functrans.device_put({"a": x}, "cpu")["a"] is x


def test_the_devices(gpus):
    assert functrans.devices() == ("cpu", "cuda:0", "cuda:1")


def test_the_leaf_with_a_wrong_dtype_is_named(gpu):
    with pytest.raises(DtypeError) as caught:
        functrans.device_put({"a": 1.0, "b": ["words"]})
    assert str(caught.value) == (
        "device_put: x['b'][0] is 'words' of type str: expected a bool, integer, float or complex "
        "dtype, found <U5: turn it into numbers outside of the traced function"
    )


def test_a_traced_value_is_no_array(gpu):
    with pytest.raises(TracerConversionError):
        functrans.grad(lambda x: functrans.device_put(x))(1.0)


@pytest.mark.parametrize("device", ["gpu", "cuda:1", 0])
def test_devices_that_are_none(gpu, device):
    with pytest.raises(DeviceError):
        functrans.device_put(np.ones(3), device)
    assert gpu.calls == []


def test_running_out_in_the_middle_of_a_tree():
    with stubs(1000) as (gpu,):
        with pytest.raises(DeviceMemoryError, match="no room for 400 bytes"):
            functrans.device_put([np.ones(50) for _ in range(4)])
        gc.collect()
        gpu.close()
        assert functrans.device_put(np.ones(100)).tolist() == [1.0] * 100


def test_two_threads_at_once():
    failures = []

    def work(gpu, barrier, number):
        try:
            with driver.using(gpu):
                barrier.wait()
                for turn in range(100):
                    x = np.full(turn % 7, float(number))
                    there = functrans.device_put([x, x])
                    assert type(there[0]) is DeviceArray
                    shared[number] = there[0]
                    other = shared[1 - number]
                    if other is not None:
                        assert set(other.copy().tolist()) <= {1.0 - number}
                    np.testing.assert_array_equal(np.asarray(there[1]), x)
        except BaseException as error:
            failures.append(error)

    with stubs() as (gpu,):
        shared, barrier = [None, None], threading.Barrier(2)
        threads = [threading.Thread(target=work, args=(gpu, barrier, i)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        shared.clear()
        gc.collect()
        gpu.close()
