"""The two printers of the loop IR, and NumPy, agree."""

import numpy as np
import pytest

from functrans.emit import source as emit_text
from functrans.ir.primitive import registry
from functrans.loop.statements import Call
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.run.call.compiled import compile_graph
from tests.primitives.harness import cases
from tests.targets import target


def run_text(plan, graph, operands):
    """Run a plan by its printed source."""
    numba = pytest.importorskip("numba")
    arrays = {}
    for one, value in zip(plan.inputs, operands, strict=True):
        arrays[one] = np.array(value, order="C")
    for one in (*plan.outputs, *plan.offsets):
        arrays[one] = np.empty([int(n.attribute) for n in one.shape], one.dtype)
    flag = np.zeros(1, np.int64)
    for step in plan.steps:
        scope = emit_text.namespace()
        exec(emit_text.emit(step.kernel), scope)
        kernel = numba.njit(error_model="numpy")(scope["kernel"])
        kernel(flag, *(arrays[one] for one in step.buffers), *step.sizes, 0, step.extent)
    assert flag[0] == 0
    return [arrays[one] for one in plan.outputs]


SOME = [
    "divide", "select", "reduce_sum", "slice", "exp", "argmax", "maximum", "left_shift", "rint",
    "solve", "triangular_solve", "inv", "cholesky", "det", "slogdet",
]  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_text_equals_llvm(name):
    assert name in registry
    for case in cases(np.float64).values():
        if case.primitive.name != name:
            continue
        graph = case.graph()
        plan = pipeline.plan(graph, target(vector_bytes=32))
        if any(isinstance(each, Call) for step in plan.steps for each in walk(step.kernel.body)):
            continue  # the text of a library call is for reading
        by_text = run_text(plan, graph, case.operands)
        by_llvm = compile_graph(graph)(*case.operands)
        for text, llvm, numpy in zip(by_text, by_llvm, case.numpy(*case.operands), strict=True):
            np.testing.assert_allclose(text, llvm, rtol=1e-15, atol=1e-15)
            np.testing.assert_allclose(text, numpy, rtol=1e-14, atol=1e-14)
