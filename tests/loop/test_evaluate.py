"""Semantics of kernels: the interpreter, NumPy and machine code agree for every primitive."""

import numpy as np
import pytest

from functrans.loop.collect import Fault
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Reduce, Store, buffer, load, local
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.lower.select.partition import compiled
from functrans.run.call.compiled import compile_graph
from tests.amount import one_of_each
from tests.loop.evaluate import Memory, evaluate
from tests.loop.plans import evaluate_plan, shuffled
from tests.primitives.harness import cases, kind
from tests.targets import target

F8 = np.dtype(np.float64)
ZERO = const(0, INDEX)
CASES = {
    name: case
    for name, case in cases(np.float64).items()
    if case.graph().eqns and all(compiled(eqn, CPU) for eqn in case.graph().eqns)
}


@pytest.mark.parametrize("name", one_of_each(lambda name: kind(CASES[name]), CASES))
def test_a_primitive(name):
    case = CASES[name]
    graph = case.graph()
    plan = pipeline.plan(graph, target(vector_bytes=32))
    results, status = evaluate_plan(plan, case.operands, shuffled(0))
    assert status == 0
    for mine, machine in zip(results, compile_graph(graph)(*case.operands), strict=True):
        # machine code may fuse a product and a sum, which is more exact
        np.testing.assert_allclose(mine, machine, rtol=1e-12, atol=1e-12)
        assert mine.dtype == np.asarray(machine).dtype


def test_memory_that_was_not_written():
    x, y, i = buffer("x", F8, (3,)), buffer("y", F8, (3,)), index("i", 3)
    kernel = Kernel((x, y), 0, (For(i, ZERO, const(3, INDEX), (Store(y, (i,), load(x, (i,))),)),))
    with pytest.raises(Fault, match=r"x\[0\] is read before it is written"):
        evaluate(kernel, [Memory(np.zeros(3), False), Memory(np.zeros(3), False)], [])
    with pytest.raises(Fault, match=r"x\[2\] is outside of \[2\]"):
        evaluate(kernel, [Memory(np.zeros(2), True), Memory(np.zeros(3), False)], [])


def test_partial_sums_are_combined_in_pairs():
    """The order of a sum is part of its meaning: its bits do not depend on who computes it."""
    values = np.array([1e16, 1.0, -1e16, 1.0, 3.0])
    x, y, i, s = buffer("x", F8, (5,)), buffer("y", F8, (1,)), index("i", 5), local(F8, "s")
    fold = Reduce((s,), ("add",), (load(x, (i,)),), ((i, ZERO, const(5, INDEX)),), lanes=2)
    memory = [Memory(values, True), Memory(np.zeros(1), False)]
    evaluate(Kernel((x, y), 0, (fold, Store(y, (ZERO,), s))), memory, [])
    assert memory[1].array[0] == ((1e16 - 1e16) + 3.0) + (1.0 + 1.0)
