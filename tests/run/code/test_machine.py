"""Code for CPUs other than this one: with narrower vectors, which run here, and Arm."""

from dataclasses import replace

import numpy as np
import pytest

from functrans import config, jit
from functrans.emit.llvm import kernel as emit_llvm
from functrans.run.call import memory, on_disk, steps
from functrans.run.call.compiled import compile_graph
from functrans.run.call.jitted import program
from functrans.run.code import cache, machine, native
from functrans.run.code.machine import LEVELS
from functrans.run.code.modules import joined
from functrans.run.threads import pool
from tests.primitives.harness import cases
from tests.run.programs import ARM, PROGRAMS, assert_close, expected, graph_of, is_compiled, plan_of

HERE = machine.host()

on_x86 = pytest.mark.skipif(not HERE.triple.startswith("x86_64"), reason="another kind of CPU")


@pytest.fixture
def compiled_for(monkeypatch):
    return lambda level: monkeypatch.setattr(config, "cpu", level)


@on_x86
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_narrower_cpu(name, level, compiled_for):
    graph, operands = graph_of(name)
    compiled_for(level)
    results = compile_graph(graph)(*operands)
    for found, wanted in zip(results, expected(graph, operands), strict=True):
        assert_close(np.asarray(found), wanted)


@on_x86
@pytest.mark.parametrize(
    ("level", "registers"), [("x86-64-v2", "xmm"), ("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")]
)
def test_it_has_no_wider_vectors(level, registers, compiled_for):
    compiled_for(level)
    text = jit(lambda x: np.tanh(x) * x).lower(np.ones(1000)).asm()
    every = ["xmm", "ymm", "zmm"]
    used = [each for each in every if each in text]
    widest = {16: "xmm", 32: "ymm", 64: "zmm"}[HERE.vector_bytes]
    assert used[-1] == min(registers, widest, key=every.index)
    assert native.vector_bytes() == 16 << every.index(used[-1])


@pytest.mark.parametrize(
    ("switch", "value"), [("parallel_threshold", 1), ("skip_passes", ("outline",))]
)
def test_programs_of_other_settings_are_not_used_again(switch, value, monkeypatch):
    graph, _ = graph_of("elementwise")
    before = program(graph)
    assert program(graph) is before
    monkeypatch.setattr(config, switch, value)
    assert program(graph) is not before


@on_x86
def test_another_cpu_has_other_plans(compiled_for):
    texts = set()
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v2"):
        compiled_for(level)
        texts.add(jit(lambda x: np.tanh(x) * x).lower(np.ones(1000)).llvm())
    assert len(texts) == 2


@on_x86
@pytest.mark.parametrize("level", LEVELS)
def test_llvm_schedules_for_a_cpu_of_the_level(level, compiled_for):
    """For "x86-64" alone, it spills the sums of tiles of products, which take twice as long."""
    compiled_for(level)
    has_all = HERE.has.issuperset(LEVELS[level])
    assert machine.current().cpu == (level if has_all else "x86-64")


@on_x86
def test_no_instruction_that_has_no_vex_form():
    text = jit(lambda x: np.stack([x > 0, x > 1, x > 2, x > 3], axis=-1)).lower(np.ones(999)).asm()
    assert "\tinsertq" not in text


@pytest.mark.parametrize(
    ("cpu", "width", "fast"),
    [("sapphirerapids", 64, True), ("znver4", 64, False), ("znver3", 32, True), ("", 16, False)],
)
def test_where_the_sorts_of_numpy_are_fast(cpu, width, fast, monkeypatch):
    monkeypatch.setattr(machine, "host", lambda: replace(HERE, cpu=cpu, vector_bytes=width))
    assert native.library_sorts() == fast


@on_x86
def test_nothing_that_the_cpu_has_not(monkeypatch, compiled_for):
    old = replace(HERE, features="+sse3,+ssse3,+sse4.1,-avx,-avx2", vector_bytes=16)
    monkeypatch.setattr(machine, "host", lambda: old)
    compiled_for("x86-64-v4")
    assert machine.current().has == {"sse3", "ssse3", "sse4.1"}
    assert machine.current().vector_bytes == 16


def test_another_kind_of_cpu_is_taken_as_it_is(monkeypatch, compiled_for):
    monkeypatch.setattr(machine, "host", lambda: ARM)
    compiled_for("x86-64-v3")
    assert machine.current() == ARM


def test_the_levels_are_those_of_the_switch():
    assert tuple(LEVELS) == config._CPUS


def test_code_and_programs_are_kept_for_each_cpu(compiled_for):
    graph, _ = graph_of("elementwise")
    keys = set()
    for level in (None, *LEVELS):
        compiled_for(level)
        keys |= {cache.key_of("define void @f() {\n  ret void\n}"), on_disk.key_of(graph)}
    assert len(keys) == 2 * (1 + len(LEVELS))


@on_x86
def test_half_floats_without_instructions_for_them(compiled_for):
    """Bit for bit what NumPy gives, but for what a NaN carries."""
    with np.errstate(all="ignore"):
        halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
        singles = halves.astype(np.float32)
        known = np.sort(singles[np.isfinite(singles)])
        many = np.random.default_rng(0).integers(0, 2**32, 2**16, dtype=np.uint32)
        up, down = (np.nextafter(singles, np.float32(end)) for end in (np.inf, -np.inf))
        middle = (known[1:] + known[:-1]) / 2
        edges = np.concatenate([singles, up, down, middle, many.view(np.float32)])
        compiled_for("x86-64-v2")
        back = jit(lambda x: x.astype(np.float16))(edges)
        there = jit(lambda x: x.astype(np.float32))(halves)
        assert "f16c" not in machine.current().has
        for found, wanted in ((back, edges.astype(np.float16)), (there, singles)):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            number = ~np.isnan(wanted)
            assert found[number].tobytes() == wanted[number].tobytes()


# -- another kind of CPU ---------------------------------------------------------------------------


def emitted(plan):
    """Object files for Arm."""
    for kernel in {step.kernel for step in plan.steps}:
        image = native.compile_object(emit_llvm.emit(kernel), ARM)
        # an ELF file, and for which machine: AArch64
        assert image[:4] == b"\x7fELF"
        assert int.from_bytes(image[18:20], "little") == 183


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_arm(name):
    emitted(plan_of(graph_of(name)[0], ARM))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_primitive_for_arm(dtype):
    for case in cases(dtype).values():
        graph = case.graph()
        if is_compiled(graph):
            emitted(plan_of(graph, ARM))


@pytest.mark.parametrize("text", [joined(steps.TEXT), pool.text("aarch64"), memory.text()])
def test_what_runs_them_for_arm(text):
    assert int.from_bytes(native.compile_object(text, ARM)[18:20], "little") == 183
