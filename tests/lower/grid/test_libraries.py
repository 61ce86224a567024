"""Large products on a GPU are library calls, batched for stacks of matrices."""

from functools import partial

import numpy as np
import pytest
from ml_dtypes import bfloat16

from functrans import grad, jit, lax
from functrans.errors import PlanError
from functrans.loop.statements import Call
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.verify import verify
from tests.emit.cuda import programs
from tests.emit.cuda.programs import interpreted
from tests.loop.plans import evaluate_plan
from tests.targets import target

CALLING = target(CUDA, libraries=True, products={"smallest_side": 1, "smallest_work": 1})
RNG = np.random.default_rng(0)


def drawn(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


plan = partial(programs.plan, machine=CALLING)


def calls(made):
    return [each for step in made.steps for each in step.kernel.body if isinstance(each, Call)]


FORMS = {
    "plain": (lambda x, y: x @ y, drawn(5, 7), drawn(7, 3)),
    "large": (lambda x, y: x @ y, drawn(40, 70), drawn(70, 30)),
    "transposed": (lambda x, y: x.T @ y.T, drawn(7, 5), drawn(3, 7)),
    "stack": (lambda x, y: x @ y, drawn(4, 5, 7), drawn(4, 7, 3)),
    "stack of stacks": (lambda x, y: x @ y, drawn(2, 4, 5, 7), drawn(2, 4, 7, 3)),
    "inner axis of a stack": (
        lambda x, y: np.einsum("ibk,kbj->bij", x, y), drawn(5, 4, 7), drawn(7, 4, 3),
    ),
    "common operand": (lambda x, y: x @ y, drawn(4, 5, 7), drawn(7, 3)),
    "float32": (lambda x, y: x @ y, drawn(5, 7, dtype="f"), drawn(7, 3, dtype="f")),
    "float16": (lambda x, y: x @ y, drawn(5, 7, dtype="e"), drawn(7, 3, dtype="e")),
    "float16, made float32": (
        lambda x, y: x.astype("f") @ y.astype("f").T,
        drawn(5, 7, dtype="e"), drawn(3, 7, dtype="e"),
    ),
    "bfloat16": (lambda x, y: x @ y, drawn(5, 7, dtype=bfloat16), drawn(7, 3, dtype=bfloat16)),
    "stack of bfloat16": (
        lambda x, y: x.astype("f") @ np.swapaxes(y.astype("f"), 1, 2),
        drawn(4, 5, 7, dtype=bfloat16), drawn(4, 3, 7, dtype=bfloat16),
    ),
    "float16 and bfloat16": (
        lambda x, y: x.astype("f") @ y, drawn(5, 7, dtype="e"), drawn(7, 3, dtype=bfloat16),
    ),
    "between kernels": (lambda x, y: np.tanh(np.sin(x) @ y) + 1, drawn(5, 7), drawn(7, 3)),
    "two": (lambda x, y: x @ y @ x, drawn(5, 7), drawn(7, 5)),
    "symmetric": (lambda x, y: x.T @ x + y, drawn(90, 70), drawn(70, 70)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_products_are_calls(form):
    function, *operands = FORMS[form]
    made = plan(function, *operands)
    assert len(calls(made)) == 1 + (form == "two")
    found = interpreted(made, operands)
    expected = function(*operands)
    assert found[0].dtype == expected.dtype
    tolerance = {"e": 2e-3, "f": 1e-5, "d": 1e-12}[expected.dtype.char]
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance * 10)


HALVES = {
    "float16": "hgemm", "float16, made float32": "shgemm", "bfloat16": "sbgemm",
    "stack of bfloat16": "sbgemm", "float16 and bfloat16": "sgemm",
}  # fmt: skip


@pytest.mark.parametrize("form", HALVES)
def test_half_floats_are_multiplied_as_they_are(form):
    function, *operands = FORMS[form]
    made = plan(function, *operands)
    (call,) = calls(made)
    assert call.symbol == f"{HALVES[form]}_batch_strided"
    assert len(made.steps) == 1 + (form == "float16 and bfloat16")


def test_they_are_in_kernels_too():
    operands = FORMS["bfloat16"][1:]
    graph = pipeline.rewritten(jit(lambda x, y: x @ y).lower(*operands).graph(), CALLING)
    assert [eqn.primitive.name for eqn in graph.eqns][-1] == "widening_dot_general"
    found = interpreted(pipeline.plan(graph, CUDA), operands)
    np.testing.assert_allclose(found[0], operands[0] @ operands[1], rtol=1e-5, atol=1e-6)


def test_calls_are_steps_of_their_own():
    made = plan(*FORMS["between kernels"])
    assert [step.kernel.team for step in made.steps] == [1, 0, 1]


def test_what_a_call_reads_must_have_been_written():
    made = plan(*FORMS["between kernels"])
    without = type(made)(made.inputs, made.outputs, made.steps[1:], made.offsets, made.arena)
    with pytest.raises(PlanError, match="read before it is written"):
        verify(without)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x, y: x @ y, (np.ones((5, 7), int), np.ones((7, 3), int))),
        (lambda x, y: lax.scan(lambda h, z: (np.tanh(h @ y), z), x, None, 3)[0],
         (drawn(7, 7), drawn(7, 7))),
        (lambda x, y: np.einsum("abik,bakj->abij", x, y), (drawn(2, 3, 4, 5), drawn(3, 2, 5, 4))),
    ],
)  # fmt: skip
def test_what_no_library_takes_has_kernels(function, operands):
    made = plan(function, *operands)
    assert not calls(made)
    found = interpreted(made, operands)
    np.testing.assert_allclose(found[0], np.asarray(jit(function)(*operands)), rtol=1e-10)


BY_LIBRARY = target(CUDA, libraries=True, teams={"largest_of_team": 8, "largest_rotated": 8})
"""Linear algebra is the library's, whatever its size."""

REGULAR = drawn(20, 20) + 20 * np.eye(20)
DEFINITE = REGULAR @ REGULAR.T
MATRICES = {
    "cholesky": (np.linalg.cholesky, DEFINITE),
    "solve": (np.linalg.solve, REGULAR, drawn(20, 3)),
    "stack": (np.linalg.solve, np.stack([REGULAR, DEFINITE]), drawn(2, 20, 3)),
    "inverse": (np.linalg.inv, REGULAR),
    "determinant": (np.linalg.det, REGULAR),
    "spectrum": (lambda a: np.linalg.eigh(a)[0], DEFINITE),
    "singular values": (lambda a: np.linalg.svd(a, compute_uv=False), drawn(20, 9)),
    "orthogonal factor": (lambda a: np.abs(np.linalg.qr(a)[0]), drawn(20, 9)),
    "gradient": (grad(lambda a: np.linalg.slogdet(a)[1] + np.linalg.inv(a).sum()), REGULAR),
}


@pytest.mark.parametrize("name", MATRICES)
def test_linear_algebra_is_calls_and_kernels_between(name):
    function, *operands = MATRICES[name]
    made = plan(function, *operands, machine=BY_LIBRARY)
    assert calls(made)
    assert all(len(step.kernel.body) == 1 for step in made.steps if not step.kernel.team)
    found = interpreted(made, operands)
    np.testing.assert_allclose(found[0], function(*operands), rtol=1e-9, atol=1e-9)


def test_what_fails_says_so():
    made = plan(np.linalg.inv, np.ones((20, 20)), machine=BY_LIBRARY)
    assert evaluate_plan(made, [np.ones((20, 20))])[1] != 0


@pytest.mark.parametrize(
    ("shape", "by_library"), [((128, 128), False), ((129, 129), True), ((33, 129, 129), False)]
)
def test_large_matrices_are_the_library_s_if_there_are_few(shape, by_library):
    operand = np.broadcast_to(np.eye(shape[-1]), shape)
    for function in (np.linalg.cholesky, np.linalg.inv, np.linalg.det):
        made = plan(function, operand, machine=target(CUDA, libraries=True))
        assert bool(calls(made)) == by_library


def test_small_products_have_kernels():
    machine = target(CUDA, libraries=True)
    small, large = np.ones((100, 100)), np.ones((200, 200))
    assert not calls(plan(lambda x: x @ x, small, machine=machine))
    assert calls(plan(lambda x: x @ x, large, machine=machine))
    assert not calls(plan(lambda x: x @ x, large, machine=CUDA))
