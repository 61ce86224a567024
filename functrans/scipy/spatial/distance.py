"""The functions of `scipy.spatial.distance` under its names, for arrays and for traced values.

Where a distance is 0, its derivative is 0, too. Distances of booleans, and checks of arguments, are
SciPy's own functions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from functrans.ir.types import is_complex
from functrans.numpy.arrays import array, astype, inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.joining import concatenate
from functrans.numpy.linalg import inv
from functrans.numpy.norms import norm
from functrans.numpy.reductions import max, mean, root, sum, var
from functrans.numpy.sequences import cov
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.power import sqrt
from functrans.ops.linalg.products import matmul
from functrans.scipy.define import answers, double, quotient, since_1_18
from functrans.scipy.entries import namespace
from functrans.trace.source import here

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine",
    "euclidean", "mahalanobis", "minkowski", "pdist", "seuclidean", "sqeuclidean", "squareform",
]  # fmt: skip

__getattr__, __dir__ = namespace("spatial.distance", __all__)


# -- metrics along the last axis -------------------------------------------------------------------


def _weighted(x: Any, w: Any) -> Any:
    return x if w is None else array(w) * x


def _sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    apart = u - v
    return sum(_weighted(apart * apart, w), axis=-1)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    apart = np.abs(u - v)
    return max(apart if w is None else select(array(w) > 0, apart, 0), axis=-1)


def _minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    if p == np.inf:
        return _chebyshev(u, v, w)
    if known(np.asarray(p) <= 0):
        raise ValueError("p must be greater than 0")
    if w is not None or (p == 2 and not since_1_18()):  # as in SciPy
        u, v = double(u), double(v)
    return norm(u - v if w is None else array(w) ** (1 / p) * (u - v), p, axis=-1)


def _canberra(u: Any, v: Any, w: Any = None) -> Any:
    return sum(_weighted(quotient(np.abs(u - v), np.abs(u) + np.abs(v), 0.0), w), axis=-1)


def _braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    apart, size = np.abs(u - v), np.abs(u + v)
    return sum(_weighted(apart, w), axis=-1) / sum(_weighted(size, w), axis=-1)


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    if is_complex(u.dtype) or is_complex(v.dtype):
        raise TypeError("`u` and `v` must be real.")
    both, one, other = (sum(_weighted(x, w), axis=-1) for x in (u * v, u * u, v * v))
    return np.clip(1 - both / sqrt(one * other), 0.0, 2.0)


def _correlation(u: Any, v: Any, w: Any = None, centered: Any = True) -> Any:
    if not centered:
        return _cosine(u, v, w)
    if w is None:
        u, v = u - mean(u, axis=-1, keepdims=True), v - mean(v, axis=-1, keepdims=True)
        return _cosine(u, v)
    w = array(w) / sum(w)
    u, v = (x - sum(w * x, axis=-1, keepdims=True) for x in (u, v))
    return _cosine(u, v, w)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    apart = u - v
    return root(sum(matmul(apart, array(VI)) * apart, axis=-1))


_METRICS: dict[str, Callable[..., Any]] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": lambda u, v, w=None: sum(_weighted(np.abs(u - v), w), axis=-1),
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": lambda u, v, w=None: norm(
        u - v if w is None else np.sqrt(array(w)) * (u - v), axis=-1
    ),
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": lambda u, v, V: norm((u - v) / sqrt(inexact(V)), axis=-1),
    "sqeuclidean": _sqeuclidean,
}
_SHORT = {
    "cityblock": ("manhattan", "cblock", "cb", "c"),
    "chebyshev": ("chebychev", "cheby", "cheb", "ch"),
    "euclidean": ("euclid", "eu", "e"),
    "mahalanobis": ("mahal", "mahala", "mahalanobi", "mah"),
    "minkowski": ("mi", "m", "pnorm"),
    "seuclidean": ("se", "s"),
    "sqeuclidean": ("sqe", "sqeuclid"),
    "correlation": ("co",),
    "cosine": ("cos",),
}
_NAMES = {short: name for name, all_short in _SHORT.items() for short in all_short}


_CONVERTED: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("braycurtis", "canberra"), double),
    "euclidean": lambda x: inexact(x) if since_1_18() else double(x),
    **dict.fromkeys(("chebyshev", "cityblock"), array),
}
"""The conversion of vectors for each distance, as in SciPy; floats for all others."""


# -- distances of two vectors ----------------------------------------------------------------------


def _check_weights(weights: Any) -> None:
    if weights is None:
        return
    if np.ndim(weights) != 1:
        raise ValueError("Input vector should be 1-D.")
    if known(np.any(inexact(weights) < 0)):
        raise ValueError("Input weights should be all non-negative")


def _of_vectors(name: str, doc: str) -> Callable[..., Any]:
    def distance(u: Any, v: Any, *rest: Any, **options: Any) -> Any:
        convert = _CONVERTED.get(name, inexact)
        one, other = convert(u), convert(v)
        if one.ndim != 1 or other.ndim != 1:
            raise ValueError("Input vector should be 1-D.")
        _check_weights(options.get("w"))
        return _METRICS[name](one, other, *rest, **options)

    distance.__doc__ = doc
    return answers(f"scipy.spatial.distance:{name}")(distance)


braycurtis = _of_vectors("braycurtis", "The sum of differences over that of the sums.")
canberra = _of_vectors("canberra", "The sum of the differences, each over the sizes of its two.")
chebyshev = _of_vectors("chebyshev", "The largest difference.")
cityblock = _of_vectors("cityblock", "The sum of the differences.")
correlation = _of_vectors("correlation", "1 less the correlation.")
cosine = _of_vectors("cosine", "1 less the cosine of the angle in between.")
euclidean = _of_vectors("euclidean", "The length of the difference; its derivative is 0 at 0.")
mahalanobis = _of_vectors("mahalanobis", "The length of the difference, measured by a matrix.")
minkowski = _of_vectors("minkowski", "The p-norm of the difference.")
seuclidean = _of_vectors("seuclidean", "The length of the difference over standard deviations.")
sqeuclidean = _of_vectors("sqeuclidean", "The squared length of the difference.")


# -- distances of all pairs ------------------------------------------------------------------------


def _metric(metric: Any, options: dict[str, Any], points: list[Any]) -> Callable[..., Any]:
    if callable(metric):
        name = getattr(metric, "__name__", "")
        if getattr(metric, "__module__", None) not in (__name__, "scipy.spatial.distance"):
            refuse(f"a function as the metric ({name})", "apply it by functrans.vmap")
        metric = name
    name = _NAMES.get(metric.lower(), metric.lower())
    if name not in _METRICS:
        refuse(f"the metric {metric!r}", f"one of {', '.join(sorted(_METRICS))}")
    _check_weights(options.get("w"))
    if name == "seuclidean" and options.get("V") is None:
        options["V"] = var(concatenate(points), axis=0, ddof=1)
    if name == "mahalanobis" and options.get("VI") is None:
        rows = concatenate(points)
        if rows.shape[0] <= rows.shape[1]:
            raise ValueError(
                f"the covariance of {rows.shape[0]} points of {rows.shape[1]} coordinates is "
                f"singular{here()}: pass more points than coordinates, or the "
                "inverse covariance as VI"
            )
        options["VI"] = inv(cov(rows.T).reshape(2 * rows.shape[1:])).T
    return _METRICS[name]


def _points(x: Any, name: str) -> Any:
    points = array(x)
    if points.ndim != 2:
        raise ValueError(f"{name} must be a 2-dimensional array.")
    if is_complex(points.dtype):
        raise ValueError(f"Unsupported dtype {points.dtype}")
    return astype(points, np.float64)


@answers("scipy.spatial.distance:cdist")
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distances between all points of two sets; points are rows.

    Parameters
    ----------
    XA, XB : array, shapes (m, d) and (n, d)
    metric : str
        The name of one of the functions of this module.
    **kwargs
        The parameters of the metric: ``p``, ``w``, ``V``, ``VI``.

    Returns
    -------
    array, shape (m, n)
        In double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.spatial import distance
    >>> x = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> grad(lambda x: distance.cdist(x, x).sum())(x)
    array([[-1.2, -1.6],
           [ 1.2,  1.6]])
    """
    if out is not None:
        refuse("out=", "use what is returned")
    one, other = _points(XA, "XA"), _points(XB, "XB")
    if one.shape[1] != other.shape[1]:
        raise ValueError("XA and XB must have the same number of columns")
    measured = _metric(metric, kwargs, [one, other])
    return measured(one[:, None, :], other[None, :, :], **kwargs)


@answers("scipy.spatial.distance:pdist")
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The pairwise distances within a set of points, as a vector; see `cdist`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy.spatial import distance
    >>> jit(distance.pdist)(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).round(6)
    array([5.      , 1.      , 4.242641])
    """
    if out is not None:
        refuse("out=", "use what is returned")
    points = _points(X, "X")
    first, second = np.triu_indices(points.shape[0], 1)
    return _metric(metric, kwargs, [points])(points[first], points[second], **kwargs)


@answers("scipy.spatial.distance:squareform")
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """The symmetric matrix of a vector of distances, or the vector of such a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy.spatial import distance
    >>> jit(distance.squareform)(np.array([1.0, 2.0, 3.0]))
    array([[0., 1., 2.],
           [1., 0., 3.],
           [2., 3., 0.]])
    """
    x = array(X)
    if force.lower() == {1: "tovector", 2: "tomatrix"}.get(x.ndim):
        raise ValueError(f"Forcing {force!r} but input X is not a matrix or vector of distances.")
    if x.ndim == 2:
        if x.shape[0] != x.shape[1]:
            raise ValueError("The matrix argument must be square.")
        valid = np.all(x == x.T) & np.all(np.diag(x) == 0)
        if checks and known(valid) == np.False_:
            raise ValueError("Distance matrix 'X' must be symmetric, with a diagonal of zeros.")
        return x[np.triu_indices(x.shape[0], 1)]
    if x.ndim != 1:
        raise ValueError(f"The first argument must be one or two dimensional array, not {x.ndim}")
    size = (1 + isqrt(1 + 8 * x.size)) // 2 if x.size else 1
    if size * (size - 1) != 2 * x.size:
        raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2.")
    places = np.zeros((size, size), np.int64)
    places[np.triu_indices(size, 1)] = 1 + np.arange(x.size)
    return concatenate([np.zeros(1, x.dtype), x])[places + places.T]
