"""Alternatives for NumPy features that traced values lack: what an error message suggests.

By the name of the function or attribute, in words that end the message. What is not here has no
replacement that would do the same, and a name that is merely spelled alike helps nobody.
"""

from __future__ import annotations

_OUTSIDE = "return the value, and do it outside of the traced function"
_MEMORY = "a traced value has no memory: " + _OUTSIDE
_DATES = "compute with dates outside of the traced function, and pass numbers"

_INSTEAD = {
    # what writes, prints and looks at memory
    **dict.fromkeys(("save", "savez", "savez_compressed", "savetxt", "dump", "dumps", "tofile"),
                    _OUTSIDE),
    **dict.fromkeys(("may_share_memory", "shares_memory", "ctypes", "data", "flags", "setflags",
                     "strides", "tobytes", "getfield", "setfield"), _MEMORY),
    "view": "x.astype(dtype) converts the values; what bytes they consist of is not known",
    # dates
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "datetime_as_string", "isnat"),
                    _DATES),
}  # fmt: skip


def instead_of(name: str) -> str:
    """The end of a message: ``"; instead: ..."``, or nothing."""
    if name.endswith("(vectorized)"):  # what np.frompyfunc makes
        return "; instead: np.vectorize(f)(x)"
    return f"; instead: {_INSTEAD[name]}" if name in _INSTEAD else ""
