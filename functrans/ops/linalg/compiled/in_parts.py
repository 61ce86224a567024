"""Instruction selection for LAPACK calls on column-major copies: mostly of complex matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.by_columns import Copies, InDouble, Parts
from functrans.ops.linalg.compiled.general_spectra import Eigenvectors, SchurForm
from functrans.ops.linalg.compiled.lapack import INT, Factors, Statements

Make = Callable[[Any, Emission, tuple[Parts, ...]], Statements]
"""The statements for one matrix, from a `Copies`, the parameters, and all operands."""


def _params(at: Emission) -> dict[str, Any]:
    return {name: value for name, value in at.eqn.params.items() if name != "of"}


def _alone(name: str) -> Make:
    """A rule that applies a method, with the parameters, to one matrix."""
    return lambda calls, at, operands: getattr(calls, name)(**_params(at))


def _factored(make: Callable[..., Statements]) -> Make:
    """A rule that uses the factors of a matrix, which operations share."""

    def statements(calls: Any, at: Emission, operands: tuple[Parts, ...]) -> Statements:
        return make(calls, _factors(at, operands[0]), *operands[1:], **_params(at))

    return statements


def _factors(at: Emission, a: Parts) -> Factors:
    def make() -> Factors:
        *leading, n, _ = a[0].extents
        factors = Factors(
            at.scratch("lu", DOUBLE, (*leading, n, n, 2)),
            at.scratch("pivots", INT, (*leading, n)),
            at.scratch("info", INT, (*leading, 1)),
        )
        calls = Copies(a, factors, False)
        body = calls.for_each(calls.factorised(factors))
        at.call(body, uncounted=8 * calls.count * n // 3, writes=factors)
        return factors

    return at.shared((_factors, *a), make)


MADE: dict[str, tuple[type[Copies], Make, float]] = {
    "solve": (Copies, _factored(Copies.solve), 1),
    "triangular_solve": (
        Copies,
        lambda calls, at, operands: calls.solve_triangular(operands[1], **_params(at)),
        1,
    ),
    "cholesky": (Copies, _alone("cholesky"), 0.5),
    "inv": (Copies, _factored(lambda calls, factors: calls.solve(factors, None)), 1),
    "det": (Copies, _factored(Copies.det), 0.1),
    "slogdet": (Copies, _factored(Copies.slogdet), 0.1),
    "eigh": (InDouble, _alone("eigh"), 8),
    "eigvalsh": (InDouble, _alone("eigh"), 4),
    "svd": (InDouble, _alone("svd"), 16),
    "svdvals": (InDouble, _alone("svd"), 4),
    "qr": (Copies, _alone("qr"), 2),
    "r_of_qr": (Copies, _alone("qr"), 1),
    "eig": (Eigenvectors, _alone("eig"), 16),
    "eigvals": (Eigenvectors, _alone("eig"), 8),
    "schur": (SchurForm, _alone("schur"), 16),
    "lu": (Copies, _alone("lu"), 0.5),
}
"""For each operation: the class of its methods, its statements, and its operations for each
multiplication."""


def emit(at: Emission) -> None:
    """An operation on complex matrices as pairs of real ones."""
    if any(0 in x.aval.shape for x in at.eqn.outputs):
        return
    of = at.eqn.params["of"]
    _emit(at, of, MADE[of][2])


def _of_real(of: str, times: float) -> Callable[[Emission], None]:
    """The rule for real matrices, with its operations per product."""
    return lambda at: _emit(at, of, times)


schur, lu = _of_real("schur", 16), _of_real("lu", 0.5)
eigh, eigvalsh = _of_real("eigh", 2), _of_real("eigvalsh", 1)
svd, svdvals = _of_real("svd", 4), _of_real("svdvals", 1)
qr, r = _of_real("qr", 0.5), _of_real("r_of_qr", 0.25)


def _emit(at: Emission, of: str, times: float) -> None:
    kind, make, _ = MADE[of]
    parts = [at.operand(number) for number in range(len(at.eqn.inputs))]
    count = 2 if of in ("solve", "triangular_solve") else 1
    size = len(parts) // count
    operands = tuple(tuple(parts[i : i + size]) for i in range(0, len(parts), size))
    results = tuple(at.result(number) for number in range(len(at.eqn.outputs)))
    # workspace is on the stack of each thread if it fits: otherwise there would be one for each
    # matrix of a stack, several times as much memory as the matrices
    for on_stack in (True, False):
        calls = kind(operands[0], results, on_stack)
        body = make(calls, at, operands)
        if sum(memory.nbytes for memory in calls.stack) <= at.target.largest_scratch:
            break
    operations = int(4 * times * calls.a.count * min(calls.a.extents[-2:]))
    at.call(calls.for_each(body), uncounted=operations, stack=calls.stack)
