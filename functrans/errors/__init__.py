"""Every exception that `functrans` raises on purpose.

Each class derives from `FunctransError`, so that one ``except`` can catch them all, and from the
builtin exception that Python or NumPy would have raised in its place, so that code which does not
know of `functrans` catches it too. Each docstring holds code that fails and code that does not.
"""

from functrans.errors.advice import RecompilationWarning as RecompilationWarning
from functrans.errors.advice import SwallowedErrorWarning as SwallowedErrorWarning
from functrans.errors.advice import UnseenStateWarning as UnseenStateWarning
from functrans.errors.base import FunctransError
from functrans.errors.devices import DeviceError, DeviceMemoryError
from functrans.errors.structure import DensePatternError, NotConvergedError, StepLimitError

__all__ = [
    "ArgnumsError", "AxesError", "AxisSizeError", "BranchError", "CarryError", "CustomRuleError",
    "DensePatternError", "DeviceError", "DeviceMemoryError", "DtypeError", "FunctransError",
    "GradientCheckError", "GraphTypeError", "IntegerInputError", "LeakedTracerError",
    "MutationError", "NonFiniteError", "NonScalarOutputError", "NotConvergedError",
    "NotDifferentiableError", "PathLimitError", "PlanError", "RegistrationError",
    "SavedProgramError", "ShapeError", "StaticArgumentError", "StepLimitError", "TracerBoolError",
    "TracerConversionError", "TracerIndexError", "TreeMismatchError", "UnsupportedAttributeError",
    "UnsupportedNumPyError",
]  # fmt: skip


# ---- values that a trace does not have ----------------------------------------------------------


class TracerConversionError(FunctransError, TypeError):
    """A traced value cannot become a plain number or array, since its derivative would be lost.

    Raised by ``float(x)`` and ``x.tolist()``, by compiled code of packages that takes plain arrays
    only, and by storing a traced value in an array that the function did not create. Each of them
    would continue with a constant, and the gradient would be silently wrong.

    Fails::

        grad(lambda x: float(x) ** 2)(1.0)

    Fix::

        grad(lambda x: x**2)(1.0)
        grad(lambda x: x * stop_gradient(x))(1.0)       # where losing it is meant
    """


class TracerBoolError(FunctransError, TypeError):
    """Python needs the truth of a traced value that stands for several values.

    Under `vmap` a value stands for every element of the batch, and in the body of a `lax` loop for
    every step, so ``if``, ``while``, ``and``, ``or`` and ``not`` cannot pick a branch. (Under `jit`
    they can: each path through the function is compiled when a call first takes it.)

    Fails::

        vmap(lambda x: x if x > 0 else -x)(xs)

    Fix::

        vmap(lambda x: np.where(x > 0, x, -x))(xs)
        vmap(lambda x: lax.cond(x > 0, lambda x: x, lambda x: -x, x))(xs)
    """


# Not an IndexError, though it is about an index: Python takes an IndexError out of
# ``__getitem__`` for the end of a sequence, and a loop would stop short without a word.
class TracerIndexError(FunctransError, TypeError):
    """A traced integer was used where Python needs its value.

    A shape, an axis, ``range(n)`` and the index into a list determine the program itself, so they
    must be known when it is traced.

    Fails::

        jit(lambda x, n: sum(x[i] for i in range(n)))(x, 3)

    Fix::

        jit(lambda x, n: sum(x[i] for i in range(n)), static_argnums=1)(x, 3)
        jit(lambda x, n: lax.fori_loop(0, n, lambda i, s: s + x[i], 0.0))(x, 3)
    """


class LeakedTracerError(FunctransError, RuntimeError):
    """A traced value was used after its trace had ended.

    Fails::

        seen = []
        grad(lambda x: seen.append(x) or x * x)(2.0)
        seen[0] + 1

    Fix::

        value, aux = grad(lambda x: (x * x, x), has_aux=True)(2.0)   # return it instead
    """


class MutationError(FunctransError, ValueError):
    """An in-place assignment would not have the effect that it has in NumPy.

    A function that is transformed may change the arrays that it created, but not its arguments:
    the caller's array would remain unchanged. Nor may it write to an array that NumPy makes a view
    for some memory layouts and a copy for others.

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
    """The shapes of the operands are not compatible.

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
    """An operation without a derivative, or without one for this mode, was differentiated.

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
    """The function passed to `grad` does not return a scalar.

    Fails::

        grad(lambda x: x ** 2)(np.ones(3))

    Fix::

        grad(lambda x: (x ** 2).sum())(np.ones(3))      # the gradient of a scalar
        jacrev(lambda x: x ** 2)(np.ones(3))            # the derivative of each element
    """


class IntegerInputError(DtypeError):
    """Derivatives exist with respect to floats only, not with respect to integers or bools.

    Fails::

        grad(lambda x: x * 2.0)(3)

    Fix::

        grad(lambda x: x * 2.0)(3.0)
        grad(lambda n, x: x ** n, argnums=1)(3, 2.0)    # integers may be the other arguments
    """


class ArgnumsError(FunctransError, ValueError):
    """`argnums`, or an option of `jit`, names a missing argument, or the same one twice.

    Fails::

        grad(lambda x, y: x * y, argnums=2)(1.0, 2.0)

    Fix::

        grad(lambda x, y: x * y, argnums=1)(1.0, 2.0)
    """


# ---- vmap and jit --------------------------------------------------------------------------------


class AxesError(FunctransError, ValueError):
    """`in_axes`, `out_axes` or a named axis does not match the arguments or results.

    Fails::

        vmap(np.dot, in_axes=(0, 2))(np.ones((5, 3)), np.ones((3, 5)))

    Fix::

        vmap(np.dot, in_axes=(0, 1))(np.ones((5, 3)), np.ones((3, 5)))
        vmap(np.dot, in_axes=(0, None))(np.ones((5, 3)), np.ones(3))    # None: not mapped
    """


class AxisSizeError(ShapeError):
    """The arguments of `vmap` have different sizes along the mapped axes.

    Fails::

        vmap(np.add)(np.ones(3), np.ones(4))

    Fix::

        vmap(np.add)(np.ones(3), np.ones(3))
        vmap(np.add, in_axes=(0, None))(np.ones(3), np.ones(4))
    """


class StaticArgumentError(FunctransError, TypeError):
    """A static argument cannot be hashed, so its compiled program could not be looked up.

    Fails::

        jit(f, static_argnames="sizes")(x, sizes=[3, 4])

    Fix::

        jit(f, static_argnames="sizes")(x, sizes=(3, 4))
    """


class PathLimitError(FunctransError, RuntimeError):
    """A compiled function took too many different paths through its Python branches.

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
    """A result has a NaN (or an infinity) that is in no argument, while checks for them are on.

    The message names the line of your code where it arose, the element, the operands and the loop
    step. `functrans.debug.nans` and ``functrans.config.check_values`` switch the checks on.

    Fails::

        with debug.nans():
            grad(lambda x: np.sqrt(x - x))(1.0)     # 0 * inf, in the derivative of sqrt

    Fix::

        grad(lambda x: np.sqrt(np.maximum(x - x, 1e-30)))(1.0)
    """


# ---- pytrees and rules written by users ----------------------------------------------------------


class TreeMismatchError(FunctransError, ValueError):
    """Two pytrees differ in structure but must not; the message shows the first difference.

    Fails::

        tree.map(np.add, {"w": 1.0, "b": [2.0]}, {"w": 1.0, "b": (2.0,)})

    Fix::

        tree.map(np.add, {"w": 1.0, "b": [2.0]}, {"w": 1.0, "b": [2.0]})
    """


class RegistrationError(FunctransError, TypeError):
    """A class cannot be registered as a pytree, or a name cannot be registered as a primitive.

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
    """The body of a loop returned a carry of another type than it received.

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
    """A program cannot be saved as data, or a file was not written by `save`.

    Fails::

        save(callback(np.sort, out_types=lambda x: x), "sorted.functrans", x)     # Python sorts

    Fix::

        save(np.sort, "sorted.functrans", x)
    """


# ---- checks --------------------------------------------------------------------------------------


class GraphTypeError(FunctransError, TypeError):
    """A graph is not well typed: a bug in `functrans`, or in a primitive that you defined.

    Fails::

        given = {"jvp": ZERO_DERIVATIVE, "samples": reals(0, 2)}
        check_primitive(elementwise("large", numpy=lambda x: x > 1, **given))

    Fix::

        given = {"jvp": ZERO_DERIVATIVE, "samples": reals(0, 2), "result": "bool"}
        check_primitive(elementwise("small", numpy=lambda x: x < 1, **given))
    """


class PlanError(FunctransError, AssertionError):
    """A compiled program would read or write where it must not: a bug, as with `GraphTypeError`.

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
    """`check_grads` found a derivative that disagrees with finite differences.

    Fails::

        f.defjvp(lambda primals, tangents: (np.sin(primals[0]), tangents[0]))
        check_grads(f, (1.0,))

    Fix::

        f.defjvp(lambda primals, tangents: (np.sin(primals[0]), np.cos(primals[0]) * tangents[0]))
    """


def __dir__() -> list[str]:
    return sorted(__all__)
