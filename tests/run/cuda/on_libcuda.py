"""Runs the scenarios on cuda.core with the stub libcuda.c, in a process of its own.

Of the stand-ins for a GPU in the tests, this is the only one that executes cuda.core itself, and so
the only one that finds a wrong current context or an aborted graph capture. Prints a line of JSON:
for each scenario, by name, the traceback of its failure, or null.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import functrans
from functrans.errors import DeviceError, DeviceMemoryError
from functrans.run.cuda import driver, free_lists
from functrans.run.cuda.core import count
from functrans.run.cuda.staging import PIECE
from tests.run.cuda import scenarios

ROOM = 1 << 26
LAUNCH_FAILED = 719
OK, NO_DEVICE, MISMATCH, SYSTEM_NOT_READY = 0, 100, 803, 802

CUBIN = b"fill 3\n"


class Machine:
    """What libcuda.c lets us change and see."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.fake_log.restype = ctypes.c_char_p
        self.set()

    def set(self, gpus=2, version=13000, status=OK):
        self.library.fake_machine(gpus, version, ROOM, status)

    def log(self, action):
        """What the driver was asked for while something was done, without addresses."""
        self.library.fake_clear()
        action()
        lines = self.library.fake_log().decode().splitlines()
        return [line.split(" 0x")[0] for line in lines]


def message(action):
    with pytest.raises(DeviceError) as caught:
        action()
    return str(caught.value)


def what_is_missing_is_told_apart(machine):
    machine.set(gpus=0)
    assert message(lambda: count("cuda")) == (
        'device="cuda": NVIDIA\'s driver finds no GPU on this machine'
    )
    assert functrans.devices() == ("cpu",)
    machine.set(version=12040)
    assert message(lambda: count("cuda")) == (
        'device="cuda": NVIDIA\'s driver on this machine is for CUDA 12.4, and the packages are '
        "for CUDA 13: update the driver"
    )
    machine.set(status=MISMATCH)
    assert "its parts are of different versions" in message(lambda: count("cuda"))
    machine.set(status=SYSTEM_NOT_READY)
    assert "CUDA_ERROR_SYSTEM_NOT_READY" in message(lambda: count("cuda"))
    machine.set()
    assert message(lambda: driver.driver("cuda:2")) == (
        'there is no device "cuda:2" here: there are "cuda:0", "cuda:1"'
    )
    assert functrans.devices() == ("cpu", "cuda:0", "cuda:1")
    assert driver.driver("cuda") is driver.driver("cuda:0") is not driver.driver("cuda:1")


def a_gpu_says_what_it_is(machine):
    about = driver.driver().properties
    assert about == ("no GPU", "sm_90", 132, 1024, 227 << 10)


def the_driver_is_asked_for_no_more_than_is_needed(machine):
    there = driver.driver()
    stream = there.stream()
    own = f"{stream.handle:x}"
    x = np.arange(4.0)
    put = functrans.device_put(x)
    # nothing is waited for
    assert machine.log(lambda: functrans.device_put(x)) == [f"allocate 32 {own}", "in 32"]
    assert machine.log(lambda: functrans.device_put(x)) == ["in 32"]
    large = np.zeros(free_lists.LARGEST // 8 + 1)
    functrans.device_put(large)
    found = [line.split()[:2] for line in machine.log(lambda: functrans.device_put(large))]
    pieces = [["in", str(PIECE)]] * (large.nbytes // PIECE) + [["in", "8"]]
    assert [each for each in found if each[0] != "record"] == [
        ["allocate", str(large.nbytes)], *pieces, ["free", str(large.nbytes)],
    ]  # fmt: skip
    assert machine.log(lambda: np.asarray(put)) == ["out 32", f"synchronize {own}"]
    kernel = there.load(CUBIN, "fill")
    launch = lambda: there.launch(kernel, 2, 64, (put.memory.address, 4, 0), stream)  # noqa: E731
    assert machine.log(launch) == ["launch fill 2 64 0"]
    assert machine.log(lambda: there.load(CUBIN, "fill", 49152)) == []
    assert machine.log(lambda: there.load(CUBIN, "fill", 49153)) == ["shared fill 49153"]
    graph = there.capture(lambda on: there.launch(kernel, 1, 1, (put.memory.address, 4, 1), on))
    assert machine.log(lambda: there.replay(graph, stream)) == ["replay 1", "launch fill 1 1 0"]
    # an update in place, not another instance
    assert machine.log(
        lambda: there.capture(
            lambda on: there.launch(kernel, 1, 1, (put.memory.address, 4, 2), on), graph
        )
    ) == ["captured 1", "update"]


def reading_on_another_stream_is_ordered_by_events(machine):
    there = driver.driver()
    x = scenarios.words(there, 4)
    legacy, own = there.foreign_stream(1), f"{there.stream().handle:x}"
    assert [line.split()[:2] for line in machine.log(lambda: x.memory.read(legacy))] == [
        ["record"], ["wait", "1"],
    ]  # fmt: skip
    assert machine.log(lambda: x.memory.read(legacy)) == []
    assert machine.log(x.memory.release) == ["record", f"wait {own}"]


def small_pieces_that_a_stream_has_freed_are_its_next_ones(machine):
    there = driver.driver()
    there.trim()
    used = there.memory_state().used
    x, y = scenarios.words(there, 4), scenarios.words(there, 4)
    addresses = {x.memory.address, y.memory.address}
    assert machine.log(x.memory.release) == machine.log(y.memory.release) == []
    assert {scenarios.words(there, 4).memory.address for _ in range(3)} <= addresses
    other = scenarios.words(there, 5)  # of another size
    assert other.memory.address not in addresses
    # and each of them is the system's again when it is asked for
    freed = [line for line in machine.log(there.trim) if line.startswith("free")]
    assert len(freed) == 2
    assert there.memory_state().used == used + 40
    large = functrans.device_put(np.zeros(ROOM // 8 - 2048))
    small = scenarios.words(there, 4)
    del small
    with pytest.raises(DeviceMemoryError):
        functrans.device_put(np.zeros(ROOM // 8))
    del large, other
    assert there.memory_state().used == used


def a_thread_that_ends_gives_back_what_its_stream_has_kept(machine):
    there = driver.driver()
    used = there.memory_state().used
    thread = threading.Thread(target=scenarios.words, args=(there, 4))
    thread.start()
    thread.join()
    assert there.memory_state().used == used


def what_the_driver_refuses_is_an_error_with_its_name(machine):
    there = driver.driver()
    stream = there.stream()
    assert message(lambda: there.free(12345, stream)).startswith(
        "the GPU's driver reports CUDA_ERROR_INVALID_VALUE: words at on_libcuda.py:"
    )
    # the context of the thread is as before
    assert scenarios.words(there, 2).tolist() == [0, 0]


def a_device_that_has_failed_says_so_at_the_users_line(machine):
    there = driver.driver()
    stream = there.stream()
    x, event = scenarios.words(there, 4), there.record(stream)
    kernel = there.load(CUBIN, "fill")
    address = x.memory.address
    launch = lambda on: there.launch(kernel, 1, 32, (address, 4, 1), on)  # noqa: E731
    graph = there.capture(launch)
    machine.library.fake_break(LAUNCH_FAILED)
    try:
        for action in (
            lambda: launch(stream),
            lambda: there.load(b"fill 3", "fill"),
            lambda: there.record(stream),
            lambda: there.wait(stream, event),
            lambda: there.happened(event),
            lambda: there.reach(event),
            lambda: there.replay(graph, stream),
            lambda: there.capture(launch),
        ):
            said = message(action)
            assert said.startswith("the GPU's driver reports "), said
            assert " at on_libcuda.py:" in said, said
        # what dies meanwhile prints nothing, also where events are recorded for it
        x.memory._readers = (there.foreign_stream(1),)
        del x
    finally:
        machine.library.fake_break(OK)
    assert scenarios.words(there, 2).tolist() == [0, 0]


def pinned_memory_goes_with_the_array(machine):
    there = driver.driver()
    there.stream()
    made = []
    assert machine.log(lambda: made.append(there.pinned(64)[8:])) == ["pinned 64 1"]
    assert machine.log(made.clear) == ["free pinned"]


def the_pool_gives_back_what_it_has_when_caches_are_cleared(machine):
    driver.driver("cuda:0").stream()
    assert machine.log(functrans.clear_caches).count("trim") >= 1


def all_streams_are_not_waited_for_while_one_is_captured(machine):
    there = driver.driver()
    kernel, x = there.load(CUBIN, "fill"), scenarios.words(there, 4)
    waiting = threading.Thread(target=lambda: (there.stream(), there.synchronize()))

    def record(on):
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        there.launch(kernel, 1, 32, (x.memory.address, 4, 1), on)

    asked = machine.log(lambda: (there.capture(record), waiting.join()))
    assert asked.index("captured 1") < asked.index("synchronize all")


def the_pool_keeps_what_it_has(machine):
    from functrans.run.cuda.core import CoreDriver

    asked = machine.log(lambda: CoreDriver(1))
    assert "pool 1" in asked
    assert "threshold ffffffffffffffff" in asked
    driver.driver("cuda:0").stream()


def arrays_move_between_gpus(machine):
    scenarios.two_gpus(driver.driver("cuda:0"), driver.driver("cuda:1"))
    driver.driver("cuda:0").stream()


def freeing_another_gpus_memory_leaves_this_one_current(machine):
    x = scenarios.words(driver.driver("cuda:1"), free_lists.LARGEST // 8 + 1)
    here = driver.driver("cuda:0")
    stream = here.stream()
    # (an array that goes hides what the driver says of it)
    assert [line.split()[:2] for line in machine.log(x.memory.release)] == [
        ["free", str(x.memory.nbytes)]
    ]
    here.synchronize(stream)  # would be refused if the other one were current


OWN = [
    what_is_missing_is_told_apart,
    a_gpu_says_what_it_is,
    the_driver_is_asked_for_no_more_than_is_needed,
    small_pieces_that_a_stream_has_freed_are_its_next_ones,
    a_thread_that_ends_gives_back_what_its_stream_has_kept,
    reading_on_another_stream_is_ordered_by_events,
    what_the_driver_refuses_is_an_error_with_its_name,
    a_device_that_has_failed_says_so_at_the_users_line,
    pinned_memory_goes_with_the_array,
    the_pool_gives_back_what_it_has_when_caches_are_cleared,
    all_streams_are_not_waited_for_while_one_is_captured,
    the_pool_keeps_what_it_has,
    arrays_move_between_gpus,
    freeing_another_gpus_memory_leaves_this_one_current,
]
NAMES = [each.__name__ for each in (*OWN, *scenarios.SCENARIOS)]


def outcome(scenario, *arguments):
    try:
        scenario(*arguments)
    except BaseException:
        return traceback.format_exc()
    return None


def printed_in_a_process(folder, module, *arguments):
    """What a module prints, in a process whose libcuda (its first argument) is built first."""
    pytest.importorskip("cuda.core", reason="needs the packages of functrans[cuda]")
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler, on Linux")
    library = folder / "libcuda.so.1"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-Wl,-soname,{library.name}"]
    source, root = Path(__file__).with_name("libcuda.c"), Path(__file__).parents[3]
    subprocess.run([compiler, *options, "-o", library, source, "-lpthread"], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(root)}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        [sys.executable, "-m", module, str(library), *arguments],
        cwd=root, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def in_a_process(folder):
    """The outcomes of all of them."""
    printed, complaints = printed_in_a_process(folder, __name__)
    assert not complaints  # such as exceptions where nobody could catch them
    return json.loads(printed)


def main(library):
    machine = Machine(library)
    found = {each.__name__: outcome(each, machine) for each in OWN}
    machine.set()
    there = driver.driver()
    found |= {each.__name__: outcome(each, there, CUBIN) for each in scenarios.SCENARIOS}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
