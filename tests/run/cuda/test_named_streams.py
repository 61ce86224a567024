"""User-selected streams: programs run on them, and uses on other streams are synchronised."""

import numpy as np
import pytest

from functrans import cuda_stream, device_put, jit
from functrans.errors import DeviceError
from functrans.run.cuda import driver


@jit
def step(x):
    return x @ x * 0.5 + np.cumsum(x, axis=0)


def test_a_program_runs_on_the_stream_of_the_moment(emulated):
    x = np.linspace(0.0, 1.0, 25, dtype=np.float32).reshape(5, 5)
    there = device_put(x, "cuda:0")
    with cuda_stream("one"):
        y = step(there)
        with cuda_stream("other"):
            z = step(y)
    total = y + z  # on the stream that the thread has anyway, after both
    streams = [each.memory.stream for each in (there, y, z, total)]
    assert len(set(streams)) == 3
    assert streams[0] is streams[3] is emulated.stream()
    assert y.__cuda_array_interface__["stream"] == streams[1].handle
    np.testing.assert_allclose(np.asarray(total), step(x) + step(step(x)), rtol=1e-5)


def test_nothing_waits_for_what_is_not_used(emulated):
    with cuda_stream("one"):
        x = device_put(np.ones(4), "cuda:0")
        step(x.reshape(2, 2))
    before = emulated.count("wait")
    with cuda_stream("one"):
        step(x.reshape(2, 2))
    with cuda_stream("other"):
        device_put(np.ones(4), "cuda:0")
    assert emulated.count("wait") == before
    assert emulated.count("synchronize") == 0


def test_it_ends_with_the_block(emulated):
    with pytest.raises(ZeroDivisionError), cuda_stream("one"):
        raise ZeroDivisionError
    assert driver.stream_name.get() == ""


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_name_is_a_name(name):
    with pytest.raises(DeviceError) as caught, cuda_stream(name):
        pass
    assert (
        str(caught.value) == f'cuda_stream takes a name, as in cuda_stream("copies"), not {name!r}'
    )
