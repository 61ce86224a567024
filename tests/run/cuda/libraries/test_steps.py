"""Steps that are library calls: their preparation, and plans of such steps."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, convert
from functrans.loop.statements import Address, Call, Kernel, buffer, size
from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.libraries.steps import Place, library_step
from tests.loop.evaluate import Memory as Known
from tests.loop.evaluate import evaluate
from tests.run.cuda.libraries.memory import Memory
from tests.run.cuda.libraries.stub import Machine
from tests.run.cuda.libraries.test_plans import FUNCTIONS, plan_of


def integer(value):
    return convert(value if isinstance(value, Scalar) else const(value, INDEX), np.int32)


def test_addresses_and_numbers_follow_from_the_sizes():
    x = buffer("x", np.float32, (size(1), 4, 5))
    y = buffer("y", np.float32, (3, size(0)))
    row = Scalar("sub", (size(1), const(1, INDEX)), INDEX)
    call = Call(
        "slacpy",
        (
            b"A", integer(size(0)), integer(2), Address(x, (row, const(2, INDEX), const(1, INDEX))),
            integer(5), Address(y, (const(1, INDEX), const(0, INDEX))), integer(size(0)),
        ),
        (x,), (y,),
    )  # fmt: skip
    step = library_step(call, (y, x), (3, 6))
    assert step.symbol == "slacpy"
    assert step.arguments == (b"A", 3, 2, Place(1, 4 * (5 * 20 + 11)), 5, Place(0, 4 * 3), 3)
    assert all(type(one) in (bytes, int, Place) for one in step.arguments)
    machine = Machine()
    given = np.arange(120, dtype=np.float32).reshape(6, 4, 5)
    places = machine.memory.place(np.zeros((3, 3), np.float32)), machine.memory.place(given)
    step(handles_for(machine.stream, machine.bindings), machine.memory.allocate, places)
    found = machine.memory.array(places[0], 9, np.float32).reshape(3, 3)
    np.testing.assert_array_equal(found, [[0, 0, 0], given[5, 2, 1:4], given[5, 3, 1:4]])


def test_scalars_keep_their_values():
    x = buffer("x", np.float32, (2, 2))
    at = Address(x, (const(0, INDEX), const(0, INDEX)))
    call = Call(
        "slaset",
        (
            b"A",
            integer(2),
            integer(2),
            const(0.1, np.float32),
            const(1, np.float32),
            at,
            integer(2),
        ),
    )
    others, diagonal = library_step(call, (x,)).arguments[3:5]
    assert (type(others), others, diagonal) == (float, float(np.float32(0.1)), 1.0)


@pytest.mark.parametrize(
    "name", ["product", "product of transposes", "float32", "solve", "inverse", "cholesky"]
)
def test_plans_of_such_steps_compute_what_numpy_does(name):
    """Statements at the top of a step that are calls go to the library, the others to loops."""
    function, *operands = FUNCTIONS[name]
    plan = plan_of(function, operands)
    arrays = dict(zip(plan.inputs, operands, strict=True))
    for one in (*plan.outputs, *plan.offsets):
        arrays.setdefault(one, np.zeros(one.extents, one.dtype))
    machine = Machine(Memory(anywhere=True))
    handles = handles_for(machine.stream, machine.bindings)
    calls = 0
    for step in plan.steps:
        memory = [arrays[one] for one in step.buffers]
        for statement in step.kernel.body:
            if isinstance(statement, Call):
                prepared = library_step(statement, step.kernel.buffers, step.sizes)
                prepared(handles, machine.memory.allocate, [x.ctypes.data for x in memory])
                calls += 1
                continue
            kernel = Kernel(
                step.kernel.buffers, step.kernel.sizes, (statement,), step.kernel.scratch
            )
            assert evaluate(kernel, [Known(x, written=True) for x in memory], step.sizes) == 0
    assert calls
    (result,) = plan.outputs
    tolerance = 1e-4 if result.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(arrays[result], function(*operands), rtol=tolerance, atol=tolerance)
