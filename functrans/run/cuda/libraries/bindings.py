"""Bindings of the C functions of NVIDIA's libraries, which are loaded at the first call.

`nvmath.bindings` has these functions, with raw pointers, streams and workspaces; `cuda.bindings`
has the driver. All are reached through one record, which tests can replace.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

from functrans.caches import once
from functrans.errors import DeviceError
from functrans.locks import importing
from functrans.records import NamedTuple

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
    """Whether the packages are installed; the first call searches for the libraries' files."""
    return find_spec("nvmath") is not None


@once
def bindings() -> Bindings:
    """The libraries of this machine.

    Raises `DeviceError` if the packages are not installed.
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
    """The error that a part of the libraries is not installed."""
    return DeviceError(
        f"{what} is not installed: on a GPU, matrix products, linear algebra and Fourier "
        "transforms are done by cuBLAS, cuSOLVER and cuFFT. They come with "
        '`pip install "functrans[cuda-linalg]"`.'
    )


def first_call(library: str, create: Callable[[], T]) -> T:
    """The result of the first call of a library, which searches for its file.

    Raises `DeviceError` if there is no such file. (The library itself reports all other errors.)
    """
    try:
        return create()
    except RuntimeError as error:
        # the error's class belongs to cuda.pathfinder, which raises it only if it finds no file
        if type(error).__name__ != "DynamicLibNotFoundError":
            raise
        raise absent(f"the library {library}") from None


def checked(result: Any) -> Any:
    """The results of a function of the driver, without its status.

    Raises `DeviceError` if the status is an error.
    """
    status, *values = result
    if status:
        raise DeviceError(f"the CUDA driver answered {getattr(status, 'name', status)}")
    return values[0] if values else None
