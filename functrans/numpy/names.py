"""Names that the namespace re-exports from NumPy: constants, dtypes, and the ufuncs.

Ufuncs dispatch on their operands, and traced values record an operation. Only type checkers read
this module.
"""

# ruff: noqa: F405
from numpy import *  # noqa: F403

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bool", "bool_", "broadcast_shapes", "cbrt", "ceil", "complex64", "complex128",
    "conj", "conjugate", "copysign", "cos", "cosh", "deg2rad", "degrees", "divide", "divmod",
    "dtype", "e", "equal", "errstate", "euler_gamma", "exp", "exp2", "expm1", "fabs", "float16",
    "float32", "float64", "float_power", "floating", "floor", "floor_divide", "fmax", "fmin",
    "fmod", "gcd", "generic", "greater", "greater_equal", "heaviside", "hypot", "inexact", "inf",
    "int8", "int16", "int32", "int64", "int_", "integer", "invert", "isdtype", "isfinite", "isinf",
    "isnan", "issubdtype", "lcm", "left_shift", "less", "less_equal", "log", "log1p", "log2",
    "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "matmul", "maximum", "minimum", "mod", "modf", "multiply", "nan", "ndarray", "negative",
    "newaxis", "nextafter", "not_equal", "number", "pi", "positive", "pow", "power",
    "promote_types", "rad2deg", "radians", "reciprocal", "remainder", "right_shift", "rint", "sign",
    "signbit", "sin", "sinh", "spacing", "sqrt", "square", "subtract", "tan", "tanh",
    "tril_indices", "triu_indices", "true_divide", "trunc", "uint8", "uint16", "uint32", "uint64",
    "unsignedinteger", "vecdot",
]  # fmt: skip
