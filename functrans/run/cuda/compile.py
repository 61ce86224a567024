"""The one seam to the compiler: from the source of a kernel to a cubin, for one architecture.

Numba translates Python to PTX by NVVM, which needs neither a driver nor a GPU; NVIDIA's linker,
nvJitLink, has PTX assembled. Cubins are kept on disk, by a key of all that they follow from.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from functrans.caches import cached, once
from functrans.emit.cuda import names as emit_names
from functrans.emit.cuda.site import numba_type
from functrans.errors import DeviceError
from functrans.locks import importing
from functrans.run.code import cache, fingerprint
from functrans.run.cuda.resources import Resources, parse

ARCHITECTURE = re.compile(r"sm_(\d+)(\d)([af]?)")

_PACKAGES = {
    "numba_cuda": "numba-cuda",
    "cuda.core": "cuda-core",
    "cuda.bindings.nvvm": "cuda-bindings",
    "cuda.bindings.nvjitlink": "cuda-bindings",
}
"""The modules that compiling takes, and the packages that have them."""


class Cubin(NamedTuple):
    """A compiled kernel."""

    name: str
    """The symbol to launch."""
    code: bytes
    ptx: str
    """What it was assembled from: NVIDIA's portable assembly language."""
    resources: Resources


def compile_cubin(
    source: str,
    signature: tuple[str, ...],
    architecture: str = "sm_90",
    threads: int | None = None,
    blocks: int = 1,
) -> Cubin:
    """Compile a kernel, or find it on disk.

    Parameters
    ----------
    source : str
        A definition of one function, which may use what is in `functrans.emit.cuda.names`, ``np``
        and ``math``.
    signature : tuple of str
        The types of its arguments: dtypes, of numbers, or of what pointers point to, as
        ``"float32*"``.
    architecture : str
        As NVIDIA calls it: ``"sm_90"``.
    threads : int, optional
        The most threads that a block will have. Without this, a kernel may take more registers
        than there are for a block of 1,024 threads, and the launch of one would fail.
    blocks : int, optional
        With `threads`: so many blocks of these a multiprocessor must have registers for.

    Raises
    ------
    DeviceError
        If packages are not installed.
    """
    return _compiled(source, signature, architecture, threads, blocks)


@cached(1024)
def _compiled(
    source: str, signature: tuple[str, ...], architecture: str, threads: int | None, blocks: int
) -> Cubin:
    if ARCHITECTURE.fullmatch(architecture) is None:
        raise ValueError(f"an architecture is called as in 'sm_90', not {architecture!r}")
    key = key_of(source, signature, architecture, threads, blocks)
    store = cache.disk()
    kept = store.get(key) if store is not None else None
    if kept is not None:
        return _from_bytes(kept)
    require_compiler()
    name, ptx = _ptx(source, signature, architecture, threads, blocks)
    code, log = _linked(name, ptx, architecture)
    cubin = Cubin(name, code, ptx, parse(log))
    if store is not None:
        store.put(key, _to_bytes(cubin))
    return cubin


def missing() -> list[str]:
    """The packages that compiling takes, and that are not installed."""
    return sorted({package for module, package in _PACKAGES.items() if not _is_there(module)})


def require_compiler() -> None:
    """See that what compiling takes is installed.

    Raises
    ------
    DeviceError
    """
    absent = missing()
    if absent:
        raise DeviceError(
            f"kernels for CUDA are compiled with {', '.join(absent)}, not installed here: "
            'pip install "functrans[cuda]"'
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # the package that it would be in is not there
        return False


def key_of(
    source: str,
    signature: tuple[str, ...],
    architecture: str,
    threads: int | None = None,
    blocks: int = 1,
) -> str:
    """The key of a cubin on disk."""
    digest = fingerprint.of_cubins()
    digest.update(repr((source, signature, architecture, threads, blocks)).encode())
    return str(digest.hexdigest())


@once
def _numba_cuda() -> Any:
    with importing:
        from numba import cuda

        with _with_older_names():
            import_module("numba.cuda.np.arrayobj")
        return cuda


@contextmanager
def _with_older_names() -> Iterator[None]:
    """NumPy with a name that 2.5 has no more: numba-cuda 0.30 asks for it while it is imported."""
    if "row_stack" in vars(np):
        yield
        return
    setattr(np, "row_stack", np.vstack)  # noqa: B010 (types know that there is none)
    try:
        yield
    finally:
        delattr(np, "row_stack")


@once
def _cuda_core() -> Any:
    with importing:
        from cuda import core

        return core


def _ptx(
    source: str, signature: tuple[str, ...], architecture: str, threads: int | None, blocks: int
) -> tuple[str, str]:
    cuda = _numba_cuda()
    scope: dict[str, Any] = {"np": np, "math": math, **emit_names.names()}
    name = function_name(source)
    exec(source, scope)
    found = ARCHITECTURE.fullmatch(architecture)
    assert found is not None
    kinds = [numba_type(kind) for kind in signature]
    # (it holds Numba's compiler lock)
    text, _ = cuda.compile_ptx(
        scope[name],
        numba_type("none")(*kinds),
        cc=(int(found[1]), int(found[2])),
        launch_bounds=threads if blocks == 1 else (threads, blocks),
    )
    return name, _renamed(text, name)


def function_name(source: str) -> str:
    """The name of the function that a source defines."""
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    if len(names) != 1:
        raise ValueError(f"the source of a kernel defines one function, not {len(names)}")
    return names[0]


_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_ENVIRONMENT = re.compile(r"\.common \.global [^;]* _ZN08NumbaEnv[^;]*;\n")
"""What Numba declares for Python's sake, and no kernel uses."""


def _renamed(ptx: str, name: str) -> str:
    """PTX whose kernel has its own name: Numba's has a number in it that counts functions."""
    [mangled] = _ENTRY.findall(ptx)
    return _ENVIRONMENT.sub("", ptx).replace(mangled, name)


def _linked(name: str, ptx: str, architecture: str) -> tuple[bytes, str]:
    """Machine code, and what the assembler says about it."""
    core = _cuda_core()
    options = core.LinkerOptions(name=name, arch=architecture, ptxas_options=["-v"], verbose=True)
    linker = core.Linker(core.ObjectCode.from_ptx(ptx.encode(), name=name), options=options)
    code = bytes(linker.link("cubin").code)
    return code, linker.get_info_log()


def _to_bytes(cubin: Cubin) -> bytes:
    about = json.dumps([cubin.name, cubin.ptx, cubin.resources])
    return about.encode() + b"\n" + cubin.code


def _from_bytes(content: bytes) -> Cubin:
    about, _, code = content.partition(b"\n")
    name, ptx, resources = json.loads(about)
    return Cubin(name, code, ptx, Resources(*resources))
