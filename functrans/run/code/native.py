"""Code generation by LLVM: from LLVM IR to machine code in memory."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from functrans import config
from functrans.caches import cached, once
from functrans.locks import lock
from functrans.run.code import machine
from functrans.run.code.aside import aside, side_by_side
from functrans.run.code.binding import inside, llvm, unlocked
from functrans.run.code.machine import Machine

_numbers = itertools.count()


@once
def _linker() -> Any:
    return llvm().create_lljit_compiler(machine.host().target_machine(), use_jit_link=False)


def vector_bytes() -> int:
    """The width of the widest vector registers of the machine that code is compiled for."""
    return machine.current().vector_bytes


def registers() -> int:
    """The number of vector registers of that machine."""
    return machine.current().registers


def library_sorts() -> bool:
    """Whether NumPy has fast sorts: AMD's CPUs store compressed vectors by microcode.

    With AVX2, NumPy permutes vectors instead.
    """
    host = machine.host()
    return host.vector_bytes == 32 or (host.vector_bytes == 64 and not host.cpu.startswith("znver"))


def slow_division() -> bool:
    """Whether dividing vectors is slow: Intel's CPUs take 16 cycles for one of 64 bytes."""
    return whole_vectors()


def whole_vectors() -> bool:
    """Whether a core computes whole vectors of 64 bytes, as Intel's do, and not halves of them."""
    wide = machine.current().vector_bytes == 64
    return wide and not machine.host().cpu.startswith("znver")


def instructions() -> frozenset[str]:
    """The instructions of that machine that replace functions."""
    return machine.current().instructions


def optimise_module(text: str, target: Machine, generator: Any) -> Any:
    """Parse LLVM text and run the optimisation passes over it."""
    binding = llvm()
    module = binding.parse_assembly(text, binding.create_context())
    if config.check_plans:
        module.verify()
    module.triple = target.triple
    module.data_layout = str(generator.target_data)
    # The emitter has vectorised the code, and shared common subexpressions. LLVM's full pipeline
    # takes twice as long, and the code is not faster (docs/measurements.md).
    options = binding.create_pipeline_tuning_options(speed_level=1)
    builder = binding.create_pass_builder(generator, options)
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_sccp_pass()  # branches on constants: less code for the passes that follow
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def assembly(text: str) -> str:
    """The assembly text of LLVM text."""
    return aside(partial(_made, text, machine.current(), False)).decode()


def compile_object(
    text: str,
    target: Machine | None = None,  # the machine to compile for; by default this one
) -> bytes:
    """Machine code for LLVM text, as an object file in memory."""
    return compile_objects([text], target)[0]


def compile_objects(texts: Sequence[str], target: Machine | None = None) -> list[bytes]:
    """Machine code for several modules, as object files in memory, compiled in parallel threads.

    If a signal interrupts this, running compilations continue, and later requests for the same
    modules wait for them.
    """
    target = target or machine.current()
    # the longest first, so that it does not run alone at the end
    modules = [_module(text, target) for text in sorted(set(texts), key=len, reverse=True)]
    side_by_side([module.image for module in modules], config.threads)
    return [_module(text, target).image() for text in texts]


class _Module:
    """A module under compilation by one thread, for which others wait."""

    def __init__(self, text: str, target: Machine) -> None:
        self._make = partial(_made, text, target, True)
        self._making = lock()
        self._image: bytes | None = None

    def image(self) -> bytes:
        with self._making:
            if self._image is None:
                self._image = self._make()
            return self._image


_module = cached(256)(_Module)


def _made(text: str, target: Machine, as_object: bool) -> bytes:
    """The machine code of a module, or its assembly text."""
    library = llvm().ffi.lib
    with inside, target.generator() as generator:
        module = optimise_module(text, target, generator)
        with llvm().ffi.OutputString() as error:
            memory = unlocked()(generator, module, int(as_object), error)
            if not memory:
                raise RuntimeError(str(error))
        start, size = library.LLVMPY_GetBufferStart(memory), library.LLVMPY_GetBufferSize(memory)
        try:
            return ctypes.string_at(start, size)
        finally:
            library.LLVMPY_DisposeMemoryBuffer(memory)


def link(image: bytes, symbol: str, imports: dict[str, int]) -> tuple[int, Any]:
    """Load an object file: the address of a function in it, and an object to be kept alive."""
    return aside(partial(_linked, image, symbol, imports))


def _linked(image: bytes, symbol: str, imports: dict[str, int]) -> tuple[int, Any]:
    builder = llvm().JITLibraryBuilder().add_object_img(image).add_current_process()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    library = builder.export_symbol(symbol).link(_linker(), f"functrans{next(_numbers)}")
    return library[symbol], library
