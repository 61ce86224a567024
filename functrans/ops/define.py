"""Definition of primitives: one call fills every slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functrans.errors import NotDifferentiableError
from functrans.ir.primitive import NotDifferentiable, Piecewise, Primitive
from functrans.ir.types import Aval
from functrans.lazily import Lazy, lazy

Rule = Callable[..., Any]

OperandRule = Rule | NotDifferentiable | None
"""The derivative in one operand; None where it is zero."""


def on_parts(name: str) -> Lazy:
    """The `parts` rule named ``"complex_arithmetic:divide"``, say, imported with the compiler."""
    return on_compiling(f"elementwise.compiled.{name}")


def on_compiling(name: str) -> Lazy:
    """The rule named ``"linalg.compiled.matrices:solve"``, say, imported with the compiler."""
    return lazy(f"functrans.ops.{name}")


def primitive(
    name: str, *, infer: Rule, numpy: Rule,
    jvp: Rule | Sequence[OperandRule] | NotDifferentiable | Piecewise | None = None,
    transpose: Rule | Sequence[Rule | None] | None = None, linear: tuple[tuple[int, ...], ...] = (),
    **slots: Any,
) -> Primitive:  # fmt: skip
    """Define a primitive; the slots are described in `functrans.ir.primitive`.

    Parameters
    ----------
    jvp : callable, sequence, `not_differentiable` or `ZERO_DERIVATIVE`
        A sequence has a rule (or None) for each operand: ``rule(*primals, out, tangent, **params)``
        is the part of the result's tangent that comes from that operand's tangent. In the place of
        a rule, `not_differentiable` refuses that operand only. A ``linear`` primitive needs no
        jvp rule.
    transpose : callable or sequence
        A sequence has a rule (or None) for each operand: ``rule(cotangent, *operands, **params)``
        is the cotangent of that operand, in which the result is linear.
    """
    if isinstance(jvp, Sequence) and not isinstance(jvp, (NotDifferentiable, Piecewise)):
        slots.setdefault("fixed", refused_operands(jvp))
        jvp = sum_of_parts(jvp)
    if transpose is not None and not callable(transpose):
        transpose = part_by_part(transpose)
    return Primitive(
        name, infer=infer, numpy=numpy, jvp=jvp, transpose=transpose, linear=linear, **slots
    )


def refused_operands(rules: Sequence[OperandRule]) -> dict[int, str]:
    """The positions of the operands without a derivative, with the reason for each."""
    return {
        number: rule.reason
        for number, rule in enumerate(rules)
        if isinstance(rule, NotDifferentiable)
    }


def sum_of_parts(rules: Sequence[OperandRule]) -> Rule:
    """A jvp rule that adds the contributions of the operands' tangents."""

    def jvp(
        primals: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
    ) -> Any:
        total = None
        for rule, tangent in zip(rules, tangents, strict=True):
            if rule is not None and tangent is not None:
                assert not isinstance(rule, NotDifferentiable)
                part = rule(*primals, outs[0], tangent, **params)
                total = part if total is None else total + part
        return total

    return jvp


def tangent_of_linear(
    op: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: Mapping[str, Any],
    zero: Callable[[Any], Any],  # of an operand: what takes the place of its tangent if it has none
) -> Any:  # fmt: skip
    """The tangent of the result of a linear primitive: that of each group of operands, added."""
    total = None
    for group in op.linear_groups(len(primals)):
        if any(tangents[i] is not None for i in group):
            operands = list(primals)
            for i in group:
                operands[i] = zero(primals[i]) if tangents[i] is None else tangents[i]
            part = op(*operands, **params)
            total = part if total is None else total + part
    return total


def part_by_part(rules: Sequence[Rule | None]) -> Rule:
    """A transpose rule that applies the rule of each linear operand."""

    def transpose(cotangent: Any, *operands: Any, **params: Any) -> list[Any]:
        return [
            rule(cotangent, *operands, **params)
            if rule is not None and isinstance(operand, Aval)
            else None
            for rule, operand in zip(rules, operands, strict=True)
        ]

    return transpose


def refuse(primitive: Primitive, reason: NotDifferentiable) -> None:
    """Raise the error of differentiating a primitive that has no derivative."""
    raise NotDifferentiableError(f"{primitive.name} is not differentiable: {reason.reason}")
