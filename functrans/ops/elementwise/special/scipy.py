"""Definition of SciPy's functions as primitives, or as expressions in primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import truediv
from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.primitive import NotDifferentiable, Piecewise, Primitive, not_differentiable
from functrans.ir.types import is_complex, real_dtype
from functrans.lazily import Lazy, lazy
from functrans.ops.arrays.promotion import DtypeKey, Promotion, floating, loop_of, promote
from functrans.ops.arrays.structural import astype
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import OperandRule, Rule
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal, less
from functrans.ops.elementwise.pointwise import elementwise, promotion_of, unwrapped
from functrans.ops.samples import Domain
from functrans.trace import protocols
from functrans.trace.source import here

NO_CLOSED_FORM = not_differentiable(
    "the derivative in this parameter has no closed form; hold it fixed, or differentiate by "
    "custom_jvp with a difference quotient"
)

Slope = Rule | NotDifferentiable
"""The derivative in an operand: a function of the operands, and of the value if one of its
parameters is ``out``."""

Derivative = Slope | Sequence[OperandRule] | Piecewise
"""A slope, or the jvp rule for all operands."""


def real(name: str, derivative_of: str | None = None) -> Promotion:
    """Operands in their common floating-point dtype; complex numbers are refused."""
    origin = f", the derivative of {derivative_of}," if derivative_of else ""

    def promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
        dtypes = floating(keys)
        if is_complex(dtypes[0]):
            raise DtypeError(f"{name}{origin} is not defined for {dtypes[0]}")
        return dtypes

    return promotion


def of_reals(name: str) -> Promotion:
    """Real operands in the dtype of the results of SciPy's ufunc, or of their real parts.

    An order may be an integer there, as in ``eval_chebyt(2, x)``: with it, SciPy computes in
    float64. Complex operands are refused.
    """
    ufunc = lazy(f"scipy.special:{name}")
    operands, loop = promotion_of(ufunc), loop_of(lambda: unwrapped(ufunc))

    def promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
        for key in keys:
            if is_complex(np.dtype(key)):
                raise DtypeError(
                    f"scipy.special.{name}{here()} of a traced {np.dtype(key)}: "
                    "it is known here for real numbers"
                )
        taken = operands(keys)
        if set(taken) <= {np.dtype(np.float32)} or set(taken) <= {np.dtype(np.float64)}:
            return taken
        return (real_dtype(loop(keys)[-1]),) * len(keys)

    return promotion


def computed(
    name: str, numpy: Rule, samples: Domain | Sequence[Domain], *slopes: Derivative,
    promotion: Promotion | None = None, scalar: Rule | None = None,
    params: Sequence[dict[str, Any]] = ({},), steep: bool = True, emit: Emit | None = None,
) -> Primitive:  # fmt: skip
    """A function of real numbers that SciPy or a series evaluates, with its slopes or jvp rule.

    Most of them have a pole, or an end of their domain, where the slope is infinite. What has no
    compiled form is computed in float64, also for float32: by SciPy, and here its slopes, whose
    factors overflow early.
    """
    whole = isinstance(slopes[0], (Sequence, Piecewise, NotDifferentiable)) and len(slopes) == 1
    jvp: Any = slopes[0] if whole else by_slopes(*slopes)
    hosted = scalar is None and emit is None
    if hosted and not isinstance(jvp, (NotDifferentiable, Piecewise)):
        jvp = [_in_double(rule, lambda: op) for rule in jvp]
    op = elementwise(
        name,
        numpy=numpy,
        samples=samples,
        jvp=jvp,
        promotion=promotion or real(name),
        scalar=scalar,
        params=params,
        steep=steep,
        brief=hosted,
        emit=emit,
    )
    return op


def special(
    name: str, samples: Domain | Sequence[Domain], *slopes: Derivative,
    promotion: Promotion | None = None, **slots: Any,
) -> Primitive:  # fmt: skip
    """A ufunc of `scipy.special`, of a given name, with the ufunc's own dtypes."""
    ufunc = lazy(f"scipy.special:{name}")
    promotion = promotion or promotion_of(ufunc)
    return computed(name, ufunc, samples, *slopes, promotion=promotion, **slots)


def by_slopes(*slopes: Any) -> list[OperandRule]:
    """The rules of a function, from its slope in each operand."""

    def rule(slope: Slope) -> OperandRule:
        if isinstance(slope, NotDifferentiable):
            return slope
        code = slope.__code__
        takes_value = "out" in code.co_varnames[: code.co_argcount]

        def derivative(*given: Any, **params: Any) -> Any:
            *operands, change = given if takes_value else (*given[:-2], given[-1])
            return change * slope(*operands, **params)

        return derivative

    return list(map(rule, slopes))


def _in_double(rule: OperandRule, function: Callable[[], Primitive]) -> OperandRule:
    """The rule of an operand, computed in float64 for float32, from the function's value there."""
    if rule is None or isinstance(rule, NotDifferentiable):
        return rule

    def derivative(*given: Any, **params: Any) -> Any:
        *operands, out, change = given
        if change.dtype != np.float32:
            return rule(*given, **params)
        *operands, change = (astype(x, np.float64) for x in (*operands, change))
        return astype(rule(*operands, function()(*operands, **params), change, **params), out.dtype)

    return derivative


def solved_for(
    place: int,  # the number of the operand
    *slopes: Slope,  # the slopes of the function in each operand
    quotient: Rule = truediv,  # divides the other derivatives by that in the operand
) -> list[OperandRule]:
    """The rules of the inverse of a function in one operand, which its value replaces."""
    steep: Any = slopes[place]

    def rule(number: int) -> OperandRule:
        slope = slopes[number]
        if isinstance(slope, NotDifferentiable):
            return slope

        def derivative(*given: Any) -> Any:
            *operands, solution, change = given
            operands[place] = solution
            if number == place:
                return change / steep(*operands)
            return change * quotient(-slope(*operands), steep(*operands))

        return derivative

    return list(map(rule, range(len(slopes))))


def negative(slope: Rule) -> Rule:
    """The derivative of a complement."""
    return lambda *operands: -slope(*operands)


def part(
    name: str, of: str, number: int, samples: Domain | Sequence[Domain], *slopes: Derivative
) -> Primitive:
    """One result of a ufunc of `scipy.special` that has several.

    It is computed in float64: in float32 some of them give NaN, or never end.
    """
    ufunc = lazy(f"scipy.special:{of}")

    def numpy(*operands: Any) -> Any:
        wide = (np.asarray(x, np.float64) for x in operands)
        return ufunc(*wide)[number].astype(np.result_type(*operands))[()]

    return computed(name, numpy, samples, *slopes)


def parts(of: str, *primitives: Primitive) -> None:
    """Register several primitives for a ufunc that has several results."""
    composed(of)(lambda *operands: tuple(op(*operands) for op in primitives))


def ordered(
    name: str,
    samples: Sequence[Domain],
    *slopes: Derivative,
    counts: Sequence[int] = (0,),  # which operands are orders
) -> Primitive:
    """A ufunc with orders among its operands, for which SciPy has special integer loops.

    Orders are cast to the dtype of the other operands, as in any equation.
    """
    ufunc = lazy(f"scipy.special:{name}")

    def numpy(*operands: Any) -> Any:
        return _with_integers(ufunc, operands, counts)

    op = computed(name, numpy, samples, *slopes)
    composed(name)(op)
    return op


def _with_integers(ufunc: Lazy, operands: Sequence[Any], counts: Sequence[int]) -> Any:
    """SciPy's function by its integer loops for each element whose orders are whole numbers."""
    orders = [np.asarray(operands[i]) for i in counts]
    whole: Any = True
    for order in orders:  # SciPy's integers wrap around beyond 32 bits
        whole = whole & (order == np.rint(order)) & (np.abs(order) < 2**31)
    converted = list(operands)
    for i, order in zip(counts, orders, strict=True):
        converted[i] = np.where(whole, order, 0).astype(np.int32)
    if np.all(whole):
        result = ufunc(*converted)
    else:
        result = ufunc(*operands)
        result = np.where(whole, ufunc(*converted), result) if np.any(whole) else result
    return np.asarray(result).astype(np.result_type(*operands))[()]


def composed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of primitives for a ufunc of `scipy.special`, in that ufunc's dtypes."""
    promotion = of_reals(name)

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        def entry(*operands: Any) -> Any:
            return function(*promote(promotion, operands))

        protocols.ufuncs[name] = entry
        return entry

    return enter


def less_one(order: Any) -> Any:
    """The order minus 1; 0 for the order 0, whose contribution the rule multiplies by 0."""
    return select(equal(order, 0), 0, order - 1)


def ratio(x: Any, y: Any) -> Any:
    """``x / y``, and 0 for 0 / 0."""
    return x / select(equal(x, 0) & equal(y, 0), 1, y)


def over(value: Any, x: Any, first: Any, step: Any, divisor: Callable[[int], int]) -> Any:
    """``value / x`` by a power series near 0, where derivatives of the quotient would cancel.

    The series begins with ``first``; the k-th term is the one before, times ``step / divisor(k)``.
    """
    near = less(absolute(x), 1)
    step, total = select(near, step, 0), 1.0
    for k in range(12, 0, -1):
        total = 1.0 + total * step / divisor(k)
    return select(near, first * total, value / select(near, 1, x))


def times(factor: Any, of_next: Any) -> Any:
    """The product, and 0 for the factor 0: the other one may be infinite or NaN there."""
    return select(equal(factor, 0), factor, factor * of_next)
