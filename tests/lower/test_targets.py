"""Plans for fictitious targets, verified and run by the interpreter of the loop language."""

import ast
import tracemalloc
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from functrans import config, grad, jit, lax, vmap
from functrans.emit.llvm import kernel as emit_llvm
from functrans.errors import PlanError
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.ir.graph import Graph
from functrans.ir.types import Aval
from functrans.loop.domain import Fault
from functrans.loop.grid import AttentionTile, ProductTile
from functrans.loop.statements import For, Reduce
from functrans.loop.target import CPU, STAGES
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.select.partition import compiled
from functrans.lower.verify import verify
from functrans.run.code import host
from tests.fuzz import programs, thresholds
from tests.loop.plans import evaluate_plan, shuffled
from tests.primitives.harness import cases
from tests.targets import target

NESTED = tuple(stage for stage in STAGES if stage != "loop_collapsing")
"""The stages that leave each loop as it is."""

SMALL = target(
    reductions={
        "blocks": 3,
        "few_iterations": 8,
        "long": 30,
        "most_steps": 4,
        "from_memory": 400,
        "fewest_rows": 8,
        "fewest_lines": 1,
    },
    fusion={"worth_a_kernel": 2, "long_row": 2},
    pieces={"shortest_row": 2},
    tiling={"block": 2, "long_block": 4, "long": 8},
    batch_partition={"least_rows": 1, "least_work": 0},
    distribution={"least_work": 0},
    carries={"longest_step": 100},
    cache=64,
)
"""A machine for which small arrays are large."""

SMALL_CUDA = target(
    CUDA,
    grid={
        "warp": 2,
        "block": 4,
        "largest_team": 4,
        "shortest": 3,
        "iterations": 2,
        "busy": 8,
        "at_once": 64,
        "launch": 10,
        "memory": 1,
        "latency": 1,
        "barrier": 1,
        "rows": 256,
        "tiles": (ProductTile(4, 4, 2, 2, 2),),
        "attention_tiles": (AttentionTile(4, 4, 2, 2, 2),),
        "narrowest_product": 2,
        "blocks": 4,
        "least_part": 4,
        "threads": 4,
        "shortest_in_strips": 3,
        "in_flight": 64,
        "smallest_tiled": 1,
        "tile_side": 4,
    },
    fission={"least_batch": 2},
    motion={"least_sum": 4},
    reductions={"blocks": 3, "few_iterations": 8, "long": 30, "most_steps": 4},
    unrolling={"longest": 2, "sums": 1, "elements": 2},
)
"""A GPU for which small arrays are large."""

TARGETS = {
    "CPU": CPU,
    "no vectors": target(vector_bytes=8, stages=()),
    "vectors of 16 bytes": target(vector_bytes=16),
    "64 threads": target(
        SMALL, reductions={"blocks": 64, "long": 1}, batch_partition={"most_blocks": 64}
    ),
    "small": SMALL,
    "grid": target(SMALL, parallel_loops=2, stages=NESTED),
    "grid without vectors": target(SMALL, parallel_loops=3, stages=()),
    "CUDA": CUDA,
    "small CUDA": SMALL_CUDA,
    **{f"drawn {seed}": thresholds.draw(np.random.default_rng(seed))[0] for seed in range(2)},
}


class Example(NamedTuple):
    """A graph of primitives that have compiled forms, and its operands."""

    graph: Graph
    operands: tuple


RNG = np.random.default_rng(0)


def drawn(*shapes):
    return tuple(RNG.normal(size=shape) for shape in shapes)


def softmax(x):
    y = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return y / np.sum(y, axis=-1, keepdims=True)


def normed(x, scale):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * scale


def recurrent(w, hs, xs):
    return lax.scan(lambda h, x: (np.tanh(h @ w + x), h.sum(axis=1)), hs, xs)


def gated(x):
    return np.tanh(x) * x.sum(axis=1, keepdims=True)


FUNCTIONS = {
    "softmax": (softmax, *drawn((3, 18))),
    "norm": (grad(lambda x, s: np.sum(normed(x, s) ** 3), argnums=(0, 1)), *drawn((3, 18), 18)),
    "across the order": (lambda x, y: x.T * 2 + y, *drawn((9, 20), (20, 9))),
    "sums": (lambda x: (x.sum(axis=0), x.sum(axis=1), x.sum()), *drawn((9, 21))),
    "gate": (gated, *drawn((2, 17, 3))),
    "pad": (lambda x: np.pad(x, ((1, 2), (0, 3))) * 2, *drawn((6, 18))),
    "reshape": (lambda x: np.sqrt(x * x).reshape(6, 20) + 1, *drawn((5, 24))),
    "products": (lambda x, y: np.abs(x @ y) @ x, *drawn((18, 18), (18, 18))),
    "a batch in a loop": (recurrent, *drawn((2, 2), (17, 2), (2, 17, 2))),
    "running": (lambda x: np.cumsum(x, axis=0) + np.cumsum(x, axis=1), *drawn((4, 18))),
    "systems": (vmap(np.linalg.solve), drawn((17, 2, 2))[0] + 4 * np.eye(2), *drawn((17, 2))),
    "join": (lambda x, y: np.concatenate([x * 2, y, x + y]) * 3, *drawn((7, 5), (7, 5))),
}

LARGEST = 200
"""Elements of a drawn program's operand: the interpreter goes from number to number."""


@cache
def examples():
    """Functions, drawn programs, and samples of primitives."""
    found = {}
    for name, (function, *operands) in FUNCTIONS.items():
        found[name] = Example(jit(function).lower(*operands).graph(), tuple(operands))
    for number in range(20):
        program = programs.draw(np.random.default_rng([1, number]))
        if all(x.size <= LARGEST for x in program.inputs):
            graph = jit(program).lower(*program.inputs).graph()
            found[f"program {number}"] = Example(graph, tuple(program.inputs))
    samples = {
        name: Example(case.graph(), tuple(case.operands))
        for name, case in cases(np.float64).items()
    }
    names = [name for name, each in samples.items() if is_whole(*each) and is_planned(each.graph)]
    found |= {name: samples[name] for name in names[:: len(names) // 20]}
    return {name: each for name, each in found.items() if is_whole(*each)}


def is_whole(graph, operands):
    """Whether all of a graph has a compiled form, and it has no constants besides operands."""
    if not graph.eqns or len(graph.inputs) > len(operands):
        return False
    return all(compiled(eqn, each) for eqn in graph.eqns for each in TARGETS.values())


def is_planned(graph):
    """Whether the loops are the planner's; a primitive's own statements may hold vectors."""
    return all(eqn.primitive.emit is None for eqn in graph.eqns)


@cache
def wanted(name):
    with np.errstate(all="ignore"):
        return by_numpy(*examples()[name])


@cache
def plan_for(machine, name):
    return pipeline.plan(examples()[name].graph, TARGETS[machine])


def kernels(machine):
    return [step.kernel for name in examples() for step in plan_for(machine, name).steps]


def statements(plan):
    return [statement for step in plan.steps for statement in walk(step.kernel.body)]


def close(found, expected):
    for x, y in zip(found, expected, strict=True):
        y = np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if y.dtype.kind != "f":
            np.testing.assert_array_equal(x, y)
            continue
        rounding = 1e-10 if y.dtype == np.float64 else 2e-4
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=1)
        np.testing.assert_allclose(x, y, rtol=rounding, atol=rounding * scale)


def test_there_are_examples_of_all_kinds():
    assert FUNCTIONS.keys() <= examples().keys()
    assert len(examples()) > 36


@pytest.mark.dear
@pytest.mark.few(4)
@pytest.mark.parametrize("machine", TARGETS)
def test_plans_keep_their_promises(machine):
    for name in examples():
        verify(plan_for(machine, name))


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("machine", TARGETS)
def test_plans_compute_what_numpy_does(machine):
    """Whatever order the iterations of a band go in."""
    for number, (name, each) in enumerate(examples().items()):
        with np.errstate(all="ignore"):
            found, status = evaluate_plan(plan_for(machine, name), each.operands, shuffled(number))
        assert status == 0, name
        expected = wanted(name)
        # a result may be a reshape of what is stored
        shaped = [x.reshape(np.shape(y)) for x, y in zip(found, expected, strict=True)]
        close(shaped, expected)


def lanes(machine):
    inside = [x for kernel in kernels(machine) for x in walk(kernel.body)]
    return {x.lanes for x in inside if isinstance(x, (For, Reduce))}


@pytest.mark.dear
def test_there_are_no_vectors_where_a_machine_has_none():
    assert lanes("no vectors") == lanes("grid without vectors") == {1}
    assert max(lanes("CPU")) > 1


@pytest.mark.parametrize("size", [8, 16, 32, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_are_as_long_as_registers(size, dtype):
    graph = jit(lambda x: np.sqrt(x) * 2).lower(np.ones(100, dtype)).graph()
    (loop, _) = statements(pipeline.plan(graph, target(vector_bytes=size)))
    assert loop.lanes == size // np.dtype(dtype).itemsize


@pytest.mark.parametrize(
    ("stage", "name", "sign"),
    [
        ("tile", "across the order", "block"),
        ("batch_partition", "a batch in a loop", "rows"),
        ("split_reductions", "sums", "_parts"),
    ],
)
def test_a_stage_that_a_target_leaves_out_is_left_out(stage, name, sign):
    def signs(stages):
        plan = pipeline.plan(examples()[name].graph, target(SMALL, stages=stages))
        loops = [x.index.attribute[0] for x in statements(plan) if isinstance(x, For)]
        return " ".join([*loops, *(one.name for one in plan.offsets)])

    assert sign in signs(STAGES)
    assert sign not in signs(tuple(each for each in STAGES if each != stage))


def test_sums_have_one_accumulator_where_a_target_has_no_more():
    def found(*stages):
        plan = pipeline.plan(jit(np.sum).lower(np.ones(200)).graph(), target(stages=stages))
        return [x.lanes for x in statements(plan) if isinstance(x, Reduce) and not x.body]

    assert found(*STAGES) == [32]
    assert found("vectorise") == [8]
    assert found("accumulators") == [1]


@pytest.mark.dear
def test_a_grid_takes_several_loops():
    counts = {machine: {len(each.band) for each in kernels(machine)} for machine in TARGETS}
    assert counts["CPU"] == counts["small"] == {0, 1}
    assert counts["grid"] == {0, 1, 2}
    graph = jit(np.sqrt).lower(np.ones((17, 18, 19))).graph()
    for count in (1, 2, 3, 9):
        plan = pipeline.plan(graph, target(parallel_loops=count, stages=NESTED))
        verify(plan)
        assert [len(step.kernel.band) for step in plan.steps] == [min(count, 3)]


def llvm(machine):
    plans = [pipeline.plan(each.graph, machine) for each in examples().values()]
    return [emit_llvm.emit(step.kernel) for plan in plans for step in plan.steps]


@pytest.mark.full
def test_code_for_a_cpu_takes_the_outermost_loop_of_a_band():
    """So a plan for a grid is printed as one for threads."""
    assert llvm(TARGETS["grid"]) == llvm(target(SMALL, stages=NESTED))


@pytest.mark.full
def test_a_plan_follows_from_the_graph_and_the_target(monkeypatch):
    before = llvm(SMALL)
    monkeypatch.setattr(config, "threads", 5)
    monkeypatch.setattr(config, "parallel_threshold", 0)
    monkeypatch.setattr(host, "target", None)
    monkeypatch.setattr(host, "kind", None)
    assert llvm(SMALL) == before
    assert llvm(CPU) != before


ROOT = Path(__file__).parents[2] / "functrans"
FOLDERS = ("loop/*.py", "lower/**/*.py", "ops/**/compiled/*.py", "optimise/machine/*.py")
PLANNING = [path for folder in FOLDERS for path in ROOT.glob(folder)]
MACHINE = ("os", "sys", "platform", "multiprocessing", "functrans.config", "functrans.run")


@pytest.mark.parametrize("path", PLANNING, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_asks_the_machine(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    assert not [name for name in names if f"{name}.".startswith(tuple(f"{x}." for x in MACHINE))]


def test_targets_are_values():
    """Equal if they are alike, and written in the same way by every process."""
    assert target() == CPU and hash(target()) == hash(CPU)
    assert repr(target(cache=1)) != repr(CPU) == repr(target())
    for own in fields(CPU):
        value = getattr(CPU, own.name)
        assert isinstance(value, (int, tuple)) or value is None


@pytest.mark.parametrize("itemsize", [1, 8, 12, 24, 1000])
def test_lanes_are_a_power_of_two(itemsize):
    """Also of what is no number: that and its place, which an argsort moves together."""
    lanes = CPU.lanes(itemsize)
    assert lanes.bit_count() == 1 and lanes * itemsize <= max(CPU.vector_bytes, itemsize)


def test_temporaries_that_share_a_place_destroy_each_other():
    plan, operands = plan_for("CPU", "running"), examples()["running"].operands
    assert len(plan.offsets) == 2
    wrong = replace(plan, offsets=dict.fromkeys(plan.offsets, 0))
    with pytest.raises(Fault, match="read before it is written"):
        evaluate_plan(wrong, operands)
    with pytest.raises(PlanError, match="in the arena is not its own"):
        verify(wrong)


def test_large_arrays_are_verified_in_little_memory():
    """An element at an index from data may be any one of an array, and they are not listed."""
    graph = jit(np.argmax).lower(Aval((2**24,), np.dtype(np.int8))).graph()
    plan = pipeline.plan(graph, CPU)
    tracemalloc.start()
    try:
        verify(plan)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
