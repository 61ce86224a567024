"""Operations on complex matrices with separate arrays of real and imaginary parts.

Compiled programs have no complex numbers: after all derivatives have been taken, these replace the
operations that LAPACK computes (`functrans.optimise.machine.complex_parts`). One primitive serves
all of them; its parameter ``of`` names the operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.graph import Eqn
from functrans.ir.primitive import Primitive, named, not_differentiable
from functrans.ir.types import Aval, complex_dtype, is_complex, real_dtype
from functrans.lazily import lazy
from functrans.ops.compiled.emission import Emit
from functrans.ops.compiled.pairs import Pair, flattened
from functrans.ops.define import primitive
from functrans.ops.linalg.matrices import (
    FLOATS,
    far_apart,
    is_small_or_one_of_many,
    on_grid,
    operations,
    positive_definite,
)
from functrans.ops.samples import cases

T = TypeVar("T")

OPERANDS = {
    "solve": 2, "triangular_solve": 2, "cholesky": 1, "inv": 1, "det": 1, "slogdet": 1,
    "eigh": 1, "eigvalsh": 1, "svd": 1, "svdvals": 1, "qr": 1, "r_of_qr": 1,
    "eig": 1, "eigvals": 1, "schur": 1, "lu": 1,
}  # fmt: skip
"""The operations, and the number of matrices that each takes."""

ON_GRID = frozenset(("eigh", "eigvalsh"))
"""The operations that are compiled for a grid, too."""

OF_CORES = frozenset({*OPERANDS, "pinv", "lstsq", "cofactor"}) - ON_GRID
"""The operations with parts for which only CPUs have routines, and those composed of them."""


_OF_REAL = ("eig", "eigvals")
"""The operations with complex results for real matrices, too."""

_THREADED = ("eigh", "eigvalsh", "svd", "svdvals", "qr", "r_of_qr")
"""Decompositions of which LAPACK's own threads compute a large part."""


def _grouped(of: str, parts: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """The operands of an operation, each as one array or two."""
    count = OPERANDS.get(of, 0)
    if not count or (len(parts) != 2 * count and not (of in _OF_REAL and len(parts) == 1)):
        raise ShapeError(f"there is no operation {of!r} of {len(parts)} parts of matrices")
    size = len(parts) // count
    return (tuple(parts[i : i + size]) for i in range(0, len(parts), size))


def _whole(part: Aval, *other: Aval) -> Aval:
    """The type of the matrices with given parts."""
    if (other and not other[0].same_array_type(part)) or part.dtype not in FLOATS:
        raise DtypeError(f"the parts of matrices are floats of one type, not {(part, *other)}")
    return part.update(dtype=complex_dtype(part.dtype)) if other else part


def _infer(*parts: Aval, of: str, **params: Any) -> tuple[Aval, ...]:
    found = named(of).infer_all([_whole(*each) for each in _grouped(of, parts)], params)
    return tuple(
        aval.update(dtype=real_dtype(aval.dtype)) if is_complex(aval.dtype) else aval
        for aval in found
        for _ in range(1 + is_complex(aval.dtype))
    )


def _joined(re: Any, *im: Any) -> Any:
    if not im:
        return re
    out = np.empty(re.shape, complex_dtype(re.dtype))
    out.real, out.imag = re, im[0]
    return out


def _numpy(*parts: Any, of: str, **params: Any) -> tuple[Any, ...]:
    op = named(of)
    results = op.numpy(*(_joined(*each) for each in _grouped(of, parts)), **params)
    return tuple(
        np.array(part)
        for x in (results if op.several else (results,))
        for part in ((x.real, x.imag) if is_complex(x.dtype) else (x,))
    )


def _applies(eqn: Eqn, target: Any) -> bool:
    is_ours = eqn.params["of"] not in _THREADED or is_small_or_one_of_many(eqn, target)
    return target.routines and is_ours and all(0 not in x.aval.shape for x in eqn.inputs)


_on_grid = on_grid(lazy("functrans.ops.linalg.compiled.grid.matrices:eigh_of_parts"))


def _applies_on_grid(eqn: Eqn, target: Any) -> bool:
    return eqn.params["of"] in ON_GRID and _on_grid.applies(eqn, target)


in_parts_p: Primitive = primitive(
    "in_parts",
    emit=Emit(
        lazy("functrans.ops.linalg.compiled.in_parts:emit"), applies=_applies, operations=operations
    ),
    emit_on_grid=_on_grid._replace(applies=_applies_on_grid),
    infer=_infer,
    numpy=_numpy,
    several=True,
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    samples=cases(
        ((positive_definite, (3, 3)), np.zeros((3, 3)), {"of": "cholesky"}),
        ((far_apart, (2, 4, 4)), (2, 4, 4), {"of": "eigh", "lower": True}),
        ((far_apart, (3, 3)), (3, 3), {"of": "eigh", "lower": False}),
        ((far_apart, (4, 4)), (4, 4), {"of": "eigvalsh", "lower": False}),
        ((far_apart, (1, 1)), (1, 1), {"of": "eigvalsh", "lower": True}),
        ((far_apart, (3, 3)), {"of": "eig"}), ((far_apart, (2, 3, 3)), {"of": "eigvals"}),
        ((far_apart, (4, 2)), (4, 2), {"of": "lu"}),
        ((far_apart, (3, 5)), (3, 5), {"of": "qr", "complete": False}),
    ),
)  # fmt: skip


def applied(*operands: Any, of: str, **params: Any) -> Any:
    """The `parts` rule of an operation on pairs, or on real matrices with complex results."""
    results = iter(in_parts_p(*flattened(operands), of=of, **params))
    op = named(of)
    whole = [_whole(*_avals(x)) for x in operands]
    found = [
        Pair(next(results), next(results)) if is_complex(aval.dtype) else next(results)
        for aval in op.infer_all(whole, params)
    ]
    return tuple(found) if op.several else found[0]


def _avals(x: Any) -> list[Aval]:
    return [Aval(part.shape, part.dtype) for part in (x if isinstance(x, Pair) else (x,))]
