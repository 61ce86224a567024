"""Plans whose steps are kernels and calls of libraries, on an emulated GPU."""

import numpy as np
import pytest

from functrans import config, device_put, jit
from functrans.lower.grid.target import CUDA
from functrans.run.cuda import launches, program
from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.libraries.products import ALIGNED, LARGEST_WORKSPACE
from tests.run.cuda import emulated
from tests.run.cuda.emulated import emulated_gpu
from tests.run.cuda.libraries.memory import Memory
from tests.run.cuda.libraries.stub import Machine
from tests.targets import target

SIDE = 136
RNG = np.random.default_rng(0)


@pytest.fixture
def libraries(monkeypatch):
    """A GPU that runs kernels in the emulator, and has libraries."""
    machine = Machine(Memory(anywhere=True))
    with emulated_gpu(monkeypatch) as gpu:
        capture = gpu.capture

        def captured(record, graph=None):
            def noted(within):
                machine.captured = within.handle
                record(within)
                machine.captured = None

            return capture(noted, graph)

        monkeypatch.setattr(gpu, "capture", captured)
        monkeypatch.setattr(launches, "are_installed", lambda: True)
        monkeypatch.setattr(
            launches, "handles_for", lambda stream: handles_for(machine.stream, machine.bindings)
        )
        yield machine


def drawn(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def always_the_same(allocate):
    """A pool that gives the same memory again to who asks for as much."""
    given = {}

    def found(driver, nbytes, stream):
        if nbytes not in given:
            given[nbytes] = allocate(driver, nbytes, stream)
        return given[nbytes]

    return found


def test_products_are_done_by_the_library(libraries):
    x, y = drawn(SIDE, SIDE), drawn(SIDE, SIDE)
    function = jit(lambda x, y: x @ y, device="cuda")
    np.testing.assert_allclose(function(x, y), x @ y, rtol=1e-4, atol=1e-4)
    assert libraries.called("cublasLt.matmul") == 1


def test_a_graph_keeps_what_its_calls_use(libraries, monkeypatch):
    """The second call with the same addresses is captured."""
    kept = []
    capture = launches.Launches._capture

    def captured(self, given, stream):
        found = capture(self, given, stream)
        kept.append(found.used)
        return found

    monkeypatch.setattr(launches.Launches, "_capture", captured)
    for each in (launches, program):
        monkeypatch.setattr(each, "allocate", always_the_same(each.allocate))
    x, y = device_put(drawn(SIDE, SIDE)), device_put(drawn(SIDE, SIDE))
    function = jit(lambda x, y: (x @ y) @ y)
    expected = np.asarray(x) @ np.asarray(y) @ np.asarray(y)
    for number in (1, 2):
        found = function(x, y)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-3, atol=1e-2)
        del found
        assert len(kept) == number - 1
        assert libraries.called("cublasLt.matmul") == 2 * number
    (handles, *_) = kept[0]
    assert handles.stream == libraries.stream


@pytest.fixture
def graphs(emulated, monkeypatch):
    """A GPU on which one launch is worth a graph."""
    monkeypatch.setattr(launches, "WORTH_A_GRAPH", 1)
    return emulated


def step(p, x):
    return np.cumsum(p) * np.float32(1 / p.size) + np.max(x) - np.mean(np.sort(p))


def checked(p, i):
    return p[i] * np.float32(0.5) + p


def looped(gpu, function, p, others, turns=12):
    """The result of a loop whose result is the next operand, and what it asked of the GPU."""
    there, placed = device_put(p), [device_put(x) for x in others]
    compiled = jit(function)
    compiled(there, placed[0])
    before = {name: gpu.count(name) for name in COUNTED}
    for turn in range(turns):
        there = compiled(there, placed[turn % len(others)])
        p = function(p, others[turn % len(others)])
    asked = {name: gpu.count(name) - count for name, count in before.items()}
    np.testing.assert_allclose(np.asarray(there), p, rtol=1e-3, atol=1e-3)
    return there, asked


COUNTED = ("launch", "replay", "capture", "synchronize", "reach")


def test_a_loop_without_donation_replays_graphs(graphs):
    """The result of a step is in one of two pieces of memory, in turn."""
    x = drawn(6)
    found, asked = looped(graphs, step, x, [drawn(4)])
    assert asked["replay"] >= 8
    assert asked["capture"] <= 3
    del found


def test_a_loop_over_batches_replays_graphs(graphs):
    found, asked = looped(graphs, step, drawn(6), [drawn(4), drawn(4)], 24)
    assert asked["replay"] >= 14
    del found


def scaled(p, factor):
    return step(p, p) * factor


def test_a_number_that_is_given_again_is_there_already(graphs):
    compiled, p = jit(scaled), device_put(drawn(6))
    before = {name: graphs.count(name) for name in ("copy_in", "replay")}
    for factor in [0.5, -0.0, 0.0, 2.0, float("nan")] * 6:
        found = np.asarray(compiled(p, factor))
        np.testing.assert_allclose(found, scaled(np.asarray(p), factor), rtol=1e-5)
        assert np.signbit(found[0]) == np.signbit(scaled(np.asarray(p), factor)[0])
    assert graphs.count("copy_in") - before["copy_in"] == 5
    assert graphs.count("replay") > before["replay"]


def test_a_number_that_is_donated_is_not_the_one_that_stays(emulated):
    compiled, p = jit(lambda k, p: (k + 1.0, p * k), donate_argnums=0), device_put(drawn(6))
    for _ in range(3):
        following, found = compiled(0.5, p)
        assert float(following) == 1.5
        np.testing.assert_array_equal(np.asarray(found), np.asarray(p) * np.float32(0.5))


@pytest.mark.dear
@pytest.mark.usefixtures("graphs")
def test_graphs_have_a_bound():
    compiled = jit(step)
    p, others = device_put(drawn(6)), [device_put(drawn(4)) for _ in range(3 * launches.GRAPHS)]
    for x in (*others, *others[-3:], *others[-3:]):
        for _ in range(2):
            found = np.asarray(compiled(p, x))
            np.testing.assert_allclose(found, step(np.asarray(p), np.asarray(x)), atol=1e-5)


def test_a_loop_that_may_fail_keeps_nothing_and_waits_for_nothing(emulated):
    p, index = drawn(8), np.arange(8) % 3
    found, asked = looped(emulated, checked, p, [index], 40)
    assert asked["synchronize"] == asked["reach"] == 0
    assert emulated.used < 8 * p.nbytes + index.nbytes + 64
    del found


def test_a_loop_that_may_fail_is_told_of_a_failure_in_the_past(emulated):
    p, good, bad = device_put(drawn(8)), device_put(np.arange(8)), device_put(np.arange(8) + 1)
    compiled = jit(checked)
    with pytest.raises(IndexError, match="out of bounds"):
        for i in (good, bad, *[good] * 40):
            p = compiled(p, i)
    q = compiled(device_put(drawn(8)), good)  # the word is clear again
    q.block_until_ready()


def test_where_there_is_no_room_the_words_are_looked_at(emulated):
    """The GPU is behind: what was given to programs that may fail is kept until it is not."""
    emulated.delayed_events = True
    p, index = drawn(8), np.arange(8)
    emulated.capacity = 6 * p.nbytes + index.nbytes + 64
    found, asked = looped(emulated, checked, p, [index], 20)
    assert 0 < asked["synchronize"] <= 7
    del found


def test_the_precision_of_products_is_that_of_the_call(libraries, monkeypatch):
    x = drawn(SIDE, SIDE)
    function = jit(lambda x: x @ x, device="cuda")
    function(x)
    monkeypatch.setattr(config, "matmul_precision", "tf32")
    jit(lambda x: x @ x, device="cuda")(x)
    made = [arguments for name, arguments in libraries.log if name == "cublasLt.matmul_desc_create"]
    assert len({arguments[0] for arguments in made}) == 2


@pytest.fixture
def by_library(libraries, monkeypatch):
    """The same, where linear algebra is the library's, whatever its size.

    Between its calls there are kernels, which do not know what a library has written.
    """
    monkeypatch.setattr(emulated, "_written", lambda block: np.ones(block.nbytes, bool))
    limits = {"largest_of_team": 2, "largest_rotated": 2, "most_in_turn": 40}
    monkeypatch.setattr(launches, "CUDA", target(CUDA, teams=limits))
    return libraries


@pytest.mark.parametrize("function", [np.linalg.cholesky, np.linalg.inv, np.linalg.eigvalsh])
def test_linear_algebra_is_done_by_the_library(by_library, function):
    x = RNG.normal(size=(20, 20))
    x = x @ x.T + np.eye(20)
    for _ in range(3):
        np.testing.assert_allclose(jit(function, device="cuda")(x), function(x), rtol=1e-9)
    assert any(name.startswith("cusolverDn.") for name, _ in by_library.log)


@pytest.mark.parametrize("leading", [(40,), (2, 20)])
def test_a_stack_of_any_length_is_done_one_after_the_other(by_library, leading):
    x = RNG.normal(size=(*leading, 3, 3))
    found = jit(np.linalg.eigvalsh, device="cuda")(x)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(x), rtol=1e-9, atol=1e-12)
    assert by_library.called("cusolverDn.xsyevd") == 40


@pytest.mark.parametrize(
    ("function", "points", "calls"),
    [(np.fft.fft, 2048, 1), (np.fft.ifft, 2048, 1), (np.fft.fft, 17, 1), (np.fft.fft, 16, 0)],
)
def test_long_transforms_are_done_by_the_library(by_library, function, points, calls):
    x = RNG.normal(size=(2, points)) + 1j * RNG.normal(size=(2, points))
    there = device_put(x)
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(jit(function)(there)), function(x), atol=1e-10)
    assert by_library.called("cufft.exec_z2z") == 3 * calls
    del there


def test_a_singular_matrix_is_an_error(by_library):
    with pytest.raises(np.linalg.LinAlgError):
        jit(np.linalg.inv, device="cuda")(np.ones((20, 20)))


def test_room_for_libraries_is_bounded():
    room = launches._Room(1 << 20)
    assert room(100) == 1 << 20
    assert room(100) == (1 << 20) + ALIGNED
    with pytest.raises(launches.DeviceError, match="bytes more"):
        room(LARGEST_WORKSPACE)
