"""Exceptions about the structure of derivatives, and about solutions that have one."""

from functrans.errors.base import FunctransError


class DensePatternError(FunctransError, ValueError):
    """A sparse derivative was asked for, but nearly every result depends on every input.

    Fails::

        jacobian(lambda x: x / np.sum(x), sparse=True)(np.ones(1_000_000))

    Fix::

        f = lambda x: x / np.sum(x)
        jvp(f, (x,), (np.cos(x),))      # a product with the derivative, without the matrix
    """


class NotConvergedError(FunctransError, RuntimeError):
    """A solver says that it has not found a solution, whose derivative was to be taken.

    Fails::

        find = lambda x, a: scipy.optimize.root(lambda x: x**2 + a, x)     # no root if a > 0
        implicit(find, equation=lambda x, a: x**2 + a)(np.ones(1), 1.0)

    Fix::

        find = lambda x, a: scipy.optimize.root(lambda x: x**2 + a, x)
        implicit(find, equation=lambda x, a: x**2 + a)(np.ones(1), -1.0)
    """
