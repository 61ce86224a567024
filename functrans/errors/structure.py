"""Exceptions about the structure of derivatives."""

from functrans.errors.base import FunctransError


class DensePatternError(FunctransError, ValueError):
    """A sparse derivative was asked for, but nearly every result depends on every input.

    Fails::

        jacobian(lambda x: x / np.sum(x), sparse=True)(np.ones(1_000_000))

    Fix::

        f = lambda x: x / np.sum(x)
        jvp(f, (x,), (np.cos(x),))      # a product with the derivative, without the matrix
    """
