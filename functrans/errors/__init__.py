"""Every exception that `functrans` raises on purpose.

Each class derives from `FunctransError`, so that one ``except`` can catch them all, and from the
builtin exception that Python or NumPy would have raised in its place, so that code which does not
know of `functrans` catches it too. Each docstring holds code that fails and code that does not.
"""

from functrans.errors.advice import RecompilationWarning as RecompilationWarning
from functrans.errors.advice import UnseenStateWarning as UnseenStateWarning
from functrans.errors.base import FunctransError
from functrans.errors.devices import DeviceError, DeviceMemoryError
from functrans.errors.structure import DensePatternError, NotConvergedError

__all__ = [
    "ArgnumsError",
    "AxesError",
    "AxisSizeError",
    "BranchError",
    "CarryError",
    "CustomRuleError",
    "DensePatternError",
    "DeviceError",
    "DeviceMemoryError",
    "DtypeError",
    "FunctransError",
    "GradientCheckError",
    "GraphTypeError",
    "IntegerInputError",
    "LeakedTracerError",
    "MutationError",
    "NonFiniteError",
    "NonScalarOutputError",
    "NotConvergedError",
    "NotDifferentiableError",
    "PathLimitError",
    "PlanError",
    "RegistrationError",
    "SavedProgramError",
    "ShapeError",
    "StaticArgumentError",
    "StepLimitError",
    "TracerBoolError",
    "TracerConversionError",
    "TracerIndexError",
    "TreeMismatchError",
    "UnsupportedAttributeError",
    "UnsupportedNumPyError",
]


# ---- values that a trace does not have ----------------------------------------------------------


class TracerConversionError(FunctransError, TypeError):
    """A traced value was asked to become a plain number or array, which would lose its derivative.

    Raised by ``float(x)``, ``x.tolist()``, ``math.sin(x)``, by libraries that ask for an ndarray,
    and by storing a traced value into an array that the function has not made: each would go on
    with a number that nothing depends on, and the gradient would be silently wrong.

    Fails::

        grad(lambda x: math.sin(x))(1.0)

    Fix::

        grad(lambda x: np.sin(x))(1.0)
        grad(lambda x: x * stop_gradient(x))(1.0)       # where losing it is meant
    """


class TracerBoolError(FunctransError, TypeError):
    """Python asked whether a traced value is true, and there is no one answer.

    Under `vmap` a value stands for every element of the batch, and in the body of a `lax` loop for
    every step, so ``if``, ``while``, ``and``, ``or`` and ``not`` cannot pick a side. (Under `jit`
    they can: each way through the function is compiled when a call first goes it.)

    Fails::

        vmap(lambda x: x if x > 0 else -x)(xs)

    Fix::

        vmap(lambda x: np.where(x > 0, x, -x))(xs)
        vmap(lambda x: lax.cond(x > 0, lambda x: x, lambda x: -x, x))(xs)
    """


# Not an IndexError, though it is about an index: Python takes an IndexError out of
# ``__getitem__`` for the end of a sequence, and a loop would stop short without a word.
class TracerIndexError(FunctransError, TypeError):
    """A traced integer was used where Python needs to know the number.

    A shape, an axis, ``range(n)`` and the index of a list decide what the program *is*, so they
    must be known when it is traced.

    Fails::

        jit(lambda x, n: sum(x[i] for i in range(n)))(x, 3)

    Fix::

        jit(lambda x, n: sum(x[i] for i in range(n)), static_argnums=1)(x, 3)
        jit(lambda x, n: lax.fori_loop(0, n, lambda i, s: s + x[i], 0.0))(x, 3)
    """


class LeakedTracerError(FunctransError, RuntimeError):
    """A traced value was used after the trace that made it had ended.

    Fails::

        seen = []
        grad(lambda x: seen.append(x) or x * x)(2.0)
        seen[0] + 1

    Fix::

        value, aux = grad(lambda x: (x * x, x), has_aux=True)(2.0)   # return it instead
    """


class MutationError(FunctransError, ValueError):
    """An in-place assignment that cannot mean what it says.

    A function that is transformed may change the arrays it made, but not its arguments: the
    caller's array would stay as it was. Nor may it write through what is a view in NumPy for some
    memory layouts and a copy for others.

    Fails::

        def f(x):
            x[0] = 0.0
            return x.sum()

    Fix::

        def f(x):
            y = x.copy()
            y[0] = 0.0
            return y.sum()
    """


# ---- NumPy ---------------------------------------------------------------------------------------


class UnsupportedNumPyError(FunctransError, NotImplementedError):
    """A NumPy function, or one of its keywords, has no traced form.

    Fails::

        grad(lambda x: np.busday_count(x, x + 1).sum())(x)

    Fix::

        grad(lambda x: (x + 1 - x).sum())(x)     # compute with numbers
    """


# An AttributeError too, or else ``hasattr`` and ``getattr(x, name, default)`` would raise.
class UnsupportedAttributeError(UnsupportedNumPyError, AttributeError):
    """An attribute or method of ndarray that a traced value does not have.

    Fails::

        grad(lambda x: x.ctypes.data * x)(1.0)

    Fix::

        grad(lambda x: x * x)(1.0)      # what works on memory has no place in a derivative
    """


class ShapeError(FunctransError, ValueError):
    """The shapes of the operands do not fit.

    Fails::

        grad(lambda x: (x + np.ones(2)).sum())(np.ones(3))

    Fix::

        grad(lambda x: (x[:, None] + np.ones(2)).sum())(np.ones(3))
    """


class DtypeError(FunctransError, TypeError):
    """An operation is not defined for the dtype of its operand.

    Fails::

        jit(lambda x: x ^ 1)(1.0)

    Fix::

        jit(lambda x: x ^ 1)(1)
    """


# ---- what can be differentiated, and by what -----------------------------------------------------


class NotDifferentiableError(FunctransError, TypeError):
    """A derivative was asked of an operation that declares that it has none.

    Fails::

        exp = custom_vjp(np.exp)
        exp.defvjp(lambda x: (np.exp(x), np.exp(x)), lambda saved, ct: (ct * saved,))
        jvp(exp, (1.0,), (1.0,))        # the rule is for reverse mode

    Fix::

        exp = custom_jvp(np.exp)
        exp.defjvps(lambda dx, result, x: dx * result)
        jvp(exp, (1.0,), (1.0,))
        grad(lambda x: x * stop_gradient(exp(x)))(1.0)      # or take it to be constant
    """


class NonScalarOutputError(FunctransError, TypeError):
    """`grad` was given a function whose result is not one number.

    Fails::

        grad(lambda x: x ** 2)(np.ones(3))

    Fix::

        grad(lambda x: (x ** 2).sum())(np.ones(3))      # the gradient of one number
        jacrev(lambda x: x ** 2)(np.ones(3))            # the derivative of each
    """


class IntegerInputError(DtypeError):
    """A derivative was asked with respect to an integer or a bool.

    Fails::

        grad(lambda x: x * 2.0)(3)

    Fix::

        grad(lambda x: x * 2.0)(3.0)
        grad(lambda n, x: x ** n, argnums=1)(3, 2.0)    # integers may be the other arguments
    """


class ArgnumsError(FunctransError, ValueError):
    """`argnums`, or an option of `jit`, names an argument that is not there, or one twice.

    Fails::

        grad(lambda x, y: x * y, argnums=2)(1.0, 2.0)

    Fix::

        grad(lambda x, y: x * y, argnums=1)(1.0, 2.0)
    """


# ---- vmap and jit --------------------------------------------------------------------------------


class AxesError(FunctransError, ValueError):
    """`in_axes`, `out_axes` or a named axis does not fit what it describes.

    Fails::

        vmap(np.dot, in_axes=(0, 2))(np.ones((5, 3)), np.ones((3, 5)))

    Fix::

        vmap(np.dot, in_axes=(0, 1))(np.ones((5, 3)), np.ones((3, 5)))
        vmap(np.dot, in_axes=(0, None))(np.ones((5, 3)), np.ones(3))    # None: not mapped
    """


class AxisSizeError(ShapeError):
    """The arguments of `vmap` have different sizes along the axes that are mapped.

    Fails::

        vmap(np.add)(np.ones(3), np.ones(4))

    Fix::

        vmap(np.add)(np.ones(3), np.ones(3))
        vmap(np.add, in_axes=(0, None))(np.ones(3), np.ones(4))
    """


class StaticArgumentError(FunctransError, TypeError):
    """A static value cannot be hashed, so nothing compiled for it could be found again.

    Fails::

        jit(f, static_argnames="sizes")(x, sizes=[3, 4])

    Fix::

        jit(f, static_argnames="sizes")(x, sizes=(3, 4))
    """


class PathLimitError(FunctransError, RuntimeError):
    """A compiled function met too many different paths through its Python branches.

    Fails::

        @jit
        def halve(x):
            while x > 1.0:      # one path for each number of steps
                x = x / 2
            return x

    Fix::

        @jit
        def halve(x):
            return lax.while_loop(lambda x: x > 1.0, lambda x: x / 2, x)
    """


class NonFiniteError(FunctransError, FloatingPointError):
    """A result has a NaN (or an infinity) that the arguments have not, and somebody looks for it.

    The message has the line of the user's where it began, the element, the operands there, and the
    step of a loop. `functrans.debug.nans` and ``functrans.config.check_values`` switch this on.

    Fails::

        with debug.nans():
            grad(lambda x: np.sqrt(x - x))(1.0)     # 0 * inf, in the derivative of sqrt

    Fix::

        grad(lambda x: np.sqrt(np.maximum(x - x, 1e-30)))(1.0)
    """


# ---- pytrees and rules written by users ----------------------------------------------------------


class TreeMismatchError(FunctransError, ValueError):
    """Two pytrees that must have the same structure do not; the message has the first difference.

    Fails::

        tree.map(np.add, {"w": 1.0, "b": [2.0]}, {"w": 1.0, "b": (2.0,)})

    Fix::

        tree.map(np.add, {"w": 1.0, "b": [2.0]}, {"w": 1.0, "b": [2.0]})
    """


class RegistrationError(FunctransError, TypeError):
    """A class cannot be registered as a pytree, or a name as a primitive, the way it was asked.

    Fails::

        tree.register_dataclass(int)

    Fix::

        @tree.register_dataclass
        @dataclass
        class Layer:
            weight: np.ndarray
    """


class CustomRuleError(FunctransError, TypeError):
    """A rule given to `custom_jvp` or `custom_vjp` returned the wrong count, shape or pytree.

    Fails::

        @custom_vjp
        def f(x, y): return x * y
        f.defvjp(lambda x, y: (x * y, (x, y)), lambda saved, ct: ct * saved[1])

    Fix::

        f.defvjp(
            lambda x, y: (x * y, (x, y)),
            lambda saved, ct: (ct * saved[1], ct * saved[0]),   # one cotangent for each argument
        )
    """


# ---- control flow --------------------------------------------------------------------------------


class CarryError(FunctransError, TypeError):
    """The body of a loop returned a carry of another type than it was given.

    Fails::

        lax.fori_loop(0, 3, lambda i, x: x * 0.5, np.arange(4))     # int64 in, float64 out

    Fix::

        lax.fori_loop(0, 3, lambda i, x: x * 0.5, np.arange(4.0))
    """


class BranchError(FunctransError, TypeError):
    """The branches of a condition return different types, shapes or pytrees.

    Fails::

        lax.cond(p, lambda x: x, lambda x: (x, x), 1.0)

    Fix::

        lax.cond(p, lambda x: (x, 0.0), lambda x: (x, x), 1.0)
    """


class SavedProgramError(FunctransError, ValueError):
    """A program cannot be saved as data, or a file is none that `save` wrote.

    Fails::

        save(callback(np.sort, out_types=lambda x: x), "sorted.functrans", x)     # Python sorts

    Fix::

        save(np.sort, "sorted.functrans", x)
    """


class StepLimitError(FunctransError, RuntimeError):
    """A loop ran for more than the ``max_steps`` that it was given.

    Fails::

        lax.while_loop(lambda x: x > 1.0, lambda x: x / 2, 1e9, max_steps=10)

    Fix::

        lax.while_loop(lambda x: x > 1.0, lambda x: x / 2, 1e9, max_steps=40)
    """


# ---- checks --------------------------------------------------------------------------------------


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


def __dir__() -> list[str]:
    return sorted(__all__)
