"""How a function of SciPy's becomes a primitive, or an expression in primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.ir.primitive import NotDifferentiable, Piecewise, Primitive, not_differentiable
from functrans.ops.define import Lazy, OperandRule, Rule, lazy
from functrans.ops.elementwise.choice import maximum, select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.promotion import Promotion, floating
from functrans.ops.samples import Domain
from functrans.trace import protocols

NO_CLOSED_FORM = not_differentiable(
    "the derivative in this parameter has no closed form; hold it fixed, or differentiate by "
    "custom_jvp with a difference quotient"
)

Derivative = Rule | Sequence[OperandRule] | NotDifferentiable | Piecewise


def special(
    name: str,
    samples: Domain | Sequence[Domain],
    jvp: Derivative,
    scalar: Rule | None = None,
    promotion: Promotion | None = None,
) -> Primitive:
    """A ufunc of `scipy.special`, called when the primitive is evaluated."""
    return elementwise(
        name,
        numpy=lazy(f"scipy.special:{name}"),
        samples=samples,
        jvp=jvp,
        scalar=scalar,
        promotion=promotion,
    )


def part(
    name: str, of: str, number: int, samples: Domain | Sequence[Domain], jvp: Derivative
) -> Primitive:
    """One result of a ufunc of `scipy.special` that has several.

    It is computed in float64: in float32 some of them give NaN, or never end.
    """
    ufunc = lazy(f"scipy.special:{of}")

    def numpy(*operands: Any) -> Any:
        wide = (np.asarray(x, np.float64) for x in operands)
        return ufunc(*wide)[number].astype(np.result_type(*operands))[()]

    return elementwise(
        name,
        numpy=numpy,
        samples=samples,
        jvp=jvp,
        promotion=floating,
    )


def parts(of: str, *primitives: Primitive) -> None:
    """Let primitives answer together for a ufunc that has several results."""
    protocols.ufuncs[of] = lambda *operands: tuple(op(*operands) for op in primitives)


def ordered(
    name: str, samples: Sequence[Domain], jvp: Derivative, counts: Sequence[int] = (0,)
) -> Primitive:
    """A ufunc with orders among its operands, which SciPy treats otherwise if they are integral.

    As operands they have the dtype of the others, as all operands of an equation.

    Parameters
    ----------
    counts : sequence of int
        Which operands are orders.
    """
    ufunc = lazy(f"scipy.special:{name}")
    op = elementwise(
        name,
        numpy=lambda *operands: _with_integers(ufunc, operands, counts),
        samples=samples,
        jvp=jvp,
        promotion=floating,
    )
    protocols.ufuncs[name] = op
    return op


def _with_integers(ufunc: Lazy, operands: Sequence[Any], counts: Sequence[int]) -> Any:
    converted = list(operands)
    for i in counts:
        with np.errstate(invalid="ignore"):
            converted[i] = np.asarray(operands[i]).astype(np.int64)
        if not np.array_equal(converted[i], operands[i]):
            return ufunc(*operands)
    return np.asarray(ufunc(*converted)).astype(np.result_type(*operands))[()]


def composed(
    name: str,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function written in primitives answer for a ufunc of `scipy.special`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        protocols.ufuncs[name] = function
        return function

    return enter


def less_one(order: Any) -> Any:
    """The order below, and 0 below that: the rule multiplies by the order."""
    return maximum(order - 1, 0)


def ratio(x: Any, y: Any) -> Any:
    """``x / y``, and 0 for 0 / 0."""
    return x / select(equal(x, 0) & equal(y, 0), 1, y)
