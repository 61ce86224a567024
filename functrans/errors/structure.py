"""Exceptions about sparse derivatives, and about derivatives of solutions."""

from functrans.errors.base import FunctransError


class DensePatternError(FunctransError, ValueError):
    """A derivative was to be sparse, but nearly every result depends on every input.

    Fails::

        jacobian(lambda x: x / np.sum(x), sparse=True)(np.ones(1_000_000))

    Fix::

        f = lambda x: x / np.sum(x)
        jvp(f, (x,), (np.cos(x),))      # a Jacobian-vector product, without the matrix
    """


class NotConvergedError(FunctransError, RuntimeError):
    """A solver reports that it found no solution, so there is none to differentiate.

    Fails::

        find = lambda x, a: scipy.optimize.root(lambda x: x**2 + a, x)     # no root if a > 0
        implicit(find, equation=lambda x, a: x**2 + a)(np.ones(1), 1.0)

    Fix::

        find = lambda x, a: scipy.optimize.root(lambda x: x**2 + a, x)
        implicit(find, equation=lambda x, a: x**2 + a)(np.ones(1), -1.0)
    """


class StepLimitError(FunctransError, RuntimeError):
    """A loop needed more steps than its ``max_steps``.

    Fails::

        lax.while_loop(lambda x: x > 1.0, lambda x: x / 2, 1e9, max_steps=10)

    Fix::

        lax.while_loop(lambda x: x > 1.0, lambda x: x / 2, 1e9, max_steps=40)
    """
