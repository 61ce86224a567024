"""debug.profile: where the time of compiled calls goes, by kernel, line, thread and stage."""

import json
import threading

import numpy as np
import pytest

from functrans import config, debug, grad, jit, lax, value_and_grad, vmap
from functrans.run.call import timeline
from functrans.spans import span

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(40, 30)), RNG.normal(size=(500, 40))


def loss(w, x):
    h = np.tanh(x @ w)
    s = np.sort(h, axis=0)
    return np.sum(s**2)


@pytest.fixture(scope="module")
def seen():
    step = jit(value_and_grad(loss))
    with debug.profile() as seen:
        for _ in range(5):
            step(W, X)
    return seen


@pytest.mark.dear
def test_each_line_has_its_time(seen):
    rows = seen.by_line()
    texts = [row.what.split("  ")[1] for row in rows if "  " in row.what]
    assert sorted(texts) == ["h = np.tanh(x @ w)", "return np.sum(s**2)", "s = np.sort(h, axis=0)"]
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    assert sum(row.seconds for row in rows) == pytest.approx(
        sum(row.seconds for row in seen.by_kernel())
    )


def test_kernels_are_named_by_operations_and_lines(seen):
    rows = {row.what: row for row in seen.by_kernel()}
    fused = [row for what, row in rows.items() if what.startswith("dot_general, tanh")]
    assert {row.calls for row in fused} == {5}
    for row in fused:
        assert "h = np.tanh(x @ w)" in {source.text for source in row.sources}
        assert ", lines 18" in row.what or ", line 18 " in row.what
    # 500 elements are sorted in lanes, if a vector has enough of them, or by NumPy
    sorts = [row for what, row in rows.items() if what.removeprefix("NumPy: ").startswith("sort,")]
    assert [row.calls for row in sorts] == [5]
    assert {"tanh", "dot_general", "sort"} <= {row.what for row in seen.by_operation()}


def test_calls_of_numpy_are_named():
    in_order = jit(lambda z: np.sort(z))
    in_order(np.ones(30, complex))
    with debug.profile() as seen:
        in_order(np.ones(30, complex))
    assert "NumPy: sort" in {row.what.partition(",")[0] for row in seen.by_kernel()}


def test_kernels_say_how_they_compute(seen):
    rows = [row.what for row in seen.by_kernel()]
    assert any("vectors of" in what for what in rows if "tanh" in what)
    x, y = RNG.normal(size=(200, 40)), RNG.normal(size=(40, 20, 30))
    f = jit(lambda x, y: np.cumsum(np.einsum("ij,jkl->ikl", x, np.cos(y)), axis=0))  # by BLAS
    f(x, y)
    with debug.profile() as other:
        f(x, y)
    assert any("(calls dgemm" in row.what for row in other.by_kernel())


def test_a_first_call_is_seen_stage_by_stage(seen):
    rows = {row.what: row for row in seen.by_stage()}
    assert {"trace", "optimise", "plan", "print", "compile", "load", "run", "the rest"} <= {*rows}
    assert rows["trace"].calls == 1
    # more than the whole, if a thread of ours loads the compiler while this one traces
    assert sum(row.seconds for row in rows.values()) > 0.98 * seen.seconds


def test_it_prints(seen):
    text = repr(seen)
    assert text.startswith("profile of ")
    assert "by line:" in text
    assert "  s = np.sort(h, axis=0)" in text


def test_loops_and_maps_have_the_lines_inside():
    def run(x):
        def step(c, r):
            c = np.sin(c * r)
            return c, None

        return lax.scan(step, x[0], x)[0]

    f = jit(vmap(run))
    x = RNG.normal(size=(50, 200))
    f(x)
    with debug.profile() as seen:
        f(x)
    # not which took longest: another program of the machine's may have come between
    assert "c = np.sin(c * r)" in {row.what.split("  ")[1] for row in seen.by_line()}


@pytest.mark.dear
def test_every_kernel_has_lines_in_an_unrolled_program():
    def deep(w, x):
        for a in w:
            x = np.tanh(x @ a)
        return np.sum(x)

    f = jit(grad(deep))
    w, x = [0.1 * np.ones((4, 4))] * 12, np.ones((3, 4))
    with debug.profile() as seen:
        f(w, x)
    assert {"x = np.tanh(x @ a)"} <= {row.what.split("  ")[-1] for row in seen.by_line()}
    assert not any("gone" in row.what for row in seen.by_kernel())


def test_shares_of_threads(monkeypatch):
    monkeypatch.setattr(config, "threads", 2)
    f = jit(lambda x: np.sin(np.exp(x)))
    x = RNG.normal(size=300_000)
    f(x)
    with debug.profile() as seen:
        for _ in range(10):
            f(x)
    rows = {row.what: row for row in seen.by_thread()}
    assert rows["the caller"].calls == 10
    [kernel] = seen.by_kernel()
    assert rows["the caller"].seconds <= kernel.seconds
    assert set(rows) <= {"the caller", "thread 1"}


def test_calls_from_several_threads_are_all_seen():
    f = jit(lambda x: np.cos(x) * 2)
    x = np.ones(100)
    f(x)

    def call():
        for _ in range(200):
            f(x)

    with debug.profile() as seen:
        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [row] = seen.by_kernel()
    assert row.calls == 600


def test_memory_is_that_of_the_arguments_results_and_what_is_between(seen):
    moments = seen.memory()
    assert min(moment.nbytes for moment in moments) >= X.nbytes
    assert all(moment.start <= moment.end for moment in moments)
    pytest.importorskip("matplotlib")
    axes = seen.plot_memory()
    assert axes.get_ylim()[1] * 1e6 >= max(moment.nbytes for moment in moments)


def test_a_chrome_trace(seen, tmp_path):
    seen.save_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    names = [event["name"] for event in events]
    assert "trace loss" in names
    assert any("tanh" in name for name in names)
    lines = [line for event in events for line in event.get("args", {}).get("lines", [])]
    assert any("np.sort(h, axis=0)" in line for line in lines)


def test_speedscope(seen, tmp_path):
    seen.save_speedscope(tmp_path / "profile.json")
    content = json.loads((tmp_path / "profile.json").read_text())
    [profile] = content["profiles"]
    frames = [frame["name"] for frame in content["shared"]["frames"]]
    assert all(index < len(frames) for stack in profile["samples"] for index in stack)
    assert len(profile["samples"]) == len(profile["weights"])
    assert profile["endValue"] == pytest.approx(sum(row.seconds for row in seen.by_kernel()))


def test_programs_from_disk_are_told_apart_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    x = np.linspace(0, 1, 50)
    for _ in range(2):
        f = jit(lambda x: np.sum(np.arctan(x) * 0.123))
        with debug.profile() as seen:
            f(x)
        import functrans

        functrans.clear_caches()
    stages = {row.what for row in seen.by_stage()}
    assert "plan" not in stages
    [row] = seen.by_kernel()
    assert row.what.startswith("arctan")


def test_a_program_that_is_gone_is_said_to_be():
    f = jit(lambda x: x * 3.21)
    x = np.ones(5)
    with debug.profile() as seen:
        f(x)
    assert [row.calls for row in seen.by_kernel()] == [1]


def test_one_profile_at_a_time_and_none_stays_open():
    with debug.profile():
        with pytest.raises(RuntimeError, match="already at work: there is one at a time"):
            debug.profile().__enter__()
        assert span("x").__class__.__name__ != "nullcontext"
    with pytest.raises(ZeroDivisionError), debug.profile():
        1 / 0  # noqa: B018
    assert span("x").__class__.__name__ == "nullcontext"
    with debug.profile() as empty:
        pass
    assert empty.by_kernel() == []
    assert "profile of" in repr(empty)


def test_what_finds_no_room_is_counted(monkeypatch):
    f = jit(lambda x: x * 3.0)
    x = np.ones(5)
    f(x)
    monkeypatch.setattr(timeline, "MOST_EVENTS", 10)
    with debug.profile() as seen:
        for _ in range(30):
            f(x)
    assert [row.calls for row in seen.by_kernel()] == [10]
    assert "20 more kernel calls are not counted" in repr(seen)


def test_results_are_the_same():
    f = jit(value_and_grad(loss))
    expected = f(W, X)
    with debug.profile():
        found = f(W, X)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
