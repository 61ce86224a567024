"""Failures recorded on the device by kernels are raised when results are read."""

import contextvars
import gc
import pickle
import threading

import numpy as np
import pytest

import functrans
from functrans.loop.failures import FAILURES, OUT_OF_BOUNDS, SINGULAR
from functrans.run.cuda.array import DeviceArray, to_host
from functrans.run.cuda.pending import MOST, Flag, look, pending


def status(gpu, code=0, **options):
    """A word that a kernel has set."""
    flag = Flag(gpu.stream())
    gpu.fill(flag.address, 0, 8, flag.stream)
    gpu.fill(flag.address, code, 1, flag.stream)
    return flag.fetch(**options)


def result(*words):
    """An array that depends on these words."""
    x = functrans.device_put(np.arange(3.0))
    return DeviceArray(x.memory, x.shape, x.dtype, words)


LOOKS = {
    "np.asarray": np.asarray,
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x.item(0),
    "float": float,
    "bool": bool,
    "block_until_ready": lambda x: x.block_until_ready(),
    "check": lambda x: x.check(),
    "to_device": lambda x: x.to_device("cpu"),
    "device_put": lambda x: functrans.device_put([x], "cpu"),
    "pickle": pickle.dumps,
    "__cuda_array_interface__": lambda x: x.__cuda_array_interface__,
    "__dlpack__": lambda x: x.__dlpack__(),
    "copy and look": lambda x: np.asarray(x.copy()),
}


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_is_told_each_time(gpu, look):
    x = result(status(gpu, OUT_OF_BOUNDS))
    for _ in range(2):
        with pytest.raises(IndexError, match="an index is out of bounds"):
            LOOKS[look](x)


@pytest.mark.few(3)
@pytest.mark.parametrize("code", sorted(FAILURES))
def test_each_number_is_its_exception(gpu, code):
    with pytest.raises(FAILURES[code].exception) as caught:
        np.asarray(result(status(gpu, code)))
    assert str(caught.value) == FAILURES[code].message


def test_a_program_may_say_more(gpu):
    told = {SINGULAR: KeyError("the third matrix")}
    with pytest.raises(KeyError, match="the third matrix"):
        np.asarray(result(status(gpu, SINGULAR, explain=told.__getitem__)))


def test_where_all_is_well_one_looks_once(gpu):
    word = status(gpu)
    x = result(word)
    assert np.asarray(x).tolist() == [0.0, 1.0, 2.0]
    assert (word.is_good(), x.pending) == (True, ())
    before = gpu.count("copy_out")
    np.asarray(x)
    np.asarray(result(word))
    assert gpu.count("copy_out") == before + 2


def test_a_word_is_waited_for_together_with_the_numbers(gpu):
    x, y = result(status(gpu)), result(status(gpu))
    before = gpu.count("synchronize")
    to_host([x, y])
    assert gpu.count("synchronize") == before + 1


def test_what_depends_on_a_failure_has_failed(gpu):
    x, y = result(status(gpu, SINGULAR)), result(status(gpu))
    z = result(*pending([x.pending, y.pending, (status(gpu),)]))
    assert len(z.pending) == 3
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        np.asarray(z)
    assert np.asarray(y).tolist() == [0.0, 1.0, 2.0]


def test_what_is_known_is_not_carried_on(gpu):
    gpu.delayed_events = True
    known, unknown = status(gpu), status(gpu)
    look((known,))
    assert pending([(known, unknown), (unknown,)]) == (unknown,)


def test_what_has_come_is_not_waited_for(gpu):
    assert pending([(status(gpu),), (status(gpu), status(gpu))]) == ()
    assert gpu.count("synchronize") == gpu.count("reach") == 0


def test_a_long_computation_waits_for_the_older_half(gpu):
    gpu.delayed_events = True
    words = tuple(status(gpu) for _ in range(MOST + 1))
    assert pending([words[:-1]]) == words[:-1]
    assert pending([words]) == words[MOST // 2 + 1 :]
    assert all(each.is_good() for each in words[: MOST // 2 + 1])
    assert not words[-1].is_good()
    with pytest.raises(IndexError):
        pending([(status(gpu, OUT_OF_BOUNDS), *(status(gpu) for _ in range(MOST)))])


def test_words_of_the_host_are_used_again(gpu):
    flag = Flag(gpu.stream())
    gpu.fill(flag.address, 0, 8, flag.stream)
    for _ in range(300):
        flag.fetch().check()
    assert gpu.count("pinned") == 1


def test_a_word_of_another_thread_is_waited_for(gpu):
    made, inside = [], contextvars.copy_context()
    make = lambda: made.append(result(status(gpu, SINGULAR)))  # noqa: E731
    thread = threading.Thread(target=inside.run, args=(make,))
    thread.start()
    thread.join()
    for looks in (np.asarray, lambda x: x.check()):
        with pytest.raises(np.linalg.LinAlgError):
            looks(made[0])


def test_the_word_is_freed_with_the_results(gpu):
    x = result(status(gpu, SINGULAR))
    with pytest.raises(np.linalg.LinAlgError):
        np.asarray(x)
    del x
    gc.collect()
    assert gpu.used == 0


def test_printing_a_failure_does_not_raise(gpu):
    assert repr(result(status(gpu, SINGULAR))) == (
        "DeviceArray(shape=(3,), dtype=float64, device='cuda:0', failed: LinAlgError: Singular "
        "matrix)"
    )


def test_a_failure_on_one_gpu_is_seen_on_another(gpus):
    x = result(status(gpus[0], SINGULAR)).to_device("cuda:1")
    assert x.device == "cuda:1"
    with pytest.raises(np.linalg.LinAlgError):
        np.asarray(x)
