"""From LLVM IR to PTX by NVVM, NVIDIA's compiler, which needs neither a driver nor a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from functrans.caches import once
from functrans.locks import importing

_OF_NVIDIA = "@__nv_"
"""How the functions of NVIDIA's library begin, where LLVM IR calls them."""


def dialect() -> Sequence[int]:
    """The versions of LLVM's language, and of its debugging information, that NVVM takes."""
    found: Sequence[int] = _bindings().ir_version()
    return found


def ptx(module: str, architecture: str) -> str:
    """The PTX of a module.

    Parameters
    ----------
    module : str
        LLVM IR.
    architecture : str
        A virtual one: ``"compute_90"``.

    Raises
    ------
    RuntimeError
        If NVVM refuses it, with what it says.
    """
    nvvm = _bindings()
    options = [f"-arch={architecture}", "-opt=3", "-fma=0"]
    program = nvvm.create_program()
    try:
        text = module.encode()
        nvvm.add_module_to_program(program, text, len(text), "kernel")
        nvvm.verify_program(program, len(options), options)
        if _OF_NVIDIA in module.replace('"', ""):
            # (after what is verified, since it does not keep the rules)
            library = _library()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        nvvm.compile_program(program, len(options), options)
        result = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, result)
    except nvvm.nvvmError as error:
        raise RuntimeError(_log(nvvm, program)) from error
    finally:
        nvvm.destroy_program(program)
    return result.decode().strip("\0").strip()


def _log(nvvm: Any, program: Any) -> str:
    log = bytearray(nvvm.get_program_log_size(program))
    nvvm.get_program_log(program, log)
    return log.decode().strip("\0").strip()


@once
def _bindings() -> Any:
    with importing:
        return import_module("cuda.bindings.nvvm")


@once
def _library() -> bytes:
    """NVIDIA's functions for devices, as LLVM bitcode."""
    with importing:
        pathfinder = import_module("cuda.pathfinder")
    return Path(pathfinder.find_bitcode_lib("device")).read_bytes()
