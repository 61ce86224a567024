"""Definitions of primitives are complete: every missing slot is declared, there or here."""

import pytest

from functrans.ir.primitive import NotDifferentiable
from functrans.ops.compiled.pairs import rule_of_linear
from tests.primitives.harness import PRIMITIVES, complex_cases

# What has no form element by element: updates and linear algebra are compiled as a whole, for the
# rest a compiled program calls NumPy or SciPy.
NOT_COMPILED = {
    "constant": "it is there already",
    "effect": "it is Python",
    "external": "it is Python",
    "first_token": "it stands for effects of Python's",
    "tied": "it stands for effects of Python's",
    "gemm": "it is calls of BLAS",
    "complex_to_pairs": "it is a view",
    "pairs_to_complex": "it is a view",
    "gcd": "a loop of unknown length for each number",
    "lcm": "a loop of unknown length for each number",
    "cumsum": "an element by itself is a sum: all of them would take quadratic time",
    "cumprod": "as cumsum",
    "cummax": "as cumsum",
    "cummin": "as cumsum",
    "cumand": "as cumsum",
    "cumor": "as cumsum",
    "cumxor": "as cumsum",
    "cholesky": "its elements are made together",
    "cholesky_cotangent": "its elements are made together",
    "cofactor": "its elements are made together",
    "det": "its elements are made together",
    "eig": "its elements are made together",
    "eigvals": "its elements are made together",
    "eigh": "its elements are made together",
    "eigvalsh": "its elements are made together",
    "in_parts": "its elements are made together",
    "inv": "its elements are made together",
    "lstsq": "its elements are made together",
    "pinv": "its elements are made together",
    "qr": "its elements are made together",
    "r_of_qr": "its elements are made together",
    "slogdet": "its elements are made together",
    "solve": "its elements are made together",
    "order_statistics": "a loop over all bits of a key",
    "partial_sort": "its elements are made together",
    "partial_argsort": "its elements are made together",
    "split_fft": "its elements are made together",
    "svd": "its elements are made together",
    "svdvals": "its elements are made together",
    "triangular_solve": "its elements are made together",
    "trigonometric_transform": "its elements are made together",
    "expm": "it is SciPy's",
    "expm_frechet": "it is SciPy's",
    "logm": "it is SciPy's",
    "logm_frechet": "it is SciPy's",
    "hessenberg": "it is SciPy's",
    "ldl": "it is SciPy's",
    "lu": "its elements are made together",
    "matrix_balance": "it is SciPy's",
    "pivots_of_qr": "it is SciPy's",
    "schur": "its elements are made together",
    "polar": "it is NumPy's",
    "solve_banded": "it is SciPy's",
    "solve_continuous_are": "it is SciPy's",
    "solve_discrete_are": "it is SciPy's",
    "solve_sylvester": "it is SciPy's",
    "sqrtm": "it is SciPy's",
    "sort": "NumPy's is fast",
    "argsort": "NumPy's is fast",
    "unused": "there is nothing to compute",
    "library_fft": "it is a call of the library that it stands for",
}

# What the compiler makes, when all transforms have been applied.
NOT_MAPPED = {
    "gemm", "widening_dot_general", "complex_to_pairs", "pairs_to_complex", "split_fft",
    "library_fft", "in_parts", "order_statistics", "partial_sort", "partial_argsort",
}  # fmt: skip

NO_OPERANDS = {
    "absent", "chirp", "constant", "cyclic_vectors", "full", "iota", "known_integers",
    "lane_number", "turns", "unused",
}  # fmt: skip

NO_SAMPLES = {
    "external": "it is any function of the user's: see the tests of external functions",
    "unused": "nobody reads it",
}

COLLECTIVES = {
    primitive.name: "it is an array's axis, or a message" for primitive in PRIMITIVES
    if primitive.collective is not None or primitive.name == "lane_number"
}  # fmt: skip


def is_scipys(primitive):
    """Whether SciPy computes it, or a rule that stands beside what SciPy computes."""
    module = getattr(primitive.numpy, "module", primitive.numpy.__module__)
    return module.startswith(("scipy.", "functrans.ops.elementwise.special."))


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=repr)
def test_no_slot_is_missing(primitive):
    missing = [slot for slot in ("infer", "numpy") if getattr(primitive, slot) is None]
    if primitive.batch is None and primitive.name not in NO_OPERANDS | NOT_MAPPED:
        missing.append("batch")
    if primitive.jvp is None and not primitive.linear:
        missing.append("jvp")
    if primitive.linear and primitive.transpose is None:
        missing.append("transpose")
    if not primitive.higher_order:
        # (a collective is tried with its lanes: see the tests of named axes)
        if primitive.samples is None and primitive.name not in NO_SAMPLES | COLLECTIVES:
            missing.append("samples")
        slots = primitive.scalar, primitive.pull, primitive.parts
        if all(slot is None for slot in slots):
            if primitive.name not in NOT_COMPILED | COLLECTIVES and not is_scipys(primitive):
                missing.append("scalar, pull or parts")
    assert missing == []


# What is done number by number, and for complex numbers by NumPy in compiled programs.
NOT_IN_PARTS = {"sinc_derivative": "rare"}


def test_what_takes_complex_numbers_has_a_form_in_parts():
    by_numpy = {
        case.primitive.name
        for case in complex_cases().values()
        for eqn in case.graph().eqns
        if case.primitive.elementwise
        and case.primitive.parts is None
        and not is_scipys(case.primitive)
        and rule_of_linear(eqn) is None
    }
    assert by_numpy == NOT_IN_PARTS.keys()


@pytest.mark.parametrize("name", NOT_COMPILED)
def test_what_is_declared_not_compiled_is_not(name):
    [primitive] = [p for p in PRIMITIVES if p.name == name]
    assert primitive.scalar is None and primitive.pull is None


@pytest.mark.parametrize("name", sorted(NOT_MAPPED))
def test_what_is_declared_not_mapped_has_no_transforms_at_all(name):
    [primitive] = [p for p in PRIMITIVES if p.name == name]
    assert primitive.batch is None
    assert isinstance(primitive.jvp, NotDifferentiable)


@pytest.mark.parametrize("primitive", [p for p in PRIMITIVES if p.elementwise], ids=repr)
def test_an_elementwise_primitive_is_compiled_number_by_number(primitive):
    assert primitive.pull is None
