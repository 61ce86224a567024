"""The powers of two that divide index expressions."""

import numpy as np
import pytest

from functrans.loop.affine import LARGEST, divisor
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, const, convert
from functrans.loop.statements import size

I = index("i", None)  # noqa: E741


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (const(12, INDEX), 4),
        (const(0, INDEX), LARGEST),
        (const(1 << 20, INDEX), LARGEST),
        (I, 1),
        (I * 8, 8),
        (I * 8 + 12, 4),
        (size(0) * 2, 2 * 16),
        (Scalar("min", (I * 8, const(6, INDEX)), INDEX), 2),
        # of other numbers nothing is known
        (convert(const(np.nan, np.float64), INDEX) + 8, 1),
        (convert(const(4.0, np.float64), INDEX), 1),
    ],
)
def test_what_divides(expression, expected):
    assert divisor(expression, (48,)) == expected
