"""LLVM text to machine code in memory."""

from __future__ import annotations

import atexit
import itertools
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from functrans.caches import cached, once
from functrans.locks import importing, lock, wait_at_fork
from functrans.run.code import elf
from functrans.run.code.aside import aside

_numbers = itertools.count()
_compiling = lock()


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


@once
def _llvm() -> Any:
    """LLVM's binding.

    Every call of it is made under one lock of llvmlite's, and takes as long as LLVM does. Nobody
    must be in there when the process forks: the child would find LLVM as it was left. Nor when the
    process ends: LLVM takes itself apart, and who is still at work crashes. So both wait.
    """
    with importing:
        import llvmlite.binding as llvm

        inside = llvm.ffi.lib._lock
        wait_at_fork(inside.__enter__, partial(inside.__exit__, None, None, None))
    atexit.register(_end, inside)
    return llvm


def _end(inside: Any) -> None:
    """Let what is being compiled be finished, and no other thread begin again."""
    _compiling.acquire()
    inside.__enter__()


@once
def _linker() -> Any:
    return _llvm().create_lljit_compiler(target_machine(), use_jit_link=False)


@once
def _generator() -> Any:
    """The one target machine that makes code: making it takes longer than a small kernel."""
    return target_machine()


def target_machine() -> Any:
    """What to generate code for: this CPU, with all that it has."""
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu_name(), features=cpu_features(), opt=2, reloc="pic", codemodel="small", jit=True
    )


@once
def cpu_name() -> str:
    name: str = aside(lambda: _llvm().get_host_cpu_name())
    return name


@once
def cpu_features() -> str:
    flags = dict(aside(lambda: _llvm().get_host_cpu_features()))
    if flags.get("avx512f") and flags.get("avx512vl"):
        # 512-bit registers also where LLVM's tuning for the CPU would halve them
        flags["prefer-256-bit"] = False
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items()))


@once
def vector_bytes() -> int:
    """The width of the widest vector registers of this CPU."""
    features = cpu_features().split(",")
    if "+avx512f" in features and "+avx512dq" in features:
        return 64
    return 32 if "+avx2" in features else 16


def optimise_module(text: str) -> Any:
    """Parse LLVM text and run the optimisation passes over it."""
    llvm = _llvm()
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
    result: str = aside(lambda: _generator().emit_assembly(optimise_module(text)))
    return result


def compile_object(text: str) -> bytes:
    """Machine code for LLVM text, as an object file in memory.

    If a signal breaks this off, the work goes on, and who asks again waits for the rest of it.
    """
    return aside(partial(_compiled, text))


def _compiled(text: str) -> bytes:
    with _compiling:
        return _image(text)


@cached(4)
def _image(text: str) -> bytes:
    image: bytes = _generator().emit_object(optimise_module(text))
    return image


def link(image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    """Load an object file; `imports` are the addresses of the external functions that it calls."""
    if elf.SUPPORTED:
        with suppress(elf.NotUnderstood):
            loaded = elf.load(image, imports)
            return Code(loaded.symbols[symbol], loaded)
    return aside(partial(_link_by_llvm, image, symbol, imports))


def _link_by_llvm(image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    builder = _llvm().JITLibraryBuilder().add_object_img(image).add_current_process()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    library = builder.export_symbol(symbol).link(_linker(), f"functrans{next(_numbers)}")
    return Code(library[symbol], library)
