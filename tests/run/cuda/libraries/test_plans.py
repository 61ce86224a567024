"""Plans with library calls: there is an adapter for each call."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop import footprints
from functrans.loop.statements import Address, Call
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.optimise import legalised
from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.libraries.table import adapter, capturable, has, symbols
from tests.loop import plans
from tests.run.cuda.libraries.memory import Memory
from tests.run.cuda.libraries.stub import Machine
from tests.targets import target

CALLING = target(products={"smallest_side": 1, "smallest_work": 1})
"""A machine for which all products are calls."""

RNG = np.random.default_rng(0)
N = 9


def drawn(*shape):
    return RNG.normal(size=shape)


def spectrum(a):
    values, vectors = np.linalg.eigh(a)
    return values, (vectors * values) @ vectors.mT


def singular(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return s, (u * s) @ vh


def orthogonal(a):
    q, r = np.linalg.qr(a)
    return np.abs(np.diagonal(r)), q @ r


REGULAR = drawn(N, N) + 9 * np.eye(N)
DEFINITE = REGULAR @ REGULAR.T

FUNCTIONS = {
    "product": (lambda x, y: x @ y, drawn(5, 7), drawn(7, 3)),
    "product of transposes": (lambda x, y: x.T @ y.T, drawn(7, 5), drawn(3, 7)),
    "products of a batch": (lambda x, y: x @ y, drawn(4, 5, 7), drawn(4, 7, 3)),
    "float32": (lambda x, y: x @ y, drawn(5, 7).astype("f"), drawn(7, 3).astype("f")),
    "solve": (np.linalg.solve, REGULAR, drawn(N, 3)),
    "solve for a stack": (np.linalg.solve, np.stack([REGULAR, DEFINITE]), drawn(2, N, 3)),
    "inverse": (np.linalg.inv, REGULAR),
    "determinant": (np.linalg.slogdet, REGULAR),
    "cholesky": (np.linalg.cholesky, DEFINITE),
    "eigenvalues": (np.linalg.eigvalsh, DEFINITE),
    "spectrum": (spectrum, DEFINITE),
    "singular values": (lambda a: np.linalg.svd(a, compute_uv=False), drawn(N, 6)),
    "singular vectors": (singular, drawn(N, 6)),
    "singular vectors of a wide matrix": (singular, drawn(6, N)),
    "orthogonal factor": (orthogonal, drawn(N, 6)),
    "orthogonal factor of a wide matrix": (orthogonal, drawn(6, N)),
    "triangle": (lambda a: np.linalg.qr(a, mode="r") ** 2, drawn(N, 6)),
}


def plan_of(function, operands):
    return pipeline.plan(jit(function).lower(*operands).graph(), CALLING)


TRANSFORMING = target(CUDA, libraries=True, library_transforms={"library": 1})
"""A GPU for which all Fourier transforms are calls."""

TRANSFORMS = {
    "complex": (lambda z: np.fft.ifft(np.fft.fft(z)[:, ::-1]), "D"),
    "real": (lambda x: np.fft.irfft(np.fft.rfft(x, axis=0) * 2, 5, axis=0), "d"),
    "two axes, float32": (lambda z: np.fft.fft2(z, norm="ortho"), "F"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_by_the_library(name, monkeypatch):
    function, kind = TRANSFORMS[name]
    z = drawn(5, 7, 2).astype("f" if kind == "F" else "d")
    x = z.view(kind)[..., 0] if kind != "d" else z[..., 0].copy()
    graph = legalised(jit(function).lower(x).graph(), TRANSFORMING)
    plan = pipeline.plan(graph, TRANSFORMING)
    assert calls_of(plan)
    machine = Machine(Memory(anywhere=True))
    monkeypatch.setattr(plans, "call_routine", libraries_for(plan, machine))
    (found,), status = plans.evaluate_plan(plan, [x if kind == "d" else z])
    assert status == 0 and machine.log
    wanted = function(x)
    found = found if wanted.dtype.kind == "f" else found.view(wanted.dtype)[..., 0]
    np.testing.assert_allclose(found, wanted, atol=1e-5 if kind == "F" else 1e-12)


def calls_of(plan):
    return [x for step in plan.steps for x in walk(step.kernel.body) if isinstance(x, Call)]


def libraries_for(plan, machine):
    """What calls the libraries in place of Fortran's routines."""
    kinds = {call.symbol: [type(one) for one in call.arguments] for call in calls_of(plan)}

    def call(symbol, arrays):
        assert has(symbol)
        passed = []
        for kind, array in zip(kinds[symbol], arrays, strict=True):
            if kind is Address:
                passed.append(array.ctypes.data)
            else:
                passed.append(array.tobytes() if kind is bytes else array[0].item())
        handles = handles_for(machine.stream, machine.bindings)
        adapter(symbol)(handles, machine.memory.allocate, passed)

    return call


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plans_compute_what_numpy_does(name, monkeypatch):
    function, *operands = FUNCTIONS[name]
    plan = plan_of(function, operands)
    assert calls_of(plan)
    machine = Machine(Memory(anywhere=True))
    monkeypatch.setattr(plans, "call_routine", libraries_for(plan, machine))
    found, status = plans.evaluate_plan(plan, operands)
    expected = function(*operands)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert status == 0 and machine.log
    for x, y in zip(found, expected, strict=True):
        tolerance = 1e-4 if np.asarray(y).dtype == np.float32 else 1e-10
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * max(1, np.max(np.abs(y))))


@pytest.mark.parametrize(
    ("name", "operand"), [("inverse", np.ones((N, N))), ("cholesky", -np.eye(N))]
)
def test_what_fails_says_so_in_the_status(name, operand, monkeypatch):
    function, _ = FUNCTIONS[name]
    plan = plan_of(function, [operand])
    monkeypatch.setattr(plans, "call_routine", libraries_for(plan, Machine(Memory(anywhere=True))))
    _, status = plans.evaluate_plan(plan, [operand])
    assert status != 0
    with pytest.raises(np.linalg.LinAlgError):
        function(operand)


# ---- the table -----------------------------------------------------------------------------------


def test_every_routine_that_plans_may_call_has_an_adapter():
    for routine in footprints._ROUTINES:
        letters = {"fft": "cz", "bgemm_batch_strided": "s", "hgemm_batch_strided": "s"}
        assert all(has(letter + routine) for letter in letters.get(routine, "sd"))


def test_what_there_is_no_adapter_for():
    assert not any(map(has, ("", "d", "dgeev", "zgemm", "hpotrf", "cgetrf", "dfft", "gemm")))
    for symbol in ("dgeev", "zgemm"):
        with pytest.raises(KeyError):
            adapter(symbol)


def test_symbols_are_those_that_it_has():
    assert len(set(symbols())) == len(symbols())
    assert all(map(has, symbols()))
    assert {"dgemm", "bgemm", "sgemm_batch_strided", "dgesdd", "zfft", "dirfft"} <= {*symbols()}


def test_graphs_take_what_leaves_all_work_to_the_stream():
    assert capturable("sgemm") and capturable("dtrsm")
    assert not any(map(capturable, ("dsyevd", "sgesdd", "dgetrf", "dgeev", "zfft", "sirfft")))
