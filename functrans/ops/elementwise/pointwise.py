"""Elementwise primitives: one definition derives every array rule from rules for one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.primitive import NotDifferentiable, Piecewise, Primitive
from functrans.ir.types import Aval, broadcast_shape, complex_dtype, real_dtype
from functrans.lazily import Lazy
from functrans.ops.arrays.masked import Masked, masked_sum_to
from functrans.ops.arrays.promotion import (
    Promotion,
    common,
    promote,
    scipy_promotion,
    ufunc_promotion,
)
from functrans.ops.arrays.structural import align_batched, broadcast_to, sum_to
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import (
    OperandRule,
    Rule,
    on_parts,
    primitive,
    refused_operands,
    sum_of_parts,
    tangent_of_linear,
)
from functrans.ops.samples import Domain, broadcasting
from functrans.trace import protocols


def elementwise(
    name: str, *, numpy: Rule, samples: Domain | Sequence[Domain],
    jvp: Rule | Sequence[OperandRule] | NotDifferentiable | Piecewise | None = None,
    linear: tuple[tuple[int, ...], ...] = (), transpose: Sequence[Rule | None] | None = None,
    scalar: Rule | None = None, emit: Emit | None = None, parts: Rule | None = None,
    sparsity: Rule | None = None, promotion: Promotion | None = None,
    widen: Callable[[Any, Any], tuple[Any, Any]] | None = None, result: str = "same",
    steep: bool = False, quotient: int | None = None, brief: bool = False, stores: bool = False,
    params: dict[str, Any] | Sequence[dict[str, Any]] = ({},),
) -> Primitive:  # fmt: skip
    """Define an elementwise primitive that broadcasts as NumPy does.

    Parameters
    ----------
    name : str
    numpy : callable
        A ufunc (or `lazy` ufunc), or a function of arrays. A ufunc that is applied to a tracer
        records this primitive.
    samples : Domain or sequence of Domain
        The domains from which generated tests draw the operand(s), in several shapes.
    jvp : callable, sequence, `not_differentiable` or `ZERO_DERIVATIVE`
        With one operand: ``rule(x, out, dx)``; with more, a list with a rule
        ``rule(x, y, ..., out, dx)`` for each operand, or None, or `not_differentiable`. Not
        needed if the primitive is ``linear``.
    linear : tuple
        ``LINEAR``, ``BILINEAR`` or groups of operands, see `functrans.ir.primitive`.
    transpose : sequence
        A rule ``rule(cotangent, x, y, ...)`` for each operand, or None. Needed only for linear
        operations that are not diagonal (conversion, addition): a diagonal one is its own
        transpose.
    scalar : callable
        The compiled form, arithmetic on `functrans.loop.scalar.Scalar`. Without one, compiled
        programs call NumPy.
    emit : Emit, optional
        The compiled form if an element is computed by a loop, not by an expression.
    parts : callable
        The compiled form on complex numbers, see `functrans.ir.primitive`.
    sparsity : callable, optional
        See `functrans.ir.primitive`; by default an element of the result depends on the operands'
        elements at its position.
    promotion : callable
        The dtypes to which the operands are cast; by default the ufunc's.
    widen : callable
        A function that is applied to two operands before promotion.
    result : str
        The result's dtype: ``"same"``, that of the operands (of the last one, if they differ);
        ``"first"``, that of the first operand; ``"real"`` or ``"complex"``, the real or complex
        counterpart of the operands'; or the name of a dtype.
    steep : bool
        Whether the derivative is infinite somewhere. There, a structurally zero tangent (of an
        operand that ``where`` does not select) stays 0.
    quotient : int
        The number of the operand that is a divisor, see `functrans.ir.primitive`.
    brief : bool
        Whether tests try only one shape and an empty one, because the primitive is slow.
    stores : bool
        Whether it takes storage-only dtypes, see `functrans.ir.primitive`.
    params : dict or sequence of dict
        Parameters, passed to every rule by name: the values that tests try.

    Returns
    -------
    Primitive
        Callable on arrays and tracers.
    """
    domains = (samples,) if isinstance(samples, Domain) else tuple(samples)
    brings = promotion or promotion_of(numpy)
    is_uniform = promotion is None and result == "same"
    tried = (params,) if isinstance(params, dict) else tuple(params)
    taken = frozenset(tried[0])

    def infer(*avals: Aval, **params: Any) -> Aval:
        if params.keys() != taken:
            raise TypeError(f"{name} takes the parameters {sorted(taken)}, not {sorted(params)}")
        if len(avals) != len(domains):
            raise ShapeError(f"{name} takes {len(domains)} operands, not {len(avals)}")
        if is_uniform and any(aval.dtype != avals[0].dtype for aval in avals):
            raise DtypeError(f"{name} takes operands of one dtype, not {list(avals)}")
        dtype = _RESULTS[result](avals) if result in _RESULTS else np.dtype(result)
        return avals[0].update(shape=broadcast_shapes(avals), dtype=dtype)

    def prepare(*operands: Any, **params: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return promote(brings, widen(*operands) if widen else operands), params

    def linear_jvp(primals: Any, tangents: Any, outs: Any, **params: Any) -> Any:
        return _linear_jvp(op, primals, tangents, outs, params)

    def diagonal_transpose(cotangent: Any, *operands: Any, **params: Any) -> list[Any]:
        return _transpose(op, transpose, cotangent, operands, params)

    op: Primitive = primitive(
        name,
        infer=infer,
        numpy=numpy,
        jvp=linear_jvp if linear and jvp is None else _on_arrays(jvp),
        transpose=diagonal_transpose if linear else None,
        linear=linear,
        batch=lambda operands, axes, **params: _batch(op, operands, axes, params),
        scalar=scalar,
        emit=emit,
        parts=parts,
        sparsity=sparsity,
        samples=broadcasting(*domains, params=tried, brief=brief),
        fixed=refused_operands(jvp) if isinstance(jvp, list) else {},
        elementwise=True,
        quotient=quotient,
        steep=steep,
        stores=stores,
        prepare=prepare,
        promotion=None if widen or taken else brings,
    )
    if isinstance(numpy, (np.ufunc, Lazy)):
        protocols.ufuncs[numpy.__name__] = op
    return op


def analytic(
    numpy: np.ufunc, scalar: Rule, jvp: Rule, samples: Domain, steep: bool = False
) -> Primitive:
    """A ufunc of real and complex numbers, named like its compiled form on parts of the latter."""
    name = numpy.__name__
    parts = on_parts(f"complex_functions:{name}")
    return elementwise(
        name, numpy=numpy, scalar=scalar, jvp=jvp, samples=samples, steep=steep, parts=parts
    )


_RESULTS: dict[str, Callable[[Sequence[Aval]], np.dtype[Any]]] = {
    "same": lambda avals: avals[-1].dtype,
    "first": lambda avals: avals[0].dtype,
    "real": lambda avals: real_dtype(avals[0].dtype),
    "complex": lambda avals: complex_dtype(avals[0].dtype),
}


def promotion_of(numpy: Rule) -> Promotion:
    """The promotion of a ufunc; for another function, that of `common`."""
    if isinstance(numpy, Lazy):
        return scipy_promotion(numpy.name, lambda: unwrapped(numpy))
    if isinstance(numpy, np.ufunc):
        return ufunc_promotion(lambda: numpy)
    return common


def unwrapped(scipys: Lazy) -> np.ufunc:
    """A ufunc of SciPy's, which is wrapped if SciPy's array-API switch is on."""
    found = scipys.resolve()
    return getattr(found, "__wrapped__", found)


def broadcast_shapes(avals: Sequence[Aval]) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""
    try:
        return broadcast_shape(*(aval.shape for aval in avals))
    except ValueError:
        shapes = " and ".join(str(aval.shape) for aval in avals)
        raise ShapeError(
            f"arrays of shapes {shapes} do not broadcast: counted from the last axis, sizes must "
            "be equal or 1"
        ) from None


def _on_arrays(rule: Any) -> Any:
    """A jvp rule for arrays from rules for elements: contributions are summed, and broadcast."""
    if rule is None or isinstance(rule, (NotDifferentiable, Piecewise)):
        return rule
    sum_parts = sum_of_parts([rule] if callable(rule) else rule)

    def jvp(primals: Any, tangents: Any, outs: Any, **params: Any) -> Any:
        tangent = sum_parts(primals, tangents, outs, **params)
        return None if tangent is None else broadcast_to(tangent, shape=outs[0].shape)

    return jvp


def _linear_jvp(
    op: Primitive, primals: Any, tangents: Any, outs: Any, params: dict[str, Any]
) -> Any:
    total = tangent_of_linear(op, primals, tangents, params, zero_of)
    return None if total is None else broadcast_to(total, shape=outs[0].shape)


def zero_of(x: Any) -> Any:
    """The number 0 of an array's dtype."""
    return x.dtype.type(0)


def _transpose(
    op: Primitive, rules: Sequence[Rule | None] | None, cotangent: Any, operands: Sequence[Any],
    params: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """Elementwise linear operations are diagonal, so each is its own transpose."""

    def diagonal(i: int, cotangent: Any) -> Any:
        (group,) = (group for group in op.linear if i in group)
        arguments = [zero_of(cotangent) if j in group else x for j, x in enumerate(operands)]
        arguments[i] = cotangent
        return op(*arguments, **params)

    def part(i: int, cotangent: Any) -> Any:
        if rules is None:
            return diagonal(i, cotangent)
        rule = rules[i]
        assert rule is not None, f"{op.name} is not linear in operand {i}"
        return rule(cotangent, *operands, **params)

    cotangents: list[Any] = [None] * len(operands)
    for i, operand in enumerate(operands):
        if isinstance(operand, Aval):
            if isinstance(cotangent, Masked):
                behind = cotangent.over(part(i, cotangent.value))
                cotangents[i] = masked_sum_to(behind, operand.shape)
            else:
                cotangents[i] = total_to(part(i, cotangent), operand.shape)
    return cotangents


def total_to(cotangent: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of an operand that was broadcast to the result's shape."""
    if isinstance(cotangent, Masked):
        return masked_sum_to(cotangent, shape)
    return sum_to(cotangent, shape)


def _batch(
    op: Primitive, operands: Sequence[Any], axes: Sequence[int | None], params: dict[str, Any]
) -> tuple[Any, int]:
    ranks = [x.ndim - (axis is not None) for x, axis in zip(operands, axes, strict=True)]
    aligned = [align_batched(x, axis, max(ranks)) for x, axis in zip(operands, axes, strict=True)]
    return op(*aligned, **params), 0
