"""The environment part of the disk cache's key: this library, LLVM, the CPU.

It is determined without importing LLVM, which a process that finds its code on disk never needs.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from functrans import config
from functrans.caches import once
from functrans.version import __version__

FORMAT = 3
"""The version, to be increased whenever the same text is to be compiled differently."""

_CPU_FIELDS = (
    "vendor_id", "cpu family", "model", "model name", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
)  # fmt: skip

_MOST_OF_A_CPU = 16384
"""The most bytes of the first CPU's description."""


def of_code() -> Any:
    """A new hash of everything besides the text that determines object code."""
    return _for_cpu(_of_process())


def of_programs() -> Any:
    """A new hash of everything besides the graph that determines a compiled program."""
    circumstances = _for_cpu(of_library())
    circumstances.update(f"{config.skip_passes}\n".encode())
    return circumstances


def _for_cpu(circumstances: Any) -> Any:
    """The hash, extended by the configured subset of this CPU's features."""
    circumstances = circumstances.copy()
    circumstances.update(f"{config.cpu}\n".encode())
    return circumstances


@once
def _of_process() -> Any:
    values = (__version__, FORMAT, *_llvm(), sys.platform, *_cpu())
    return hashlib.sha256("\n".join(map(str, values)).encode() + b"\n")


@once
def of_library() -> Any:
    """The hash of this library on this machine: to be copied, and the copy updated."""
    # unlike text, a graph does not determine the code without the library's sources
    circumstances = _of_process().copy()
    circumstances.update("".join(_sources()).encode())
    return circumstances


def _llvm() -> Iterator[object]:
    """The installed version of LLVM."""
    spec = importlib.util.find_spec("llvmlite")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        for path in sorted(Path(folder, "binding").glob("*llvmlite.*")):
            about = path.stat()
            yield f"{path.name} {about.st_size} {about.st_mtime_ns}"


def _cpu() -> Iterator[object]:
    """The CPU of this machine, and its features."""
    yield sys.maxsize
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file.read(_MOST_OF_A_CPU).split("\n\n")[0].splitlines():
            if line.split("\t")[0].split(":")[0].strip() in _CPU_FIELDS:
                yield line
        return
    yield os.environ.get("PROCESSOR_IDENTIFIER")
    if sys.platform == "darwin":
        name = ctypes.create_string_buffer(256)
        length = ctypes.c_size_t(len(name))
        by_name = ctypes.CDLL(None).sysctlbyname
        by_name(b"machdep.cpu.brand_string", name, ctypes.byref(length), None, 0)
        yield name.value


def _sources() -> Iterator[str]:
    """The library's own files, which a developer may change without changing the version."""
    package = Path(__file__).parents[2]
    yield from _files(str(package))
    for archive in filter(Path.is_file, package.parents):  # imported from a zip file
        about = archive.stat()
        yield f"{archive.name} {about.st_size} {about.st_mtime_ns}\n"


def _files(folder: str) -> Iterator[str]:
    """The files of a folder and its subfolders, in a deterministic order."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.name.endswith((".py", ".ll")):
                about = entry.stat()
                yield f"{entry.name} {about.st_size} {about.st_mtime_ns}\n"
            elif "." not in entry.name and entry.name != "__pycache__":
                yield from _files(entry.path)
