"""Translation of LLVM IR to nvJitLink's input by NVVM, which needs neither a driver nor a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from functrans.caches import once
from functrans.errors import DeviceError
from functrans.locks import importing

_OF_NVIDIA = "@__nv_"
"""The prefix of the functions of NVIDIA's device library in LLVM IR."""


def dialect() -> Sequence[int]:
    """The versions of LLVM IR and of its debug information that NVVM supports."""
    return _bindings().ir_version()


def intermediate(
    modules: Sequence[str],  # LLVM IR, in which ``@llvm.used`` names the functions to be kept
    architecture: str,  # a virtual one: ``"compute_90"``
) -> bytes:
    """The intermediate form of modules, for link-time optimisation.

    Raises `RuntimeError` if NVVM refuses it, with its message.
    """
    nvvm = _bindings()
    options = [f"-arch={architecture}", "-opt=3", "-fma=0", "-gen-lto"]
    program = nvvm.create_program()
    try:
        for module in modules:
            text = module.encode()
            nvvm.add_module_to_program(program, text, len(text), "kernel")
        nvvm.verify_program(program, len(options), options)
        if any(_OF_NVIDIA in module.replace('"', "") for module in modules):
            # added after verification, whose rules it violates
            library = _library()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        nvvm.compile_program(program, len(options), options)
        result = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, result)
    except nvvm.nvvmError as error:
        raise RuntimeError(_log(nvvm, program)) from error
    finally:
        nvvm.destroy_program(program)
    return bytes(result)


def _log(nvvm: Any, program: Any) -> str:
    log = bytearray(nvvm.get_program_log_size(program))
    nvvm.get_program_log(program, log)
    return log.decode().strip("\0").strip()


@once
def _bindings() -> Any:
    with importing:
        return loaded(import_module("cuda.bindings.nvvm"), "NVVM")


def loaded(bindings: Any, name: str) -> Any:
    """A module of cuda.bindings, after checking that its library exists.

    Raises `DeviceError` if the library is missing.
    """
    with importing:
        pathfinder = import_module("cuda.pathfinder")
    try:
        bindings.version()
    except pathfinder.DynamicLibNotFoundError as error:
        raise _absent(name) from error
    return bindings


@once
def _library() -> bytes:
    """NVIDIA's device library, as LLVM bitcode."""
    with importing:
        pathfinder = import_module("cuda.pathfinder")
    try:
        path = pathfinder.find_bitcode_lib("device")
    except pathfinder.BitcodeLibNotFoundError as error:
        raise _absent("libdevice") from error
    return Path(path).read_bytes()


def _absent(name: str) -> DeviceError:
    return DeviceError(
        f"kernels for CUDA are compiled with NVIDIA's {name}, which is not on this machine: "
        'pip install "functrans[cuda]", or have CUDA_HOME say where the CUDA toolkit is'
    )
