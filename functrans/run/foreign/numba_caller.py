"""An exported graph as a function for Numba: arrays in, new arrays out, no Python in between."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.caches import once
from functrans.loop.failures import FAILURES
from functrans.run.foreign.export import Exported


def numba_function(exported: Exported, name: str, several: bool) -> Any:
    """A function that Numba-compiled code may call.

    Parameters
    ----------
    exported : Exported
        It is kept alive by the function.
    name : str
        What messages call the function.
    several : bool
        Whether it returns a tuple.
    """
    import numba

    arguments = [f"a{i}" for i in range(len(exported.in_avals))]
    scope: dict[str, Any] = {
        "np": np,
        "native": exported.ctypes_function(),
        "as_given": _as_given(),
    }
    lines = [f"def compiled({', '.join(arguments)}):"]
    passed = []
    for i, aval in enumerate(exported.in_avals):
        scope[f"in{i}"] = aval.dtype.type
        if aval.shape == ():
            passed.append(f"in{i}(a{i})")
            continue
        lines += [
            f"    if a{i}.shape != {aval.shape}:",
            f"        raise ValueError('argument {i} of {name} was compiled for '",
            f"            'shape {aval.shape}')",
            f"    c{i} = as_given(a{i}, in{i})",
        ]
        passed.append(f"c{i}.ctypes.data")
    for i, aval in enumerate(exported.out_avals):
        scope[f"out{i}"] = aval.dtype.type
        lines.append(f"    r{i} = np.empty({aval.shape}, out{i})")
        passed.append(f"r{i}.ctypes.data")
    lines.append(f"    status = native({', '.join(passed)})")
    for status, failure in FAILURES.items():
        scope[f"failure{status}"] = failure.exception
        lines += [
            f"    if status == {status}:",
            f"        raise failure{status}({failure.message!r})",
        ]
    results = [f"r{i}[()]" if a.shape == () else f"r{i}" for i, a in enumerate(exported.out_avals)]
    lines.append(f"    return {'(' + ', '.join(results) + ',)' if several else results[0]}")
    exec("\n".join(lines), scope)
    return numba.njit(scope["compiled"])


@once
def _as_given() -> Any:
    """A function, for Numba, that gives an array as C-contiguous memory of a dtype."""
    import numba
    from numba.core import types
    from numba.extending import overload

    def as_given(array: Any, dtype: Any) -> Any:
        raise NotImplementedError

    @overload(as_given)
    def _(array, dtype):  # type: ignore[no-untyped-def]  # Numba compares the signatures
        wanted = dtype.dtype if isinstance(dtype, types.NumberClass) else types.boolean
        if not isinstance(array, types.Array) or array.dtype != wanted:
            raise numba.core.errors.TypingError(
                f"the function was compiled for an array of {wanted}, not for {array}"
            )
        if array.layout == "C":
            return lambda array, dtype: array
        return lambda array, dtype: array.copy()

    return as_given
