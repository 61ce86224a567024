"""Elementary and special functions as scalar expressions: arithmetic without calls or branches.

Each function takes float16, float32 or float64 scalars (`functrans.ir.scalar`) of one dtype and
gives a scalar of that dtype: straight-line code that a compiler turns into vector instructions.
Zeros, infinities, NaN and subnormal numbers mean what they mean to NumPy.
"""

from functrans.vecmath.exponential import exp, exp2, expm1, sigmoid
from functrans.vecmath.hyperbolic import tanh
from functrans.vecmath.logarithm import log, log1p, log2, log10
from functrans.vecmath.power import power
from functrans.vecmath.trigonometric import cos, sin, tan

__all__ = [
    "cos",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "power",
    "sigmoid",
    "sin",
    "tan",
    "tanh",
]
