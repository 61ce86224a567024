"""What to write instead of something of NumPy's that traced values do not have: only what does it.

By the name of the function or attribute, in words that end the message. What is not here has no
replacement that would do the same, and a name that is merely spelled alike helps nobody.
"""

from __future__ import annotations

_OUTSIDE = "return the value, and do it outside of the traced function"
_MEMORY = "a traced value has no memory: " + _OUTSIDE
_DATES = "compute with dates outside of the traced function, and pass numbers"
_SIZE = "how many values there are would have to be known: " + _OUTSIDE

_INSTEAD = {
    # what writes, prints and looks at memory
    **dict.fromkeys(("save", "savez", "savez_compressed", "savetxt", "dump", "dumps", "tofile"),
                    _OUTSIDE),
    **dict.fromkeys(("array2string", "array_repr", "array_str"), "print(x) shows what is known"),
    **dict.fromkeys(("may_share_memory", "shares_memory", "ctypes", "data", "flags", "setflags",
                     "strides", "tobytes", "getfield", "setfield"), _MEMORY),
    "view": "x.astype(dtype) converts the values; what bytes they consist of is not known",
    "min_scalar_type": "x.dtype is the dtype, which does not depend on values",
    # what depends on values
    **dict.fromkeys(("intersect1d", "setdiff1d", "setxor1d", "union1d"),
                    "np.isin(x, y) says which are in both; " + _SIZE),
    # what another function does
    "partition": "np.partition(x, kth)",
    "argpartition": "np.argpartition(x, kth)",
    "sort_complex": "np.sort(x)",
    "packbits": "multiply by powers of 2, and add",
    "unpackbits": "x[:, None] >> np.arange(8) & 1",
    "ravel_multi_index": "multiply by the strides, and add: i * n + j",
    "unravel_index": "np.divmod(i, n)",
    "histogram2d": "np.histogramdd, or np.bincount of the cell numbers",
    # dates
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "datetime_as_string"), _DATES),
}  # fmt: skip


def instead_of(name: str) -> str:
    """The end of a message: ``"; instead: ..."``, or nothing."""
    return f"; instead: {_INSTEAD[name]}" if name in _INSTEAD else ""
