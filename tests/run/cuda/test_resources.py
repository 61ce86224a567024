"""Resource use of kernels from the assembler's log, and occupancy."""

import pytest

from functrans.run.cuda.resources import MULTIPROCESSORS, Occupancy, Resources, occupancy, parse

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel' for 'sm_90'
ptxas info    : Function properties for kernel
ptxas         .     304 bytes stack frame, 48 bytes spill stores, 52 bytes spill loads
ptxas info    : Used 34 registers, used 1 barriers, 304 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 19.963 ms
info    : used 34 registers, used 1 barriers, 0 stack, 2048 bytes smem, 568 bytes cmem[0]
"""


def test_the_log_is_read():
    assert parse(LOG) == Resources(34, 48, 52, 304, 1024)
    assert parse(LOG).spills == 100
    assert parse(LOG.replace(", 1024 bytes smem", "")).shared == 0


def test_another_log_is_refused():
    with pytest.raises(ValueError, match="does not say"):
        parse("ptxas fatal   : out of memory")


def taking(registers=16, shared=0):
    return Resources(registers, 0, 0, 0, shared)


@pytest.mark.parametrize(
    ("resources", "threads", "expected"),
    [
        # from NVIDIA's occupancy calculator, for compute capability 9.0
        (taking(), 256, Occupancy(8, 64, 1.0, "threads")),
        (taking(), 32, Occupancy(32, 32, 0.5, "blocks")),
        (taking(32), 1024, Occupancy(2, 64, 1.0, "threads")),
        (taking(33), 1024, Occupancy(1, 32, 0.5, "registers")),
        (taking(64), 256, Occupancy(4, 32, 0.5, "registers")),
        (taking(255), 256, Occupancy(1, 8, 0.125, "registers")),
        (taking(255), 1024, Occupancy(0, 0, 0.0, "registers")),
        (taking(16, 48 * 1024), 256, Occupancy(4, 32, 0.5, "shared memory")),
        (taking(16, 227 * 1024), 256, Occupancy(1, 8, 0.125, "shared memory")),
        (taking(16, 228 * 1024), 256, Occupancy(0, 0, 0.0, "shared memory")),
        (taking(), 33, Occupancy(32, 64, 1.0, "threads")),
        (taking(), 2048, Occupancy(0, 0, 0.0, "threads")),
    ],
)
def test_occupancy(resources, threads, expected):
    assert occupancy(resources, threads) == expected


def test_shared_memory_of_a_launch_counts():
    assert occupancy(taking(), 256, dynamic_shared=100 * 1024).blocks == 2


def test_an_architecture_that_is_not_known():
    with pytest.raises(ValueError, match="of sm_42 are not known, those of sm_80"):
        occupancy(taking(), 256, "sm_42")


def test_architectures_differ_in_shared_memory():
    found = {name: occupancy(taking(16, 64 * 1024), 256, name).blocks for name in MULTIPROCESSORS}
    assert found == {"sm_80": 2, "sm_90": 3, "sm_100": 3}
