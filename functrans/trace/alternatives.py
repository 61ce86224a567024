"""Alternatives to NumPy features that traced values lack, for error messages.

Keyed by the name of the function or attribute; the text ends the message. Features that are not
listed have no equivalent replacement, and a name that is only spelled similarly would not help.
"""

from __future__ import annotations

_OUTSIDE = "return the value, and do it outside of the traced function"
_MEMORY = "a traced value has no memory: " + _OUTSIDE
_DATES = "compute with dates outside of the traced function, and pass numbers"

_INSTEAD = {
    # output, printing and memory layout
    **dict.fromkeys(("save", "savez", "savez_compressed", "savetxt", "dump", "dumps", "tofile"),
                    _OUTSIDE),
    **dict.fromkeys(("shares_memory", "ctypes", "data", "setflags", "strides", "tobytes",
                     "getfield", "setfield"), _MEMORY),
    # dates
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "datetime_as_string", "isnat"),
                    _DATES),
}  # fmt: skip

_OF_TENSORS = {
    **dict.fromkeys(("contiguous", "cpu", "cuda", "numpy", "requires_grad_"),
                    "the array itself, which is NumPy's"),
    "backward": "functrans.grad(f)(x), outside of f",
    "clone": "x.copy()",
    "detach": "functrans.stop_gradient(x)",
    "double": "x.astype(np.float64)",
    "float": "x.astype(np.float32)",
    "numel": "x.size",
    "permute": "x.transpose(axes)",
    "unsqueeze": "np.expand_dims(x, axis)",
}  # fmt: skip
"""What NumPy has in place of the methods of PyTorch's tensors."""


def instead_of(name: str) -> str:
    """The end of a message: ``"; instead: ..."``, or nothing."""
    if name.endswith("(vectorized)"):  # the ufuncs of np.frompyfunc
        return "; instead: np.vectorize(f)(x)"
    found = _INSTEAD.get(name) or _OF_TENSORS.get(name)
    return f"; instead: {found}" if found else ""
