"""Composable function transforms for NumPy and Numba."""

from functrans.api.derivatives import grad, jvp, value_and_grad, vjp
from functrans.api.linear import linear_transpose, linearize

__all__ = [
    "grad",
    "jvp",
    "linear_transpose",
    "linearize",
    "value_and_grad",
    "vjp",
]
