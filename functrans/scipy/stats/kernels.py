"""Kernel density estimation with Gaussian kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.numpy.arrays import inexact
from functrans.numpy.special import logsumexp
from functrans.ops.elementwise.special.errors import ndtr
from functrans.scipy.define import double
from functrans.scipy.entries import enter_class

_scipys = lazy("scipy.stats:gaussian_kde")


class gaussian_kde:
    """A kernel density estimate of a sample, as `scipy.stats.gaussian_kde`.

    It is differentiable in the evaluation points, the sample, the weights and the bandwidth.

    Parameters
    ----------
    dataset : array of shape (n,) or (d, n)
    bw_method : {"scott", "silverman"}, float or callable, optional
        The bandwidth: the factor of the square root of the sample covariance.
    weights : array of shape (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.stats import gaussian_kde
    >>> density = gaussian_kde(np.array([-1.0, 1.0]))
    >>> abs(grad(lambda x: density(x)[0])(0.0))
    np.float64(0.0)
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self.dataset = np.atleast_2d(double(dataset))
        self.d, self.n = self.dataset.shape
        if self.dataset.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        shares = np.ones(self.n) if weights is None else double(weights)
        if shares.shape != (self.n,):
            raise ValueError("`weights` input should be of length n")
        self.weights = shares / np.sum(shares)
        self.neff = 1 / np.sum(self.weights**2)
        self.factor = self._bandwidth(bw_method)
        self.covariance = self._spread() * self.factor**2
        self.cho_cov = np.linalg.cholesky(self.covariance)

    def __getattr__(self, name: str) -> Any:
        """Other methods (``resample``) are SciPy's, and need a plain sample."""
        if name.startswith("_") or "factor" not in vars(self):
            raise AttributeError(name)
        return getattr(_scipys(self.dataset, self.factor, self.weights), name)

    def _bandwidth(self, method: Any) -> Any:
        if method is None or method == "scott":
            return self.neff ** (-1 / (self.d + 4))
        if method == "silverman":
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        return method(self) if callable(method) else method

    def _spread(self) -> Any:
        """The weighted covariance of the sample."""
        off = self.dataset - np.sum(self.weights * self.dataset, axis=1, keepdims=True)
        return (self.weights * off) @ off.T / (1 - np.sum(self.weights**2))

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at m points, of shape (m,) or (d, m)."""
        places = np.atleast_2d(inexact(x))
        if places.shape[0] != self.d:
            if places.shape != (1, self.d):
                raise ValueError(f"points have dimension {places.shape[0]}, dataset has {self.d}")
            places = places.T
        off = places[:, :, None] - self.dataset[:, None, :]
        white = np.linalg.solve(self.cho_cov, off.reshape(self.d, -1)).reshape(off.shape)
        size = np.sum(np.log(np.diag(self.cho_cov))) + self.d / 2 * math.log(2 * math.pi)
        exponents = -np.sum(white * white, axis=0) / 2
        return logsumexp(exponents, axis=1, b=self.weights) - size

    def evaluate(self, points: Any) -> Any:
        """The density at m points, of shape (m,) or (d, m)."""
        return np.exp(self.logpdf(points))

    __call__ = evaluate
    pdf = evaluate

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of the interval between two numbers."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        scale = np.sqrt(self.covariance[0, 0])
        below = [ndtr((inexact(end) - self.dataset[0]) / scale) for end in (low, high)]
        return np.sum(self.weights * (below[1] - below[0]))


def _like(scipys: Any) -> gaussian_kde:
    return gaussian_kde(scipys.dataset, scipys.factor, scipys.weights)


enter_class(
    "scipy.stats:gaussian_kde", gaussian_kde,
    "__call__ evaluate integrate_box_1d logpdf pdf", _like,
)  # fmt: skip
