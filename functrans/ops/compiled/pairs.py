"""Complex numbers as pairs of real ones: the arguments of `parts` rules, and their application.

A rule is written in primitives on real arrays. It receives a `Pair` for each complex operand, and
returns a `Pair` for each complex result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.primitive import BILINEAR, Primitive, Same
from functrans.ir.types import is_complex, real_dtype
from functrans.records import NamedTuple


class Pair(NamedTuple):
    """A complex array: its real and its imaginary part, of equal shape."""

    re: Any
    im: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of each part."""
        return self.re.dtype


class Real(Pair):
    """A complex array converted from a real one: its imaginary part is zero."""


class Composition(NamedTuple):
    """A `parts` rule of an operation that is composed of others, by the rules of these.

    It does not apply to operands without elements.
    """

    of: Callable[..., Sequence[Any]]  # of arrays, whether real or complex


def pair_of(number: Any) -> Pair:
    """A complex constant as a pair."""
    value = np.asarray(number)
    part = real_dtype(value.dtype).type
    return Pair(part(value.real), part(value.imag))


def flattened(values: Iterable[Any]) -> list[Any]:
    """Values, in which the two parts of complex ones follow each other."""
    flat: list[Any] = []
    for value in values:
        flat += value if isinstance(value, Pair) else (value,)
    return flat


def regrouped(values: Iterable[Any], dtypes: Iterable[np.dtype[Any]]) -> list[Any]:
    """The inverse of `flattened`, for values of the given dtypes."""
    given = iter(values)
    return [
        Pair(next(given), next(given)) if is_complex(dtype) else next(given) for dtype in dtypes
    ]


def by_parts(primitive: Primitive, operands: Sequence[Any], params: Any) -> Any:
    """Apply a real-linear primitive to the real parts, and to the imaginary parts."""
    parts = []
    for part in (0, 1):
        chosen = [x[part] if isinstance(x, Pair) else x for x in operands]
        parts.append(primitive(*chosen, **params))
    if primitive.several:
        return tuple(Pair(re, im) for re, im in zip(*parts, strict=True))
    return Pair(*parts)


def _four_products(primitive: Primitive, operands: Sequence[Any], params: Any) -> Pair:
    """A complex product by four real ones, which BLAS needs for large matrices as well."""
    x, y = operands

    def product(a: Any, b: Any) -> Any:
        return primitive(a, b, **params)

    return Pair(
        product(x.re, y.re) - product(x.im, y.im), product(x.re, y.im) + product(x.im, y.re)
    )


LinearRule = Callable[[Primitive, Sequence[Any], Any], Any]


def rule_of_linear(eqn: Eqn) -> LinearRule | None:
    """The `parts` rule of a primitive that is linear or bilinear in complex operands, or None.

    The primitive must have a compiled form for real operands.
    """
    primitive = eqn.primitive
    has_form = primitive.emit is not None or primitive.emit_on_grid not in (None, Same)
    if not primitive.by_elements and not has_form:
        return None
    moving = {i for i, x in enumerate(eqn.inputs) if is_complex(x.aval.dtype)}
    groups = primitive.linear_groups(len(eqn.inputs))
    if moving and any(moving <= set(group) for group in groups):
        return by_parts
    return _four_products if groups == BILINEAR and len(moving) == 2 else None
