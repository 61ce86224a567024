"""The compiler interface: from the source of a kernel to a cubin, for one architecture.

The source is translated to LLVM IR (`functrans.emit.cuda.translation`, or by Numba if configured in
`config.backend`), by NVVM to an intermediate form, and by NVIDIA's linker, nvJitLink, to machine
code. None of these needs a driver or a GPU. Cubins are cached on disk, by a key of everything that
determines them.
"""

from __future__ import annotations

import ast
import json
import re
from base64 import b64decode, b64encode
from importlib.util import find_spec

from functrans import config
from functrans.caches import cached
from functrans.emit.cuda.translation import translated
from functrans.errors import DeviceError
from functrans.parsing import parsed
from functrans.records import NamedTuple
from functrans.run.code import cache
from functrans.run.cuda import fingerprint, nvjitlink, nvvm
from functrans.run.cuda.by_numba import modules_by_numba
from functrans.run.cuda.resources import Resources, parse

ARCHITECTURE = re.compile(r"sm_(\d+)(\d)([af]?)")

OLDEST = 7, 5
"""The least compute capability that the compiler of CUDA 13 supports."""

_PACKAGES = {"cuda.bindings.nvvm": "cuda-bindings", "cuda.bindings.nvjitlink": "cuda-bindings"}
"""The modules that compilation needs, and their packages."""

_OF_NUMBA = {"numba_cuda": "numba-cuda"}


class Cubin(NamedTuple):
    """A compiled kernel."""

    name: str
    """The symbol to launch."""
    code: bytes
    intermediate: bytes
    """The intermediate form that it was compiled from, for link-time optimisation."""
    architecture: str
    resources: Resources

    @property
    def ptx(self) -> str:
        """Its PTX, NVIDIA's portable assembly language."""
        return nvjitlink.ptx(self.intermediate, self.architecture)


class Request(NamedTuple):
    """What determines a cubin, besides the environment."""

    # a definition of one function, which may use what is in `functrans.emit.cuda.names`, ``np`` and
    # ``math``
    source: str
    # the types of its arguments: dtypes of numbers, or pointers like ``"float32*"``
    signature: tuple[str, ...]
    architecture: str = "sm_90"  # by NVIDIA's name: ``"sm_90"``
    # The most threads of a block. Without it, a kernel may use more registers than a block of 1,024
    # threads can have, and the launch of such a block would fail.
    threads: int | None = None
    # with `threads`: the number of such blocks for which a multiprocessor must have registers
    blocks: int = 1
    backend: str = "native"


def compile_cubin(
    source: str,
    signature: tuple[str, ...],
    architecture: str = "sm_90",
    threads: int | None = None,
    blocks: int = 1,
) -> Cubin:
    """Compile a kernel, or load it from disk; the parameters are those of a `Request`.

    Raises `DeviceError` if packages are not installed.
    """
    return _compiled(Request(source, signature, architecture, threads, blocks, config.backend))


@cached(1024)
def _compiled(request: Request) -> Cubin:
    architecture = request.architecture
    if capability(architecture) < OLDEST:
        raise DeviceError(
            f"kernels are not compiled for GPUs of architecture {architecture}: expected sm_75 "
            "(Turing) or newer; use another GPU, or the CPU"
        )
    key = key_of(request)
    store = cache.disk()
    kept = store.get(key) if store is not None else None
    if kept is not None:
        return _from_bytes(kept)
    require_compiler(request.backend)
    found = _intermediate(request)
    code, log = nvjitlink.cubin(found, architecture)
    cubin = Cubin(function_name(request.source), code, found, architecture, parse(log))
    if store is not None:
        store.put(key, _to_bytes(cubin))
    return cubin


def capability(architecture: str) -> tuple[int, int]:
    """The compute capability of an architecture: ``(9, 0)`` for ``"sm_90"``.

    Raises `ValueError` if the name is invalid.
    """
    found = ARCHITECTURE.fullmatch(architecture)
    if found is None:
        raise ValueError(f"an architecture is called as in 'sm_90', not {architecture!r}")
    return int(found[1]), int(found[2])


def missing(backend: str = "native") -> list[str]:
    """The packages that compilation needs and that are not installed."""
    packages = _PACKAGES | (_OF_NUMBA if backend == "numba" else {})
    return sorted({package for module, package in packages.items() if not _is_installed(module)})


def require_compiler(backend: str = "native") -> None:
    """Check that the packages for compilation are installed.

    Raises `DeviceError`.
    """
    absent = missing(backend)
    if absent:
        raise DeviceError(
            f"kernels for CUDA are compiled with {', '.join(absent)}, not installed here: "
            'pip install "functrans[cuda]"'
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # its parent package is missing
        return False


def key_of(request: Request) -> str:
    """The key of a cubin on disk."""
    digest = fingerprint.of_cubins()
    digest.update(repr(tuple(request)).encode())
    return str(digest.hexdigest())


def _intermediate(request: Request) -> bytes:
    source, signature, architecture, threads, blocks, backend = request
    major, minor = capability(architecture)
    if backend == "numba":
        name = function_name(source)
        modules = modules_by_numba(source, name, signature, (major, minor), threads, blocks)
    else:
        modules = [translated(source, signature, nvvm.dialect(), threads, blocks)]
    return nvvm.intermediate(modules, f"compute_{major}{minor}")


def function_name(source: str) -> str:
    """The name of the function that a source defines."""
    names = [node.name for node in parsed(source) if isinstance(node, ast.FunctionDef)]
    if len(names) != 1:
        raise ValueError(f"the source of a kernel defines one function, not {len(names)}")
    return names[0]


def _to_bytes(cubin: Cubin) -> bytes:
    name, code, intermediate, *rest = cubin
    about = json.dumps([name, b64encode(intermediate).decode(), *rest])
    return about.encode() + b"\n" + code


def _from_bytes(content: bytes) -> Cubin:
    about, _, code = content.partition(b"\n")
    name, intermediate, architecture, resources = json.loads(about)
    return Cubin(name, code, b64decode(intermediate), architecture, Resources(*resources))
