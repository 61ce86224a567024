"""LLVM text to machine code in memory."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from functrans.run import elf

_numbers = itertools.count()
_lock = threading.Lock()


@dataclass(frozen=True)
class Code:
    """Machine code that has been loaded.

    Parameters
    ----------
    address : int
        Where the function starts, valid as long as this object lives.
    """

    address: int
    _library: Any


@lru_cache(maxsize=1)
def _jit() -> tuple[Any, Any]:
    """LLVM's binding, and its linker."""
    import llvmlite.binding as llvm

    return llvm, llvm.create_lljit_compiler(target_machine(), use_jit_link=False)


@lru_cache(maxsize=1)
def _generator() -> Any:
    """The one target machine that makes code: making it takes longer than a small kernel."""
    return target_machine()


def target_machine() -> Any:
    """What to generate code for: this CPU, with all that it has."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu_name(), features=cpu_features(), opt=2, reloc="pic", codemodel="small", jit=True
    )


@lru_cache(maxsize=1)
def cpu_name() -> str:
    import llvmlite.binding as llvm

    name: str = llvm.get_host_cpu_name()
    return name


@lru_cache(maxsize=1)
def cpu_features() -> str:
    import llvmlite.binding as llvm

    flags = dict(llvm.get_host_cpu_features())
    if flags.get("avx512f") and flags.get("avx512vl"):
        # 512-bit registers also where LLVM's tuning for the CPU would halve them
        flags["prefer-256-bit"] = False
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items()))


@lru_cache(maxsize=1)
def vector_bytes() -> int:
    """The width of the widest vector registers of this CPU."""
    features = cpu_features().split(",")
    if "+avx512f" in features and "+avx512dq" in features:
        return 64
    return 32 if "+avx2" in features else 16


def optimise_module(text: str) -> Any:
    """Parse LLVM text and run the optimisation passes over it."""
    import llvmlite.binding as llvm

    machine = _generator()
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    module.data_layout = str(machine.target_data)
    # The emitter has written the vectors and shared what is equal. LLVM's whole pipeline takes
    # twice as long to compile, and the code is not faster (docs/performance.md).
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def assembly(text: str) -> str:
    """The machine code that LLVM text becomes, in the assembler's language."""
    with _lock:
        result: str = _generator().emit_assembly(optimise_module(text))
    return result


def compile_object(text: str) -> bytes:
    """Machine code for LLVM text, as an object file in memory."""
    with _lock:
        image: bytes = _generator().emit_object(optimise_module(text))
    return image


def link(image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    """Load an object file; `imports` are the addresses of the external functions that it calls."""
    if elf.SUPPORTED:
        with suppress(elf.NotUnderstood):
            loaded = elf.load(image, imports)
            return Code(loaded.symbols[symbol], loaded)
    return _link_by_llvm(image, symbol, imports)


def _link_by_llvm(image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    with _lock:
        llvm, linker = _jit()
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, address in imports.items():
            builder.import_symbol(name, address)
        library = builder.export_symbol(symbol).link(linker, f"functrans{next(_numbers)}")
        return Code(library[symbol], library)
