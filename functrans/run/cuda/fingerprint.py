"""The environment part of the key of cubins on disk: compilers and this library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from typing import Any

from functrans.caches import once
from functrans.run.code import fingerprint

_PACKAGES = (
    "numba-cuda", "cuda-core", "cuda-bindings", "cuda-toolkit", "nvidia-nvvm", "nvidia-nvjitlink",
)  # fmt: skip


def of_cubins() -> Any:
    """A new hash of everything besides the text that determines a cubin."""
    return _of_cubins().copy()


@once
def _of_cubins() -> Any:
    # kernels call functions of this library, too
    circumstances = fingerprint.of_library().copy()
    circumstances.update("\n".join(map(str, _compilers())).encode())
    return circumstances


def _compilers() -> Iterator[object]:
    """The installed compiler of CUDA kernels, and the configured alternative."""
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            yield f"{package} {metadata.version(package)}"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        yield f"{variable} {os.environ.get(variable)}"
