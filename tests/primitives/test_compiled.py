"""Every primitive with a compiled form: machine code against NumPy."""

import numpy as np
import pytest

from functrans.ir.types import aval_of, is_complex, is_inexact, real_dtype
from functrans.loop.target import CPU
from functrans.lower.select.partition import compiled
from functrans.run.call.compiled import compile_graph
from tests.amount import one_of_each
from tests.primitives.harness import (
    PRIMITIVES,
    apart,
    cases,
    complex_cases,
    like,
    one_precision,
    pullback_graph,
    run,
    tangent_graph,
    together,
)


def by_primitive():
    """All samples of a primitive, to be compiled as one program: compiling takes longest."""
    groups = {}
    for dtype, catalogue in apart(np.float32, np.float64).items():
        for case in catalogue.values():
            if all(compiled(eqn, CPU) for eqn in case.graph().eqns):
                groups.setdefault(f"{case.primitive.name}-{dtype}", []).append(case)
    return groups


COMPILED = by_primitive()


def in_parts(dtype):
    """The samples of complex numbers, and of the operations on them, a group for a primitive."""
    by_primitive = {}
    everything = {**cases(real_dtype(np.dtype(dtype))), **complex_cases(dtype)}
    for case in everything.values():
        values = (*case.operands, *case.numpy(*case.operands))
        if any(is_complex(np.asarray(x).dtype) for x in values):
            by_primitive.setdefault(case.primitive.name, []).append(case)
    return by_primitive


COMPLEX = {
    f"{name}-{np.dtype(dtype)}": group
    for dtype in (np.complex64, np.complex128)
    for name, group in in_parts(dtype).items()
}


ROUGH = {"betainc", "betaincinv", "betainccinv"}
"""What SciPy gives in float32 is up to 1.4e-5 off (ours 1e-7), against the same in float64."""


ROUGHER = {"expm", "expm_frechet"}
"""What SciPy gives in float64 is up to 5e-13 of the largest element off (ours 2e-15)."""


def check(group, backend="native"):
    """Compile the samples as one program, and compare what it gives with what NumPy gives."""
    graph, operands = together(group)
    expected = [result for case in group for result in case.numpy(*case.operands)]
    results = compile_graph(graph, backend=backend)(*operands)
    for number, (found, value) in enumerate(zip(results, expected, strict=True)):
        assert aval_of(found) == aval_of(value)
        single = value.dtype in (np.float32, np.complex64)
        tolerance = 1e-6 if single else 1e-14
        if single and group[0].primitive.name in ROUGH:
            tolerance = 2e-5
        if group[0].primitive.name in ROUGHER:
            tolerance = (1e-6 if single else 1e-12) * np.abs(value).max(initial=1)
        np.testing.assert_allclose(
            found, value, rtol=tolerance, atol=tolerance, err_msg=f"result {number}"
        )


@pytest.mark.parametrize("name", one_precision(COMPILED))
def test_machine_code_gives_what_numpy_gives(name):
    check(COMPILED[name])


@pytest.mark.parametrize("name", one_precision(COMPLEX))
def test_machine_code_gives_what_numpy_gives_for_complex_numbers(name):
    check(COMPLEX[name])


@pytest.mark.parametrize("name", ["multiply", "cast", "sort"])
def test_numbas_code_computes_with_pairs(name):
    check(COMPLEX[f"{name}-complex128"][:1], "numba")


def smallest_samples():
    """For each primitive that is no elementwise one, the sample with the fewest numbers."""
    chosen = {}
    for group in COMPILED.values():
        if group[0].primitive.scalar is None:
            filled = [case for case in group if all(map(np.size, case.operands))]
            # of float64, which comes last
            chosen[group[0].primitive.name] = min(
                filled, key=lambda case: sum(map(np.size, case.operands))
            )
    return chosen


SMALLEST = smallest_samples()


@pytest.mark.few(2)
@pytest.mark.parametrize("case", SMALLEST.values(), ids=SMALLEST.keys())
def test_numbas_code_does_what_is_no_arithmetic(case):
    check([case], "numba")


SOME = "divide exp maximum select rint floor remainder cast ceil".split()


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [*(f"{name}-float64" for name in SOME), "left_shift-float32"])
def test_numbas_code_does_arithmetic(name):
    check(COMPILED[name], "numba")


def for_numba():
    """All in float32, which Numba may make float64; in float64 what has loops of its own.

    A program is printed node by node, and every node that a float64 function has is in the others,
    or in `SOME`.
    """
    return [
        name
        for name, group in COMPILED.items()
        if name.endswith("float32") or not group[0].primitive.elementwise
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", for_numba())
def test_numbas_code_gives_what_numpy_gives(name):
    check(COMPILED[name], "numba")


def compiles(case):
    """Whether it is not a function of SciPy's that is called as a whole."""
    primitive = case.primitive
    return not primitive.elementwise or primitive.scalar is not None or primitive.parts is not None


def largest_samples(catalogue):
    """For each differentiable primitive, the sample with the most numbers."""
    chosen = {}
    for case in catalogue.values():
        name = case.primitive.name
        size = sum(np.size(x) for x in case.operands)
        floats = any(is_inexact(result.dtype) for result in case.numpy(*case.operands))
        if (
            case.differentiable
            and compiles(case)
            and floats
            and size > chosen.get(name, (0, None))[0]
        ):
            chosen[name] = size, case
    return {name: case for name, (_, case) in chosen.items()}


LARGEST = largest_samples(cases(np.float64))
# which is known for real numbers only (test_derivatives.py)
REAL_DERIVATIVE = {"digamma", "erfcx"}
LARGEST_COMPLEX = largest_samples(
    {k: x for k, x in complex_cases().items() if x.primitive.name not in REAL_DERIVATIVE}
)


def alike(case):
    """Derivatives consist of primitives, which are compiled alone: the quick set has some."""
    return PRIMITIVES.index(case.primitive) // 12


@pytest.mark.parametrize("case", one_of_each(alike, LARGEST.values()), ids=LARGEST.keys())
def test_derivatives_are_compiled(case):
    check_derivatives(case)


SOME_COMPLEX = [
    "absolute", "cast", "conj", "direction", "divide", "dot_general", "exp", "gather",
    "imag", "log", "multiply", "real", "reduce_sum", "scatter_add", "select", "solve", "sqrt",
]  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize("name", SOME_COMPLEX)
def test_some_derivatives_at_complex_numbers_are_compiled(name):
    check_derivatives(LARGEST_COMPLEX[name])


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGEST_COMPLEX.values(), ids=LARGEST_COMPLEX.keys())
def test_derivatives_at_complex_numbers_are_compiled(case):
    check_derivatives(case)


def check_derivatives(case):
    rng = np.random.default_rng(0)
    tangent = tangent_graph(case.graph(), case.moving)
    directions = [like(rng, x) for x, flag in zip(case.operands, case.moving, strict=True) if flag]
    tangents = run(tangent, [*case.operands, *directions])
    cotangents = [like(rng, x) for x in tangents]
    pullback = pullback_graph(tangent, len(case.operands), len(directions))
    for graph, inputs in (
        (tangent, [*case.operands, *directions]),
        (pullback, [*case.operands, *cotangents]),
    ):
        for found, value in zip(compile_graph(graph)(*inputs), run(graph, inputs), strict=True):
            assert aval_of(found) == aval_of(value)
            np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-12)
