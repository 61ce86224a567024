"""Requirements of a driver, as functions of the driver and of a cubin with the kernel `fill`.

They run on a real GPU (test_on_gpu.py), and on cuda.core with a stub of libcuda (test_core.py).
"""

import gc
import threading

import numpy as np
import pytest

import functrans
from functrans.errors import DeviceMemoryError
from functrans.run.cuda.array import DeviceArray
from functrans.run.cuda.memory import allocate

FILL = r"""
extern "C" __global__ void fill(long long *x, long long n, long long value) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x)
        x[i] = value;
}
"""


def words(there, count, value=0):
    """A device array of int64, filled by the driver."""
    stream = there.stream()
    memory = allocate(there, 8 * count, stream)
    there.fill(memory.address, value, 8 * count, stream)
    return DeviceArray(memory, (count,), np.dtype(np.int64))


def arrays_go_there_and_come_back(there, cubin):
    for dtype in ("?", "b", "H", "i", "q", "Q", "e", "f", "d", "F", "D"):
        for shape in ((), (0,), (1,), (17,), (3, 0, 2), (31, 33)):
            x = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)
            put = functrans.device_put(x, there.device)
            found = np.asarray(put)
            assert found.dtype == x.dtype and found.shape == x.shape
            np.testing.assert_array_equal(found, x)
            np.testing.assert_array_equal(np.asarray(put.copy()), x)


def a_kernel_is_launched(there, cubin):
    x = words(there, 1000)
    stream = there.stream()
    kernel = there.load(cubin, "fill")
    there.launch(kernel, 4, 128, (x.memory.address, 700, -5), stream)
    there.launch(kernel, 1, 32, (x.memory.address + 8 * 10, 3, 1 << 40), stream)
    expected = np.where(np.arange(1000) < 700, -5, 0)
    expected[10:13] = 1 << 40
    np.testing.assert_array_equal(np.asarray(x), expected)


def a_kernel_has_more_shared_memory_than_usual(there, cubin):
    x = words(there, 5)
    kernel = there.load(cubin, "fill", 100_000)
    there.launch(kernel, 1, 32, (x.memory.address, 5, 3), there.stream(), 100_000)
    assert x.tolist() == [3] * 5


def a_graph_is_replayed_and_changed(there, cubin):
    x, y = words(there, 8), words(there, 8)
    stream = there.stream()
    kernel = there.load(cubin, "fill")

    def two(value, z):
        def record(on):
            there.launch(kernel, 1, 32, (z.memory.address, 4, value), on)
            there.launch(kernel, 1, 32, (z.memory.address + 32, 4, value + 1), on)

        return record

    graph = there.capture(two(1, x))
    assert x.tolist() == [0] * 8  # nothing has run
    there.replay(graph, stream)
    assert x.tolist() == [1] * 4 + [2] * 4
    graph = there.capture(two(5, y), graph)
    for _ in range(2):
        there.replay(graph, stream)
    assert (x.tolist(), y.tolist()) == ([1] * 4 + [2] * 4, [5] * 4 + [6] * 4)
    # one launch fewer: it is made anew
    graph = there.capture(
        lambda on: there.launch(kernel, 1, 32, (x.memory.address, 2, 9), on), graph
    )
    there.replay(graph, stream)
    assert x.tolist() == [9, 9, 1, 1, 2, 2, 2, 2]


def a_capture_that_fails_leaves_the_driver_usable(there, cubin):
    x = words(there, 4)
    kernel = there.load(cubin, "fill")

    def record(on):
        there.launch(kernel, 1, 32, (x.memory.address, 4, 1), on)
        raise KeyError("recording")

    with pytest.raises(KeyError, match="recording"):
        there.capture(record)
    assert x.tolist() == [0] * 4
    a_graph_is_replayed_and_changed(there, cubin)


def memory_is_freed_while_something_is_captured(there, cubin):
    x, dying = words(there, 4), [words(there, 4)]
    kernel = there.load(cubin, "fill")

    def record(on):
        there.launch(kernel, 1, 32, (x.memory.address, 4, 1), on)
        dying.clear()
        gc.collect()
        there.launch(kernel, 1, 32, (x.memory.address, 2, 2), on)

    there.replay(there.capture(record), there.stream())
    assert x.tolist() == [2, 2, 1, 1]


def memory_runs_out(there, cubin):
    x = words(there, 4, 1)
    there.synchronize()
    used = there.memory_state().used
    with pytest.raises(DeviceMemoryError, match=f"{there.device} has no room for"):
        allocate(there, 1 << 45, there.stream())
    assert there.memory_state().used == used
    np.testing.assert_array_equal(np.asarray(words(there, 100)), 0)
    assert x.tolist() == [0x0101010101010101] * 4


def memory_is_given_back(there, cubin):
    gc.collect()
    there.synchronize()
    before = there.memory_state().used
    x = words(there, 1000)
    assert there.memory_state().used >= before + 8000
    del x
    gc.collect()
    there.synchronize()
    there.trim()
    assert there.memory_state().used == before


def time_is_measured(there, cubin):
    stream = there.stream()
    start = there.record(stream, timed=True)
    x = words(there, 1000)
    stop = there.record(stream, timed=True)
    assert 0 <= there.elapsed(start, stop) < 10
    assert there.happened(stop)
    del x


def copies_to_pinned_memory_are_waited_for_by_an_event(there, cubin):
    x, stream = words(there, 4, 3), there.stream()
    found = there.pinned(32).view(np.int64)
    there.copy_out(found, x.memory.address, stream)
    there.reach(there.record(stream))
    assert found.tolist() == [0x0303030303030303] * 4


def threads_have_streams_of_their_own(there, cubin):
    kernel = there.load(cubin, "fill")
    shared, failures, handles = words(there, 64, 1), [], set()
    barrier = threading.Barrier(4)

    def work(value):
        try:
            handles.add(there.stream().handle)
            barrier.wait(60)  # a stream that is gone may leave its handle to another
            for turn in range(20):
                x = words(there, 256)
                there.launch(kernel, 2, 64, (x.memory.address, 256, value + turn), there.stream())
                np.testing.assert_array_equal(np.asarray(x), value + turn)
                assert shared.copy().tolist() == [0x0101010101010101] * 64
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert len(handles | {there.stream().handle}) == 5


def streams_have_names(there, cubin):
    kernel, own, handles = there.load(cubin, "fill"), there.stream(), set()
    for turn in range(20):
        found = {}
        for name in ("one", "other"):
            with functrans.cuda_stream(name):
                stream = there.stream()
                handles.add(stream.handle)
                x = found[name] = words(there, 256)
                there.launch(kernel, 2, 64, (x.memory.address, 256, turn), stream)
                assert x.memory.stream is stream is not own
        # each waits for the other, and then both are freed
        with functrans.cuda_stream("one"):
            copies = [x.copy() for x in found.values()]
        del found, x
        for copy in copies:
            np.testing.assert_array_equal(np.asarray(copy), turn)
    assert len(handles) == 2
    assert there.stream() is own


def streams_of_others_are_waited_for(there, cubin):
    x = words(there, 4, 2)
    legacy = there.foreign_stream(1)
    there.wait(legacy, there.record(x.memory.stream))
    there.wait(there.stream(), there.record(legacy))
    there.synchronize()
    x.memory.read(legacy)
    assert x.block_until_ready() is x


SCENARIOS = [
    arrays_go_there_and_come_back,
    a_kernel_is_launched,
    a_kernel_has_more_shared_memory_than_usual,
    a_graph_is_replayed_and_changed,
    a_capture_that_fails_leaves_the_driver_usable,
    memory_is_freed_while_something_is_captured,
    memory_runs_out,
    memory_is_given_back,
    time_is_measured,
    copies_to_pinned_memory_are_waited_for_by_an_event,
    threads_have_streams_of_their_own,
    streams_have_names,
    streams_of_others_are_waited_for,
]


def two_gpus(here, there):
    """Arrays go from one GPU to another, and each has its own stream and kernels."""
    x = np.arange(1000.0)
    put = functrans.device_put(x, here.device)
    moved = functrans.device_put(put, there.device)
    assert (put.device, moved.device) == (here.device, there.device)
    del put
    np.testing.assert_array_equal(np.asarray(moved), x)
    again = moved.to_device(here.device)
    a, b = functrans.device_put((moved, again), "cpu")
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, x)
    # freeing one device's memory leaves the other one current
    there.stream()
    here_stream = here.stream()
    there_memory = moved.memory
    del moved, there_memory
    gc.collect()
    here.synchronize(here_stream)
