"""Exceptions that checks raise: of graphs and plans, and of derivatives."""

from functrans.errors.base import FunctransError


class GraphTypeError(FunctransError, TypeError):
    """A graph is not well typed: a defect in `functrans`, or in a primitive of the user's.

    Fails::

        given = {"jvp": ZERO_DERIVATIVE, "samples": reals(0, 2)}
        check_primitive(elementwise("large", numpy=lambda x: x > 1, **given))

    Fix::

        given = {"jvp": ZERO_DERIVATIVE, "samples": reals(0, 2), "result": "bool"}
        check_primitive(elementwise("small", numpy=lambda x: x < 1, **given))
    """


class PlanError(FunctransError, AssertionError):
    """A compiled program would read or write where it must not: a defect, as a `GraphTypeError` is.

    Raised while compiling, if ``functrans.config.check_plans`` is set.

    Fails::

        slots = {"infer": lambda x: x, "numpy": lambda x: np.append(x[1:], x[-1])}
        jit(primitive("ahead", pull=lambda read, i, x: read(0, (i[0] + 1,)), **slots))(x)

    Fix::

        slots = {"infer": lambda x: x, "numpy": lambda x: np.append(x[1:], x[-1])}
        ahead = lambda read, i, x: read(0, (scalar.minimum(i[0] + 1, x.shape[0] - 1),))
        jit(primitive("ahead", pull=ahead, **slots))(x)
    """


class GradientCheckError(FunctransError, AssertionError):
    """`check_grads` found a derivative that finite differences do not confirm.

    Fails::

        f.defjvp(lambda primals, tangents: (np.sin(primals[0]), tangents[0]))
        check_grads(f, (1.0,))

    Fix::

        f.defjvp(lambda primals, tangents: (np.sin(primals[0]), np.cos(primals[0]) * tangents[0]))
    """
