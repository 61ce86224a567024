"""`Rotation` and `Slerp` of `scipy.spatial.transform` on traced values, by SciPy's own source.

In SciPy, these classes hold quaternions, and a backend module for generic array libraries computes
with them. Four of its formulas are replaced here. The conversions from rotation vectors to
quaternions and back use squared norms, so that they have derivatives of all orders at the identity.
The conversion from a matrix uses the nearest rotation, which is differentiable in all directions.
`reduce` takes the identity for a group that is not given.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from functrans import numpy as ours
from functrans.lazily import lazy
from functrans.ops.arrays.shape import with_tracers
from functrans.ops.elementwise.choice import select
from functrans.scipy.define import double
from functrans.scipy.entries import enter
from functrans.scipy.source.reinterpret import module, reinterpreted
from functrans.trace.tracer import Tracer

_FORMULAS = "scipy.spatial.transform._rotation_xp"
_ROTATION = (
    "__getitem__ __init__ __iter__ __mul__ __pow__ __setitem__ align_vectors apply approx_equal "
    "as_davenport as_euler as_matrix as_mrp as_quat as_rotvec concatenate from_davenport "
    "from_euler from_matrix from_mrp from_quat from_rotvec inv magnitude mean reduce"
)
_SLERP = "__call__ __init__"

polar = lazy("functrans.scipy.linalg:polar")


def answer_for_rotations() -> None:
    """Register replacements of the methods, if this version of SciPy has them in Python."""
    classes = import_module("scipy.spatial.transform")
    for owner, names in (("Rotation", _ROTATION), ("Slerp", _SLERP)):
        for name in names.split():
            method = getattr(getattr(classes, owner), name)
            if isinstance(method, FunctionType):
                enter(f"scipy.spatial.transform:{owner}.{name}", _taking(method), _concerned)


def _taking(method: FunctionType) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if method.__name__ in ("__init__", "__setitem__"):  # these modify their first argument
            given = (args[0], *map(_lifted, args[1:]))
        else:
            given = tuple(map(_lifted, args))
        return reinterpreted(method)(*given, **{k: _lifted(x) for k, x in kwargs.items()})

    return call


def _lifted(x: Any) -> Any:
    """Convert a rotation of plain arrays to one that computes by the translated backend.

    Traced numbers become doubles, as those in SciPy's own rotations.
    """
    if isinstance(x, Tracer) and x.dtype.kind == "f":
        return double(x)
    if isinstance(x, (list, tuple)):
        return type(x)(map(_lifted, x))
    if type(x).__name__ == "Rotation" and not _is_traced(x):
        return type(x)._from_raw_quat(ours.array(x.as_quat()), xp=ours, backend=module(_FORMULAS))
    if type(x).__name__ == "Slerp":
        lifted = copy.copy(x)
        lifted.times, lifted.timedelta, lifted.rotvecs = map(
            ours.array, (x.times, x.timedelta, x.rotvecs)
        )
        return lifted
    return x


def _is_traced(x: Any) -> bool:
    parts = (getattr(x, name, None) for name in ("_quat", "times", "rotvecs"))
    return any(isinstance(part, Tracer) for part in parts)


def _concerned(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if with_tracers(caller, args, kwargs):
        return True
    given = (*args, *kwargs.values())
    every = (y for x in given for y in (x if isinstance(x, (list, tuple)) else (x,)))
    return any(map(_is_traced, every))


# -- formulas --------------------------------------------------------------------------------------


def _from_rotvec(rotvec: Any, degrees: bool = False) -> Any:
    if rotvec.shape[-1] != 3:
        raise ValueError(f"Expected `rot_vec` to have shape (..., 3), got {rotvec.shape}")
    rotvec = np.deg2rad(rotvec) if degrees else rotvec
    square = np.sum(rotvec * rotvec, axis=-1, keepdims=True)
    small = square < 1e-6
    half = np.sqrt(select(small, 1.0, square)) / 2
    scale = select(small, 0.5 - square / 48 + square**2 / 3840, np.sin(half) / (2 * half))
    last = select(small, 1 - square / 8 + square**2 / 384, np.cos(half))
    return ours.concatenate([rotvec * scale, last], axis=-1)


def _as_rotvec(quat: Any, degrees: bool = False) -> Any:
    quat = module(_FORMULAS)._quat_canonical(quat)
    vector, last = quat[..., :3], quat[..., 3:]
    square = np.sum(vector * vector, axis=-1, keepdims=True)
    small = square < 1e-6
    sine = np.sqrt(select(small, 1.0, square))
    ratio = select(small, square, 0.0) / select(small, last, 1.0) ** 2
    series = 2 / select(small, last, 1.0) * (1 - ratio / 3 + ratio**2 / 5)
    rotvec = vector * select(small, series, 2 * np.arctan2(sine, last) / sine)
    return np.rad2deg(rotvec) if degrees else rotvec


def _from_matrix(matrix: Any, assume_valid: bool = False) -> Any:
    formulas = module(_FORMULAS)
    if not assume_valid:
        left_handed = np.linalg.det(matrix) <= 0
        if formulas.is_lazy_array(left_handed):
            matrix = select(left_handed[..., None, None], np.nan, matrix)
        elif np.any(left_handed):
            raise ValueError(
                "Non-positive determinant (left-handed or null coordinate frame) in rotation "
                f"matrix: {matrix}."
            )
        matrix = polar(matrix)[0]
    return formulas._from_matrix_orthogonal(matrix)


def _reduce(quat: Any, left: Any = None, right: Any = None) -> Any:
    """SciPy's, whose default for a group is a quaternion of ones, not the identity."""
    if left is None and right is None:
        return quat, None, None
    groups = ([[0.0, 0.0, 0.0, 1.0]] if group is None else group for group in (left, right))
    scipys = reinterpreted(import_module(_FORMULAS).reduce)
    found, *places = scipys(quat, *(np.atleast_2d(ours.array(group)) for group in groups))
    return (found[0] if quat.ndim == 1 else found), *places  # a single one had got an axis


FORMULAS = {
    "as_rotvec": _as_rotvec, "from_matrix": _from_matrix, "from_rotvec": _from_rotvec,
    "reduce": _reduce,
}  # fmt: skip
NAMES = {"select_backend": lambda xp, cython_compatible: module(_FORMULAS)}
