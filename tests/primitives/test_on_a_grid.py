"""Every primitive with a kernel for a GPU: plans for a grid against NumPy, in any thread order.

No GPU is needed. Plans are verified and interpreted with blocks and threads in random order; the
text of kernels is emulated, and compiled to machine code.
"""

import numpy as np
import pytest

from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.select.partition import compiled
from functrans.optimise import optimise
from functrans.run.cuda.launches import FEW_SPILLS
from tests import amount
from tests.emit.cuda.emulator import emulate
from tests.emit.cuda.on_cpu import emulate_and_run
from tests.emit.cuda.programs import emulate_plan, interpreted, machine_code
from tests.emit.cuda.special import needs_compiler
from tests.lower.test_targets import SMALL_CUDA
from tests.primitives.harness import apart, expect, one_precision


def with_kernels():
    """The samples of each primitive all of which has kernels, optimised as a program would be."""
    found = {}
    for dtype, catalogue in apart(np.float64, np.float32).items():
        for name, case in catalogue.items():
            graph = optimise(case.graph())
            if graph.eqns and all(compiled(eqn, CUDA) for eqn in graph.eqns):
                own = found.setdefault(f"{case.primitive.name}-{dtype}", {})
                own[name] = graph, list(case.operands)[: len(graph.inputs)]
    return found


GROUPS = with_kernels()
SMALLEST = {
    name: min(
        [each for each in own.values() if all(map(np.size, each[1]))] or own.values(),
        key=lambda each: sum(map(np.size, each[1])),
    )
    for name, own in GROUPS.items()
}


@pytest.mark.parametrize("machine", [SMALL_CUDA, CUDA], ids=["small", "large"])
@pytest.mark.parametrize("name", one_precision(GROUPS))
def test_plans_give_what_numpy_gives_in_any_order(name, machine):
    samples = GROUPS[name].values() if amount.FULL else [SMALLEST[name]]
    for number, (graph, operands) in enumerate(samples):
        expect(graph, operands, interpreted(pipeline.plan(graph, machine), operands, number))


def check_text(graph, operands, run=emulate):
    found, status = emulate_plan(pipeline.plan(graph, CUDA), operands, run=run)
    assert status == 0
    expect(graph, operands, found)


@pytest.mark.parametrize("name", one_precision(SMALLEST))
def test_kernels_as_they_are_printed(name):
    check_text(*SMALLEST[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_kernels_as_they_are_printed_for_all_samples(name):
    for each in GROUPS[name].values():
        check_text(*each, emulate_and_run)


@pytest.mark.parametrize("name", list(SMALLEST)[::10])
def test_kernels_as_they_are_compiled_do_the_same(name):
    check_text(*SMALLEST[name], emulate_and_run)


SPILLS = dict.fromkeys(("betainc", "betaincc", "gammainccinv", "gammaincinv"), 48)
"""Bytes that a thread may spill, in loops of a hundred operations of float64 a turn. Of the others
NVIDIA's compiler spills a number or two where another block has room then."""


def check_machine_code(name, graph, *architectures):
    spills = SPILLS.get(name.partition("-")[0], FEW_SPILLS)
    for kernel in pipeline.plan(graph, CUDA).kernels:
        for architecture in architectures:
            machine_code(kernel, architecture=architecture, spills=spills)


@needs_compiler
@pytest.mark.parametrize("name", list(SMALLEST)[::14])
def test_kernels_become_machine_code_with_few_spills(name):
    check_machine_code(name, SMALLEST[name][0], "sm_90")


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", GROUPS)
def test_all_kernels_become_machine_code_with_few_spills(name):
    for graph, _ in GROUPS[name].values():
        check_machine_code(name, graph, "sm_80", "sm_90", "sm_100")
