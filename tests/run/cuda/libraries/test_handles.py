"""Library handles: sharing among threads and streams, and destruction."""

import gc
import threading

import numpy as np
import pytest

from functrans import clear_caches
from functrans.run.cuda.libraries import handles as module
from functrans.run.cuda.libraries.handles import BLAS_WORKSPACE, handles_for, pooled
from functrans.run.cuda.libraries.table import adapter
from tests.run.cuda.libraries.stub import Machine


@pytest.fixture(autouse=True)
def no_handles_of_other_tests():
    clear_caches()


def use(machine, n=3):
    """A product, a factorisation and a transform."""
    memory = machine.memory
    handles = handles_for(machine.stream, machine.bindings)
    a, b, c = (memory.place(np.eye(n)) for _ in range(3))
    info = memory.place(np.zeros(1, np.int32))
    adapter("dgemm")(handles, memory.allocate, (b"N", b"N", n, n, n, 1.0, a, n, b, n, 0.0, c, n))
    adapter("dpotrf")(handles, memory.allocate, (b"U", n, a, n, info))
    adapter("dtrsv")(handles, memory.allocate, (b"U", b"N", b"N", n, a, n, b, 1))
    adapter("drfft")(handles, memory.allocate, (1, n, 1, b, memory.place(np.zeros(n + 2))))
    return handles


def test_a_thread_has_one_set_for_each_stream_and_context():
    machine = Machine()
    first = use(machine)
    assert use(machine) is first
    machine.stream += 1
    other = use(machine)
    assert other is not first
    machine.context += 1
    assert use(machine) is not other
    machine.context, machine.stream = machine.context - 1, machine.stream - 1
    assert use(machine) is first
    assert [machine.called(f"{one}.create") for one in ("cublas", "cublasLt", "cusolverDn")] == [
        3
    ] * 3


def test_what_is_not_used_is_not_made():
    machine = Machine()
    handles_for(machine.stream, machine.bindings)
    assert machine.live == []


@pytest.mark.full
def test_each_thread_has_its_own_which_end_with_it():
    machine = Machine()
    mine, found = use(machine), []
    before = len(machine.live)

    def work():
        found.append(id(use(machine)))
        found.append(len(machine.live))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert found[0] != id(mine) and found[1] == 2 * before
    assert len(machine.live) == before


@pytest.mark.full
def test_they_are_destroyed_in_their_own_context():
    machine = Machine()
    use(machine)
    assert machine.live
    # another device is current by now; the stub says if a handle is destroyed there
    machine.context += 1
    clear_caches()
    gc.collect()
    assert machine.live == [] and machine.context == 8


@pytest.mark.full
def test_problems_that_make_room_for_others_are_destroyed(monkeypatch):
    monkeypatch.setattr(module, "PROBLEMS", 2)
    monkeypatch.setattr(module, "TRANSFORMS", 2)
    machine = Machine()
    sizes = []
    for n in (2, 3, 4, 5, 6):
        use(machine, n)
        gc.collect()
        sizes.append(len(machine.live))
    assert sizes[0] < sizes[1] == sizes[2] == sizes[3] == sizes[4]
    before = machine.called("cublasLt.matmul_algo_get_heuristic")
    use(machine, 6)
    assert machine.called("cublasLt.matmul_algo_get_heuristic") == before
    use(machine, 2)
    assert machine.called("cublasLt.matmul_algo_get_heuristic") == before + 1


def test_the_preference_lives_only_while_something_is_chosen():
    machine = Machine()
    use(machine)
    made = machine.called("cublasLt.matmul_preference_create")
    assert made == machine.called("cublasLt.matmul_preference_destroy") == 1


# ---- working memory ------------------------------------------------------------------------------


def test_working_memory_goes_back_when_the_calls_are_on_the_stream():
    machine, given, back = Machine(), [], []

    def allocate(nbytes):
        given.append(machine.memory.allocate(nbytes))
        return given[-1]

    n = 4
    a, b, c = (machine.memory.place(np.eye(n)) for _ in range(3))
    with pooled(allocate, back.append) as workspace:
        handles = handles_for(machine.stream, machine.bindings)
        adapter("dgemm")(handles, workspace, (b"N", b"N", n, n, n, 1.0, a, n, b, n, 0.0, c, n))
        assert given and not back
    assert back == given[::-1]


def test_working_memory_goes_back_when_a_call_fails():
    given, back = [], []

    def allocate(nbytes):
        if len(given) == 2:
            raise MemoryError
        given.append(nbytes)
        return 256 * len(given)

    with pytest.raises(MemoryError), pooled(allocate, back.append) as workspace:
        for nbytes in (8, 16, 24):
            workspace(nbytes)
    assert given == [8, 16] and back == [512, 256]


# ---- CUDA graphs ---------------------------------------------------------------------------------


@pytest.mark.full
def test_what_a_graph_uses_lives_as_long_as_what_it_keeps():
    machine = Machine()
    x = machine.memory.place(np.zeros(4))
    machine.captured = CAPTURED
    with handles_for(machine.stream, machine.bindings).captured(CAPTURED, ROOM) as kept:
        handles = handles_for(machine.stream, machine.bindings)
        adapter("dtrsv")(handles, machine.memory.allocate, (b"U", b"N", b"U", 1, x, 1, x + 8, 1))
        adapter("zfft")(handles, machine.memory.allocate, (b"F", 1, 2, 1, x, x))
    del handles
    used = len(machine.live)
    clear_caches()
    gc.collect()
    assert used == len(machine.live) == 3  # handles of cuBLAS and cuBLASLt, and a plan
    kept.clear()
    gc.collect()
    assert machine.live == []


CAPTURED, ROOM = 0x6600, 1 << 20


def test_the_threads_handles_are_captured_and_given_a_workspace():
    """None is made while a stream is captured: making one allocates memory."""
    machine = Machine()
    x = machine.memory.place(np.array([[2.0]])), machine.memory.place(np.array([4.0]))
    problem = (b"U", b"N", b"N", 1, x[0], 1, x[1], 1)
    handles = handles_for(machine.stream, machine.bindings)
    (blas,) = [one for one in machine.done if hasattr(one, "set_workspace")]
    with handles.captured(CAPTURED, ROOM):
        made = machine.called("cublas.create"), machine.called("cublasLt.create")
        assert made == (1, 1)
        machine.captured = CAPTURED
        (state,) = blas.live.values()
        assert state.workspace == (ROOM, BLAS_WORKSPACE)
        adapter("dtrsv")(handles, machine.memory.allocate, problem)
        machine.captured = None
        assert made == (machine.called("cublas.create"), machine.called("cublasLt.create"))
    assert state.workspace is None
    adapter("dtrsv")(handles, machine.memory.allocate, problem)  # on the thread's stream again


def test_what_is_not_captured_is_not_kept():
    machine = Machine()
    handles = use(machine)
    with handles.captured(CAPTURED, ROOM) as kept:
        pass
    before = list(kept)
    use(machine)
    assert kept == before
