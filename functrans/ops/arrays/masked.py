"""Masked cotangents, which keep the unselected branch of a ``where`` from producing NaN.

The cotangent of the branch that ``where(mask, f(x), c)`` did not take is 0, and f' may be infinite
there: 0 * inf is NaN. So the mask is not applied when the cotangent enters the branch, but carried
along with it, past the multiplications, and applied where elements are added up or leave.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.types import Shape
from functrans.ops.arrays.structural import broadcast_to, cast, sum_to
from functrans.records import NamedTuple


class Masked(NamedTuple):
    """A cotangent that is ``value`` where ``mask`` holds, and 0 elsewhere whatever ``value`` is.

    ``zero_outside(mask, value)`` applies the mask. ``complement`` is its inverse, if that is known.
    ``is_applied``: ``value`` is a sum of masked elements, and is 0 outside already.
    """

    mask: Any
    value: Any
    zero_outside: Any
    complement: Any = None
    is_applied: bool = False

    def apply(self) -> Any:
        return self.value if self.is_applied else self.zero_outside(self.mask, self.value)

    def whole_mask(self) -> Any:
        """The mask in the shape of the value."""
        return broadcast_to(self.mask, shape=self.value.shape)

    def over(self, value: Any) -> Masked:
        """The same mask applied to another value; masks combine if that value is masked itself."""
        if isinstance(value, Masked):
            mask = self.mask & value.mask
            return value._replace(mask=mask, complement=None, is_applied=False)
        return self._replace(value=value, is_applied=False)

    def summed(self, mask: Any, value: Any) -> Masked:
        """A sum of these elements with the mask applied: 0 where the mask is false for all."""
        return self._replace(mask=mask, value=value, complement=None, is_applied=True)


def applied(cotangent: Any) -> Any:
    """A cotangent as an array."""
    return cotangent.apply() if isinstance(cotangent, Masked) else cotangent


def masked_sum_to(cotangent: Masked, shape: Shape) -> Masked:
    """`sum_to` of a masked value; a sum is masked out where all its elements are."""
    if cotangent.value.shape == shape:
        # a mask may have fewer axes than the value: broadcasting it would take as much memory
        return cotangent
    mask = cotangent.whole_mask()
    total = sum_to(cotangent._replace(mask=mask).apply(), shape)
    return cotangent.summed(_any_to(mask, shape), total)


def _any_to(mask: Any, shape: Shape) -> Any:
    if mask.shape == shape:
        return mask
    return sum_to(cast(mask, dtype=np.dtype(np.int64)), shape) > 0


def added(x: Any, y: Any) -> Any:
    """The sum of two cotangents, masked if both are, unless their masks are complementary."""
    if isinstance(x, Masked) and isinstance(y, Masked):
        if x.mask is y.mask:
            return x.over(x.value + y.value)
        if x.value is y.value and (x.complement is y.mask or y.complement is x.mask):
            return x.value
        return x.summed(x.mask | y.mask, x.apply() + y.apply())
    return applied(x) + applied(y)
