"""Rotation of all planes of an array at once, where SciPy loops over them; each by its source."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.api.mapping import vmap
from functrans.errors import UnsupportedNumPyError
from functrans.lazily import lazy
from functrans.numpy.arrays import array
from functrans.ops.indexing.views import unlinked
from functrans.scipy.define import answers
from functrans.scipy.ndimage.boundaries import result_dtype, stored
from functrans.scipy.source.reinterpret import reinterpreted
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["rotate"]

_scipys = lazy("scipy.ndimage:rotate")


@answers("scipy.ndimage:rotate")
def rotate(
    input: Any, angle: Any, axes: tuple[int, int] = (1, 0), reshape: bool = True,
    output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:  # fmt: skip
    """Rotate an image in the plane of two axes.

    Parameters
    ----------
    input : array
    angle : float
        In degrees. If it is traced, ``reshape`` must be False.
    axes : pair of int, optional
    reshape : bool, optional
        Whether the result is large enough to contain all of the input.
    output, order, mode, cval, prefilter : optional
        As in SciPy; ``output`` is a dtype, or an array that the traced function made.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.rotate(x, 90.0, order=1))(np.arange(4.0).reshape(2, 2)).round(12)
    array([[1., 3.],
           [0., 2.]])
    """
    if reshape and isinstance(angle, Tracer):
        raise UnsupportedNumPyError(
            f"rotate by a traced angle is not supported with reshape=True{here()}: "
            "it decides on the shape of the result. Use reshape=False"
        )
    x = array(input)
    of_plane = reinterpreted(_scipys.resolve())
    if x.ndim < 3 or len(axes) != 2:
        return of_plane(x, angle, axes, reshape, output, order, mode, cval, prefilter)
    first, second = sorted(axis % x.ndim for axis in axes)
    if first == second:
        raise ValueError("axes should contain two different values")
    dtype = result_dtype(output, x)
    planes = np.moveaxis(x, (first, second), (-2, -1))

    def turned(plane: Any) -> Any:
        return of_plane(plane, angle, (1, 0), reshape, dtype, order, mode, cval, prefilter)

    found = vmap(turned)(planes.reshape(-1, *planes.shape[-2:]))
    found = found.reshape(*planes.shape[:-2], *found.shape[-2:])
    return stored(unlinked(np.moveaxis(found, (-2, -1), (first, second))), output)
