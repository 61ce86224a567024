"""Every primitive that has a compiled form: machine code gives what NumPy gives."""

import numpy as np
import pytest

from functrans.ir.primitive import bind
from functrans.ir.types import aval_of
from functrans.run.jit import compile_graph
from functrans.trace.stage import rewrite
from tests.primitives.harness import cases


def together(dtype):
    """All samples of a primitive, to be compiled as one program: compiling takes longest."""
    by_primitive = {}
    for case in cases(dtype).values():
        if case.primitive.scalar is not None or case.primitive.pull is not None:
            by_primitive.setdefault(case.primitive.name, []).append(case)
    return by_primitive


COMPILED = {
    f"{name}-{np.dtype(dtype)}": group
    for dtype in (np.float32, np.float64)
    for name, group in together(dtype).items()
}


@pytest.mark.parametrize("group", COMPILED.values(), ids=COMPILED.keys())
def test_machine_code_gives_what_numpy_gives(group):
    operands = [np.asarray(x) for case in group for x in case.operands]

    def run(*inputs):
        left = iter(inputs)
        results = []
        for case in group:
            result = bind(case.primitive, tuple(next(left) for _ in case.operands), case.params)
            results += result if case.primitive.several else [result]
        return results

    graph = rewrite(run, [aval_of(x) for x in operands])
    expected = [result for case in group for result in case.numpy(*case.operands)]
    results = compile_graph(graph)(*operands)
    for number, (found, value) in enumerate(zip(results, expected, strict=True)):
        assert aval_of(found) == aval_of(value)
        tolerance = 1e-14 if value.dtype == np.float64 else 1e-6
        np.testing.assert_allclose(
            found, value, rtol=tolerance, atol=tolerance, err_msg=f"result {number}"
        )
