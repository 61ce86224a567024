"""The stub driver reports each misuse, and accepts correct uses."""

import numpy as np
import pytest

from functrans.run.cuda.driver import OutOfMemory
from tests.run.cuda.stub import POISON, Misuse, stubs

X = np.arange(4.0)


def other_stream(gpu):
    return gpu._new_stream("another stream")


def filled(gpu, nbytes=32):
    stream = gpu.stream()
    address = gpu.allocate(nbytes, stream)
    gpu.fill(address, 1, nbytes, stream)
    return address, stream


@pytest.fixture
def gpu():
    with stubs(1000) as (one,):
        yield one


def test_use_after_free(gpu):
    address, stream = filled(gpu)
    gpu.free(address, stream)
    with pytest.raises(Misuse, match="in no memory that is given out"):
        gpu.copy_in(address, X, stream)


def test_double_free(gpu):
    address, stream = filled(gpu)
    gpu.free(address, stream)
    with pytest.raises(Misuse, match="free: nothing was given out"):
        gpu.free(address, stream)


@pytest.mark.parametrize("offset", [-1, 8, 32])
def test_copies_out_of_bounds(gpu, offset):
    address, stream = filled(gpu)
    with pytest.raises(Misuse, match=r"past the end|in no memory"):
        gpu.copy_out(np.empty(4), address + offset, stream)


def test_reading_on_another_stream_without_an_event(gpu):
    address, _ = filled(gpu)
    with pytest.raises(Misuse, match="does not come after the writing"):
        gpu.copy_out(np.empty(4), address, other_stream(gpu))


def test_reading_on_another_stream_after_an_event(gpu):
    address, stream = filled(gpu)
    other = other_stream(gpu)
    gpu.wait(other, gpu.record(stream))
    gpu.copy_out(np.empty(4), address, other)


def test_an_event_from_before_the_writing_is_none_for_it(gpu):
    stream, other = gpu.stream(), other_stream(gpu)
    early = gpu.record(stream)
    address, _ = filled(gpu)
    gpu.wait(other, early)
    with pytest.raises(Misuse, match="does not come after the writing"):
        gpu.copy_out(np.empty(4), address, other)


def test_what_the_host_has_waited_for_is_done(gpu):
    address, stream = filled(gpu)
    gpu.synchronize(stream)
    gpu.copy_out(np.empty(4), address, other_stream(gpu))


def test_writing_while_another_stream_reads(gpu):
    address, stream = filled(gpu)
    other = other_stream(gpu)
    gpu.wait(other, gpu.record(stream))
    gpu.copy_out(np.empty(4), address, other)
    with pytest.raises(Misuse, match="does not come after the reading"):
        gpu.fill(address, 0, 32, stream)


def test_freeing_while_another_stream_reads(gpu):
    address, stream = filled(gpu)
    other = other_stream(gpu)
    gpu.wait(other, gpu.record(stream))
    gpu.copy_out(np.empty(4), address, other)
    with pytest.raises(Misuse, match=r"free on .* does not come after the reading"):
        gpu.free(address, stream)
    gpu.free(address, stream, [gpu.record(other)])


def test_two_streams_may_read_at_once(gpu):
    address, stream = filled(gpu)
    gpu.synchronize(stream)
    for _ in range(2):
        gpu.copy_out(np.empty(4), address, other_stream(gpu))


def test_freed_memory_is_given_out_again_poisoned_and_only_where_that_is_ordered(gpu):
    address, stream = filled(gpu)
    gpu.free(address, stream)
    assert gpu.allocate(32, other_stream(gpu)) != address
    assert gpu.allocate(32, stream) == address
    assert set(gpu.view(address, 32, np.uint8)) == {POISON}


def test_a_leak(gpu):
    address, stream = filled(gpu)
    with pytest.raises(Misuse, match=r"1 pieces of memory were never freed, of \[32\] bytes"):
        gpu.close()
    gpu.free(address, stream)
    gpu.close()


def test_more_than_there_is(gpu):
    filled(gpu, 900)
    with pytest.raises(OutOfMemory):
        gpu.allocate(200, gpu.stream())
    filled(gpu, 100)


def test_memory_that_is_kept_is_in_the_way_until_it_is_trimmed(gpu):
    address, stream = filled(gpu, 900)
    gpu.free(address, stream)
    with pytest.raises(OutOfMemory):
        gpu.allocate(200, stream)
    gpu.trim()
    gpu.allocate(200, stream)


def test_a_kernel_reads_what_was_written_and_writes_what_was_not(gpu):
    address, stream = filled(gpu)
    out = gpu.allocate(32, stream)
    kernel = gpu.load(b"", "any")
    gpu.launch(kernel, 1, 32, (address, out, 4), stream)
    with pytest.raises(Misuse, match=r"kernel any on .* does not come after the writing"):
        gpu.launch(kernel, 1, 32, (out, 4), other_stream(gpu))


def test_a_kernel_that_says_what_it_writes(gpu):
    address, stream = filled(gpu)
    other = other_stream(gpu)
    gpu.wait(other, gpu.record(stream))
    gpu.copy_out(np.empty(4), address, other)
    gpu.writes["in_place"] = {0}
    with pytest.raises(Misuse, match="does not come after the reading"):
        gpu.launch(gpu.load(b"", "in_place"), 1, 32, (address,), stream)


@pytest.mark.parametrize(
    ("blocks", "threads", "arguments", "shared"),
    [
        (0, 32, (), 0),
        (1 << 31, 32, (), 0),
        (1, 0, (), 0),
        (1, 1025, (), 0),
        (1, 32, (1.0,), 0),
        (1, 32, (np.int64(1),), 0),
        (1, 32, (), (48 << 10) + 1),
    ],
)
def test_launches_that_are_none(gpu, blocks, threads, arguments, shared):
    stream = gpu.stream()
    with pytest.raises(Misuse, match="launch:"):
        gpu.launch(gpu.load(b"", "any"), blocks, threads, arguments, stream, shared)


@pytest.mark.parametrize("action", ["copy_out", "allocate", "record_free"])
def test_what_may_not_be_captured(gpu, action):
    address, _ = filled(gpu)
    actions = {
        "copy_out": lambda on: gpu.copy_out(np.empty(4), address, on),
        "allocate": lambda on: gpu.allocate(8, on),
        "record_free": lambda on: gpu.free(address, on),
    }
    with pytest.raises(Misuse, match="is being captured"):
        gpu.capture(actions[action])


def test_a_graph_checks_its_memory_at_each_replay(gpu):
    address, stream = filled(gpu)
    kernel = gpu.load(b"", "any")
    graph = gpu.capture(lambda on: gpu.launch(kernel, 1, 32, (address,), on))
    assert gpu.launches == []
    gpu.replay(graph, stream)
    assert len(gpu.launches) == 1
    again = gpu.capture(lambda on: gpu.fill(address, 0, 32, on), graph)
    with pytest.raises(Misuse, match="was made into another one"):
        gpu.replay(graph, stream)
    gpu.free(address, stream)
    with pytest.raises(Misuse, match="in no memory that is given out"):
        gpu.replay(again, stream)


def test_a_driver_whose_stream_was_not_asked_for_last():
    with stubs(100, 100) as (first, second):
        stream = first.stream()
        second.stream()
        with pytest.raises(Misuse, match="has not called stream"):
            first.allocate(8, stream)


def test_a_stream_of_another_device():
    with stubs(100, 100) as (first, second):
        wrong = second.stream()
        first.stream()
        with pytest.raises(Misuse, match="is not of cuda:0"):
            first.allocate(8, wrong)
