"""Device memory: stream order of use and release, and exhaustion."""

import gc
import sys
import threading

import numpy as np
import pytest

from functrans.errors import DeviceError, DeviceMemoryError
from functrans.run.call.memory import in_words
from functrans.run.cuda import memory
from functrans.run.cuda.memory import Memory, allocate, give_back, trim
from tests.run.cuda.conftest import close
from tests.run.cuda.stub import Misuse, stubs


def written(gpu, nbytes=32):
    stream = gpu.stream()
    made = allocate(gpu, nbytes, stream)
    gpu.fill(made.address, 1, nbytes, stream)
    return made


def reads(gpu, made, stream):
    made.read(stream)
    gpu.copy_out(np.empty(made.nbytes, np.uint8), made.address, stream)


def writes(gpu, made, stream):
    made.write(stream)
    gpu.fill(made.address, 2, made.nbytes, stream)


def test_it_is_freed_with_the_last_reference(gpu):
    made = written(gpu)
    assert gpu.used == 32
    del made
    assert gpu.used == 0
    assert gpu.count("synchronize") == 0


def test_it_is_freed_once(gpu):
    made = written(gpu)
    made.release()
    made.release()
    del made
    assert gpu.count("free") == 1


def test_no_memory_at_all(gpu):
    made = allocate(gpu, 0, gpu.stream())
    assert made.address == 0
    del made
    assert gpu.calls == []


def test_a_device_that_has_failed_is_not_complained_about_at_each_array(gpu, monkeypatch):
    def refuses(*arguments, **named):
        raise DeviceError("an illegal address")

    made, said = written(gpu), []
    address, stream = made.address, made.stream
    with monkeypatch.context() as patched:
        patched.setattr(sys, "unraisablehook", said.append)
        patched.setattr(gpu, "free", refuses)
        del made
    assert said == []
    gpu.free(address, stream)


def test_it_is_freed_where_an_exception_goes_by(gpu):
    def fails():
        made = written(gpu)
        raise KeyError(made.nbytes)

    with pytest.raises(KeyError):
        fails()
    gc.collect()
    assert gpu.used == 0


def test_another_stream_waits_once_to_read(gpu):
    made, other = written(gpu), gpu._new_stream("other")
    for _ in range(3):
        reads(gpu, made, other)
    assert gpu.count("wait") == 1


def test_its_own_stream_does_not_wait(gpu):
    made = written(gpu)
    reads(gpu, made, made.stream)
    writes(gpu, made, made.stream)
    assert gpu.count("wait") == gpu.count("record") == 0


def test_readers_do_not_wait_for_one_another(gpu):
    made, a, b = written(gpu), gpu._new_stream("a"), gpu._new_stream("b")
    reads(gpu, made, a)
    reads(gpu, made, b)
    assert a not in b.clock


def test_freeing_comes_after_all_readers(gpu):
    made = written(gpu)
    for name in "abc":
        reads(gpu, made, gpu._new_stream(name))
    # the stub raises if the order is left open
    del made
    assert gpu.used == 0


def test_writing_comes_after_all_readers_and_moves_it_to_another_stream(gpu):
    made, a, b = written(gpu), gpu._new_stream("a"), gpu._new_stream("b")
    reads(gpu, made, a)
    writes(gpu, made, b)
    assert made.stream is b
    reads(gpu, made, a)  # which waits again, for the new contents
    writes(gpu, made, gpu.stream())


def test_without_its_order_the_stub_would_have_found_it(gpu):
    made, other = written(gpu), gpu._new_stream("other")
    with pytest.raises(Misuse):
        gpu.copy_out(np.empty(32, np.uint8), made.address, other)


def test_random_uses_on_three_streams_are_ordered(gpu):
    random = np.random.default_rng(0)
    streams = [gpu.stream(), gpu._new_stream("a"), gpu._new_stream("b")]
    alive = []
    for _ in range(400):
        stream = streams[random.integers(3)]
        choice = random.integers(4)
        if choice == 0 or not alive:
            made = allocate(gpu, int(random.integers(1, 4)) * 8, stream)
            gpu.fill(made.address, 0, made.nbytes, stream)
            alive.append(made)
        elif choice == 1:
            del alive[random.integers(len(alive))]
        else:
            (reads if choice == 2 else writes)(gpu, alive[random.integers(len(alive))], stream)
    assert gpu.count("synchronize") == 0


def test_two_gpus(gpus):
    """Memory of one is read on a stream of the other, which its freeing waits for."""
    here, there = gpus
    made = written(here)
    stream = there.stream()
    target = allocate(there, 32, stream)
    made.read(stream)
    there.copy_from(target.address, here, made.address, 32, stream)
    del made
    assert here.used == 0
    assert set(there.view(target.address, 32, np.uint8)) == {1}


# ---- other packages


class Owner:
    pass


def test_borrowed_memory_is_kept_until_our_streams_have_done_with_it(gpu):
    gpu.delayed_events = True
    lent = written(gpu)
    owner = Owner()
    owner.kept = lent
    borrowed = Memory(gpu, lent.address, 32, gpu.stream(), owner=owner)
    other = gpu._new_stream("other")
    reads(gpu, borrowed, other)
    assert not borrowed.exclusive
    del borrowed, owner, lent
    give_back()
    assert gpu.used == 32  # the other stream may still read
    gpu.synchronize()
    give_back()
    assert gpu.used == 0


def seen(gpu):
    """Memory that others have seen, and nobody has any more."""
    made = written(gpu)
    assert made.exclusive
    made.show()
    assert not made.exclusive


def test_memory_that_others_have_seen_makes_nobody_wait(gpu):
    for _ in range(3):
        seen(gpu)
    assert gpu.used > 0
    assert gpu.count("synchronize") == 0
    trim()
    assert gpu.used == gpu.kept == 0
    assert gpu.count("synchronize") == 1


def test_where_others_have_seen_much_the_device_is_waited_for_now_and_then(gpu, monkeypatch):
    size = written(gpu).nbytes
    monkeypatch.setattr(memory, "MOST_SHOWN", 4 * size)
    for _ in range(60):
        seen(gpu)
        assert gpu.used <= 6 * size
    assert gpu.count("synchronize") == 11


def test_where_there_is_no_room_what_others_have_seen_is_freed():
    with stubs(1 << 10) as (gpu,):
        gpu.stream()
        for _ in range(200):
            seen(gpu)
        close(gpu)


# ---- out of memory


def test_memory_that_others_keep_is_given_back_before_it_runs_out():
    with stubs(1000) as (gpu,):
        written(gpu, 900).release()
        assert gpu.kept == 900
        made = written(gpu, 800)
        assert gpu.count("trim") == 1
        made.release()


def test_garbage_is_collected_before_it_runs_out():
    with stubs(1000) as (gpu,):
        gc.disable()
        try:
            cycle = [written(gpu, 900)]
            cycle.append(cycle)
            del cycle
            made = written(gpu, 800)
        finally:
            gc.enable()
        assert gpu.used == 800
        made.release()


def test_running_out_is_an_error_with_sizes_and_the_pool_stays_usable():
    with stubs(10_000_000) as (gpu,):
        held = [written(gpu, 4_000_000)]
        with pytest.raises(DeviceMemoryError) as caught:
            held.append(written(gpu, 8_500_000))
        assert str(caught.value) == (
            "cuda:0 has no room for 8.5 MB: 6 MB of 10 MB are free, and 4 MB are in arrays of this "
            "process: delete arrays that are no longer needed, or compute on fewer rows at a time"
        )
        assert isinstance(caught.value, MemoryError) and isinstance(caught.value, DeviceError)
        assert caught.value.__context__ is None
        assert gpu.used == 4_000_000
        held.append(written(gpu, 6_000_000))
        held.clear()
        gpu.close()


def test_running_out_in_the_middle_frees_what_was_there_before():
    def several():
        return [written(gpu, 300) for _ in range(4)]

    with stubs(1000) as (gpu,):
        with pytest.raises(DeviceMemoryError):
            several()
        gc.collect()
        assert gpu.used == 0
        held = written(gpu, 1000)
        held.release()


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (25_000_000, "25 MB"),
        (80 * 10**9, "80 GB"),
        (5 * 10**13, "50 TB"),
    ],
)
def test_sizes_in_words(nbytes, words):
    assert in_words(nbytes) == words


# ---- threads


def test_two_threads_share_memory_and_free_it():
    failures = []

    def work(gpu, shared, barrier):
        try:
            barrier.wait()
            stream = gpu.stream()
            for turn in range(200):
                made = written(gpu, 8 + turn % 3 * 8)
                reads(gpu, made, stream)
                reads(gpu, shared[turn], stream)
                barrier.wait()
                if turn % 2 == threading.current_thread().number:
                    shared[turn] = None
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    with stubs() as (gpu,):
        shared, barrier = [written(gpu) for _ in range(200)], threading.Barrier(2)
        threads = [threading.Thread(target=work, args=(gpu, shared, barrier)) for _ in range(2)]
        for number, thread in enumerate(threads):
            thread.number = number
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        gc.collect()
        gpu.close()


def test_a_fork_leaves_the_memory_to_the_parent(gpu, monkeypatch):
    made = written(gpu)
    monkeypatch.setattr(memory, "inherited", lambda: True)
    del made
    assert gpu.count("free") == 0
    monkeypatch.undo()
    for address in list(gpu._blocks):
        gpu.free(address, gpu.stream())
