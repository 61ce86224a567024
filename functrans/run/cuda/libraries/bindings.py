"""The libraries themselves, by their C functions: loaded when something first calls one.

`nvmath.bindings` has them with raw pointers, streams and workspaces, and the driver comes with
`cuda.bindings`. All is reached through one record, so that tests can put another in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

from functrans.caches import once
from functrans.errors import DeviceError
from functrans.locks import importing

T = TypeVar("T")


class Bindings(NamedTuple):
    """The modules whose functions are called, and whose enumerations are passed."""

    cublas: Any
    cublas_lt: Any
    cusolver: Any  # the enumerations of cuSOLVER
    cusolver_dn: Any  # its functions for dense matrices
    cufft: Any
    driver: Any
    data_type: Any  # the enumeration ``cudaDataType``


@once
def are_installed() -> bool:
    """Whether the packages are there; the libraries' files are looked for by the first call."""
    return find_spec("nvmath") is not None


@once
def bindings() -> Bindings:
    """The libraries of this machine.

    Raises
    ------
    DeviceError
        If the packages are not installed.
    """
    try:
        with importing:
            from cuda.bindings import driver
            from nvmath import CudaDataType
            from nvmath.bindings import cublas, cublasLt, cufft, cusolver, cusolverDn
    except ImportError as error:
        raise absent(f"the package {error.name or error}") from None
    return Bindings(cublas, cublasLt, cusolver, cusolverDn, cufft, driver, CudaDataType)


def absent(what: str) -> DeviceError:
    """The error that something of the libraries is not installed."""
    return DeviceError(
        f"{what} is not installed: on a GPU, matrix products, linear algebra and Fourier "
        "transforms are done by cuBLAS, cuSOLVER and cuFFT. They come with "
        '`pip install "functrans[cuda-linalg]"`.'
    )


def first_call(library: str, create: Callable[[], T]) -> T:
    """The result of the first call of a library, which is when its file is looked for.

    Raises
    ------
    DeviceError
        If there is no such file. (What else may go wrong, the library says itself.)
    """
    try:
        return create()
    except RuntimeError as error:
        # the class is one of cuda.pathfinder's, which only says so when it has looked in vain
        if type(error).__name__ != "DynamicLibNotFoundError":
            raise
        raise absent(f"the library {library}") from None


def checked(result: Any) -> Any:
    """The results of a function of the driver beside its status.

    Raises
    ------
    DeviceError
        If the status is one of an error.
    """
    status, *values = result
    if status:
        raise DeviceError(f"the CUDA driver answered {getattr(status, 'name', status)}")
    return values[0] if values else None
