"""All the leaves of a pytree as one vector, and back."""

import math
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.probing import probe
from functrans.subclasses import lost
from functrans.tree.core import flatten, paths


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Concatenate the leaves of a pytree into one vector.

    Every leaf must be floating-point: an integer would come back rounded from an optimiser's
    step, and has no derivative.

    Parameters
    ----------
    tree : pytree
        A tree of arrays and Python floats.

    Returns
    -------
    vector : ndarray, shape (n,)
        All elements, in the order of the leaves, each leaf in row-major order. Its dtype is the
        one to which NumPy promotes the leaves' dtypes, where Python floats are weak; it is float64
        if there are no arrays.
    unravel : callable
        Maps a vector of that length to a tree of the same structure, in which each array has its
        original shape and dtype (and shares the vector's memory if the dtype is the same). A scalar
        becomes an array without dimensions; a Python float does, too, with the dtype of `vector`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import tree
    >>> vector, unravel = tree.ravel({"w": np.ones((2, 2)), "b": np.zeros(2)})
    >>> vector
    array([0., 0., 1., 1., 1., 1.])
    >>> unravel(vector * 3)["w"]
    array([[3., 3.],
           [3., 3.]])
    """
    leaves, structure = flatten(tree)
    for leaf, path in zip(leaves, paths(tree), strict=True):
        _check_floating(leaf, path)
    # With the Python float, the dtype is float64 if there is no array.
    common = np.result_type(*map(_promotes_as, leaves)) if leaves else np.dtype(float)
    real = common if common.kind == "f" else np.empty(0, common).real.dtype
    of_numbers = {float: real, complex: common}
    dtypes = [of_numbers.get(type(leaf)) or leaf.dtype for leaf in leaves]
    shapes = [() if type(leaf) in of_numbers else tuple(leaf.shape) for leaf in leaves]
    # not a closure, which cannot be pickled
    unravel = partial(_unraveled, structure, shapes, dtypes)

    if not leaves:  # np.concatenate takes no empty list
        return np.zeros(0, common), unravel
    # Methods and slices only, so that leaves may be traced values.
    parts = [
        np.full(1, leaf, common) if type(leaf) in of_numbers else _cast(leaf.reshape(-1), common)
        for leaf in leaves
    ]
    return np.concatenate(parts), unravel


def _promotes_as(leaf: Any) -> Any:
    return leaf if type(leaf) in (float, complex) else leaf.dtype


def _check_floating(leaf: Any, path: str) -> None:
    if type(leaf) in (float, complex):
        return
    dtype = probe(leaf, "dtype")
    what = lost(leaf)
    if dtype is None or (dtype.kind not in "fc" and dtype.name != "bfloat16"):
        what = f"of type {type(leaf).__name__}" if dtype is None else f"of dtype {dtype}"
    if what:
        where = f"the leaf at {path}" if path else "the tree"
        raise DtypeError(f"ravel takes floating-point leaves, but {where} is {what}")


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    if x.dtype == dtype:
        return x
    return (x.real if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)


def _unraveled(
    structure: Any, shapes: list[tuple[int, ...]], dtypes: list[Any], vector: Any
) -> Any:
    """The tree of a vector; `ravel` returns this function, bound to a structure."""
    ends = [0, *accumulate(math.prod(shape) for shape in shapes)]
    vector = vector if hasattr(vector, "shape") else np.asarray(vector)
    if tuple(vector.shape) != (ends[-1],):
        raise ShapeError(
            f"unravel takes a vector of shape {(ends[-1],)}, as ravel gave it; "
            f"got shape {tuple(vector.shape)}"
        )
    pieces = (
        _cast(vector[start:end].reshape(shape), dtype)
        for (start, end), shape, dtype in zip(pairwise(ends), shapes, dtypes, strict=True)
    )
    return structure.unflatten(pieces)
