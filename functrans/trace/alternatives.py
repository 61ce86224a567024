"""What to write instead of something of NumPy's that traced values do not have: only what does it.

By the name of the function or attribute, in words that end the message. What is not here has no
replacement that would do the same, and a name that is merely spelled alike helps nobody.
"""

from __future__ import annotations

_OUTSIDE = "return the value, and do it outside of the traced function"
_MEMORY = "a traced value has no memory: " + _OUTSIDE
_POSITIVE = "for positive numbers, "
_REAL = "for real numbers, "
_FRESNEL = (
    _REAL + "with S, C = special.fresnel(np.sqrt(2 / np.pi) * x) the integral of exp({}1j * t**2) "
    "from x on is np.sqrt(np.pi / 2) * (0.5 - C {} 1j * (0.5 - S))"
)
_DATES = "compute with dates outside of the traced function, and pass numbers"

_INSTEAD = {
    # what writes, prints and looks at memory
    **dict.fromkeys(("save", "savez", "savez_compressed", "savetxt", "dump", "dumps", "tofile"),
                    _OUTSIDE),
    **dict.fromkeys(("may_share_memory", "shares_memory", "ctypes", "data", "flags", "setflags",
                     "strides", "tobytes", "getfield", "setfield"), _MEMORY),
    "view": "x.astype(dtype) converts the values; what bytes they consist of is not known",
    # functions of SciPy's whose results are complex
    "hankel1": _POSITIVE + "special.jv(v, x) + 1j * special.yv(v, x)",
    "hankel2": _POSITIVE + "special.jv(v, x) - 1j * special.yv(v, x)",
    "hankel1e": _POSITIVE + "(special.jv(v, x) + 1j * special.yv(v, x)) * np.exp(-1j * x)",
    "hankel2e": _POSITIVE + "(special.jv(v, x) - 1j * special.yv(v, x)) * np.exp(1j * x)",
    "kelvin": _REAL + "special.ber(x) + 1j * special.bei(x), and so with ker, kei and their slopes",
    "modfresnelp": _FRESNEL.format("", "+"),
    "modfresnelm": _FRESNEL.format("-", "-"),
    "wofz": _REAL + "np.exp(-x * x) + 2j / np.sqrt(np.pi) * special.dawsn(x)",
    # dates
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "datetime_as_string", "isnat"),
                    _DATES),
}  # fmt: skip


def instead_of(name: str) -> str:
    """The end of a message: ``"; instead: ..."``, or nothing."""
    if name.endswith("(vectorized)"):  # what np.frompyfunc makes
        return "; instead: np.vectorize(f)(x)"
    return f"; instead: {_INSTEAD[name]}" if name in _INSTEAD else ""
