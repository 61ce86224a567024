"""The array API standard: functions and methods that NumPy's own names do not cover.

References
----------
Consortium for Python Data API Standards, "Python array API standard", 2024.12.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import numpy as np

from functrans.errors import TracerConversionError
from functrans.ir.primitive import current
from functrans.ir.types import is_supported
from functrans.numpy.arrays import constant, duplicate
from functrans.ops.arrays.shape import with_tracers
from functrans.trace import protocols
from functrans.trace.delegation import delegate
from functrans.trace.source import here
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer

__all__ = ["finfo", "from_dlpack", "iinfo"]

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

# -- the namespace ---------------------------------------------------------------------------------


_NUMPYS: Any = np.__array_namespace_info__()


class ArrayNamespaceInfo:
    """The result of `__array_namespace_info__`: capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """The capabilities; shapes may depend on data if elements are known."""
        trace = current.get()
        known = not isinstance(trace, Trace) or trace.concrete
        return {"boolean indexing": known, "data-dependent shapes": known, "max dimensions": 64}

    def default_device(self) -> str:
        """The device on which arrays are created."""
        return "cpu"

    def devices(self) -> list[str]:
        """The devices that arrays can be on."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that Python's numbers become."""
        return _supported(_NUMPYS.default_dtypes(device=device))

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes of a kind, by their names."""
        return _supported(_NUMPYS.dtypes(device=device, kind=kind))


def _supported(dtypes: Any) -> dict[str, np.dtype[Any]]:
    return {name: dtype for name, dtype in dtypes.items() if is_supported(np.dtype(dtype))}


def array_namespace_info() -> ArrayNamespaceInfo:
    """The namespace's abilities, devices and dtypes.

    Examples
    --------
    >>> import functrans.numpy as fnp
    >>> fnp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """
    return ArrayNamespaceInfo()


def _array_namespace(api_version: str | None) -> Any:
    if api_version is not None and api_version not in API_VERSIONS:
        raise ValueError(
            f"version {api_version!r} of the array API standard is not supported: "
            f"these are, {', '.join(API_VERSIONS)}"
        )
    return sys.modules["functrans.numpy"]


def answer_for_compat() -> None:
    """Let `array_api_compat` find one namespace for plain arrays among traced values."""
    compat = sys.modules["array_api_compat"]
    delegate(
        compat.array_namespace, lambda *arrays, **options: _array_namespace(None), with_tracers
    )


# -- dtypes ----------------------------------------------------------------------------------------


def _dtype_of(x: Any) -> Any:
    return x.dtype if isinstance(x, (Tracer, np.ndarray, np.generic)) else x


def finfo(type: Any, /) -> Any:
    """The limits of a dtype of floats, or of an array's.

    Examples
    --------
    >>> import numpy as np
    >>> float(finfo(np.float32).eps) == 2.0**-23
    True
    """
    return np.finfo(_dtype_of(type))


def iinfo(type: Any, /) -> Any:
    """The limits of a dtype of integers, or of an array's.

    Examples
    --------
    >>> import numpy as np
    >>> iinfo(np.zeros(3, np.int8)).max
    127
    """
    return np.iinfo(_dtype_of(type))


# -- devices and other libraries -------------------------------------------------------------------


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array of another library, which shares its memory; within a trace, a constant.

    Examples
    --------
    >>> import numpy as np
    >>> from_dlpack(np.arange(3))
    array([0, 1, 2])
    """
    if isinstance(x, Tracer):
        return duplicate(x) if copy else x
    return constant(np.from_dlpack(x, device=device, copy=copy))


def _to_device(self: Tracer, device: Any, /, *, stream: Any = None) -> Tracer:
    if device != "cpu" or stream is not None:
        raise ValueError(f"x.to_device({device!r}){here()}: arrays are on 'cpu', without streams")
    return self


def _dlpack(
    self: Tracer, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
    copy: bool | None = None,
) -> NoReturn:  # fmt: skip
    raise TracerConversionError(
        f"{self._described()} cannot be handed to another library by DLPack"
        f"{here()}: it has no memory.\n"
        "Compute with functrans.numpy, or call the other library through functrans.from_numba or "
        "on the results."
    )


protocols.operators["array_namespace"] = _array_namespace
protocols.methods.update(
    {"to_device": _to_device, "__dlpack__": _dlpack, "__dlpack_device__": lambda self: (1, 0)}
)
