"""``sin(z) / z`` and its derivatives of any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.loop import scalar
from functrans.ops.define import primitive
from functrans.ops.elementwise.choice import where_of_numbers
from functrans.ops.samples import cases, reals

Function = Callable[[Any], Any]


def _derivative(n: int, z: Any, sin: Function, cos: Function, where: Callable[..., Any]) -> Any:
    """The n-th derivative of ``sin(z) / z``, for arrays and for Scalars.

    By Leibniz' rule ``z S[n] + n S[n - 1]`` is the n-th derivative of the sine. The upward
    recurrence is stable where ``n`` is less than ``z``; elsewhere, the downward one is used, from
    an order so large that it can start at 0.
    """
    of_sine = [sin(z), cos(z), -sin(z), -cos(z)]
    if n == 0:
        nothing = z == 0 if isinstance(z, (np.ndarray, np.generic)) else scalar.eq(z, 0)
        return where(nothing, 1.0, of_sine[0] / where(nothing, 1.0, z))
    small = abs(z) < n
    large_z, small_z = where(small, 1.0, z), where(small, z, 0.0)
    upwards = of_sine[0] / large_z
    for k in range(1, n + 1):
        upwards = (of_sine[k % 4] - k * upwards) / large_z
    downwards = small_z * 0
    for k in range(3 * n + 20, n, -1):
        downwards = (of_sine[k % 4] - small_z * downwards) * (1.0 / k)
    return where(small, downwards, upwards)


sinc_derivative: Primitive = primitive(
    "sinc_derivative",
    infer=lambda z, *, n: z.update(),
    numpy=lambda z, *, n: _derivative(n, z, np.sin, np.cos, where_of_numbers),
    jvp=[lambda z, out, dz, *, n: dz * sinc_derivative(z, n=n + 1)],
    batch=lambda operands, axes, *, n: (sinc_derivative(operands[0], n=n), axes[0]),
    scalar=lambda z, *, n: _derivative(n, z, vecmath.sin, vecmath.cos, scalar.where),
    elementwise=True,
    samples=cases(
        ((reals(-9, 9), (4,)), {"n": 0}), ((reals(-9, 9), (2, 3)), {"n": 1}),
        ((reals(-0.1, 0.1), (3,)), {"n": 2}), ((reals(-9, 9), (5,)), {"n": 4}),
        ((0, 2), {"n": 1}), (np.array([0.0, 1e-8]), {"n": 1}),
    ),
)  # fmt: skip
