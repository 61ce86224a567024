"""Algebraic Riccati equations of optimal control, by SciPy's solvers.

Only the Hermitian parts of the weights matter.

A derivative of the solution follows from the equation: with the matrix of the closed loop, it
solves a Lyapunov equation (Kao and Hennequin, "Automatic differentiation of Sylvester, Lyapunov,
and algebraic Riccati equations", 2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive, Samples
from functrans.ir.types import Aval, Shape
from functrans.lazily import Lazy, lazy
from functrans.ops.arrays.structural import reshape
from functrans.ops.define import primitive
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.linalg.factorisations import solve_p
from functrans.ops.linalg.matrices import (
    adjoint,
    batch_together,
    check_square,
    far_apart,
    filled_by_matrix,
    identity,
    product,
    promoted,
)
from functrans.ops.linalg.sylvester import sylvester_p
from functrans.ops.samples import cases


def _infer(a: Aval, b: Aval, q: Aval, r: Aval) -> Aval:
    check_square(a, "a Riccati equation")
    n, k = a.shape[-1], b.shape[-1] if b.ndim else 0
    leading = a.shape[:-2]
    wanted: tuple[Shape, ...] = ((*leading, n, k), (*leading, n, n), (*leading, k, k))
    if (b.shape, q.shape, r.shape) != wanted:
        raise ShapeError(
            f"a Riccati equation with a matrix of shape {a.shape} takes others of shapes "
            f"{', '.join(map(str, wanted))}, not {b.shape}, {q.shape}, {r.shape}"
        )
    return a.update()


def _for_each(solver: Lazy) -> Any:
    def of_one(a: Any, b: Any, q: Any, r: Any) -> Any:
        return solver(a, b, _half(q), _half(r))

    def solve(a: Any, *others: Any) -> Any:
        return filled_by_matrix(of_one, [a, *others], np.zeros_like(a))

    return solve


def _half(x: Any) -> Any:
    """The Hermitian part; SciPy requires that there is no other."""
    return (x + x.conj().T) / 2


def _total(*terms: Any) -> Any:
    """The sum of the terms that are not None."""
    present = [x for x in terms if x is not None]
    total = present[0]
    for term in present[1:]:
        total = total + term
    return total


def _with_adjoint(x: Any) -> Any:
    return x + adjoint(x)


def _jvp_continuous(primals: Any, tangents: Any, outs: Any) -> Any:
    (a, b, _, r), (x,) = primals, outs
    r = _with_adjoint(r * 0.5)
    gain = solve_p(r, product(adjoint(b), x), transpose_a=False)
    closed = a - product(b, gain)
    return sylvester_p(adjoint(closed), closed, -_change(tangents, x, gain))


def _jvp_discrete(primals: Any, tangents: Any, outs: Any) -> Any:
    """The change solves ``dX = F^H dX F + change``, with F the closed loop's matrix."""
    (a, b, _, r), (x,) = primals, outs
    r = _with_adjoint(r * 0.5)
    xb = product(adjoint(b), x)
    gain = solve_p(r + product(xb, b), product(xb, a), transpose_a=False)
    closed = a - product(b, gain)
    change = _change(tangents, product(adjoint(closed), x), gain)
    return solve_stein(adjoint(closed), change)


def _change(tangents: Any, weight: Any, gain: Any) -> Any:
    """The change of an equation's residual with its coefficients, for a fixed solution."""
    da, db, dq, dr = tangents
    return _total(
        None if dq is None else _with_adjoint(dq * 0.5),
        None if da is None else _with_adjoint(product(weight, da)),
        None if db is None else -_with_adjoint(product(weight, db, gain)),
        None if dr is None else _with_adjoint(product(adjoint(gain), dr * 0.5, gain)),
    )


def solve_stein(f: Any, change: Any) -> Any:
    """The ``x`` with ``x = f x f^H + change`` (Stein's equation), as one system of equations."""
    n = f.shape[-1]
    pairs = f[..., :, None, :, None] * conj(f)[..., None, :, None, :]
    whole = identity(n * n, f.dtype) - reshape(pairs, shape=(*f.shape[:-2], n * n, n * n))
    flat = reshape(change, shape=(*change.shape[:-2], n * n, 1))
    return reshape(solve_p(whole, flat, transpose_a=False), shape=change.shape)


def _equation(name: str, solver: Lazy, jvp: Any, samples: Samples) -> Primitive:
    op: Primitive = primitive(
        name,
        infer=_infer,
        numpy=_for_each(solver),
        jvp=jvp,
        batch=lambda *args: batch_together(op, *args),
        prepare=promoted,
        samples=samples,
    )
    return op


_controlled = cases(
    ((far_apart, (2, 2)), (2, 1), np.diag([1.0, 2.0]), np.array([[1.5]]), {}),
    ((far_apart, (2, 2, 2)), (2, 2, 2), np.stack([np.eye(2)] * 2), np.stack([np.eye(2)] * 2), {}),
)

continuous_riccati_p = _equation(
    "solve_continuous_are", lazy("scipy.linalg:solve_continuous_are"), _jvp_continuous, _controlled
)
discrete_riccati_p = _equation(
    "solve_discrete_are", lazy("scipy.linalg:solve_discrete_are"), _jvp_discrete, _controlled
)
